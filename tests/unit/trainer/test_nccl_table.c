#include "nccl_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
_Static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "");
_Static_assert(NCCL_ID_SIZE == NCCL_UNIQUE_ID_BYTES, "");
_Static_assert(offsetof(struct nccl_config, magic) == offsetof(ncclConfig_t, magic), "");
_Static_assert(offsetof(struct nccl_config, version) == offsetof(ncclConfig_t, version), "");
_Static_assert(offsetof(struct nccl_config, blocking) == offsetof(ncclConfig_t, blocking), "");
_Static_assert(offsetof(struct nccl_config, max_ctas) == offsetof(ncclConfig_t, maxCTAs), "");
_Static_assert(offsetof(struct nccl_config, net_name) == offsetof(ncclConfig_t, netName), "");
_Static_assert(offsetof(struct nccl_config, split_share) == offsetof(ncclConfig_t, splitShare), "");
_Static_assert(NCCL_UNDEFINED == NCCL_CONFIG_UNDEF_INT, "");
_Static_assert((int)NCCL_SUCCESS == (int)ncclSuccess && (int)NCCL_IN_PROGRESS == (int)ncclInProgress, "");
_Static_assert((int)NCCL_REMOTE_ERROR == (int)ncclRemoteError && (int)NCCL_INVALID_USAGE == (int)ncclInvalidUsage, "");
_Static_assert((int)NCCL_FLOAT32 == (int)ncclFloat32 && (int)NCCL_SUM == (int)ncclSum, "");
#endif

TestSuite(nccl_table, .timeout = 60);

Test(nccl_table, a_missing_library_is_named)
{
	const struct nccl_table *table;
	char why[NCCL_WHY_SIZE];

	setenv("CKPT_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
	cr_assert_eq(nccl_table_load(&table, why), -ENOENT);
	cr_assert_null(table);
	cr_assert(strstr(why, "/nowhere/libnccl.so.2"), "%s", why);
}

Test(nccl_table, another_library_is_refused_by_the_call_that_it_lacks)
{
	const struct nccl_table *table;
	char why[NCCL_WHY_SIZE];

	setenv("CKPT_NCCL_LIBRARY", "libm.so.6", 1);
	cr_assert_eq(nccl_table_load(&table, why), -ENOSYS);
	cr_assert_null(table);
	cr_assert(strstr(why, "libm.so.6 has no ncclGetVersion"), "%s", why);
}

/* Where it is installed; an identifier needs no GPU. */
Test(nccl_table, the_real_library_has_all_calls)
{
	const struct nccl_table *table;
	char why[NCCL_WHY_SIZE];
	int version = 0, rc;

	unsetenv("CKPT_NCCL_LIBRARY");
	rc = nccl_table_load(&table, why);
	if (rc == -ENOENT)
		cr_skip_test("%s", why);
	cr_assert_eq(rc, 0, "%s", why);
	cr_assert_eq(table->version(&version), NCCL_SUCCESS);
	cr_assert_geq(version, NCCL_VERSION_LEAST);
	cr_assert_str_eq(table->text_of(NCCL_SUCCESS), "no error");
}
