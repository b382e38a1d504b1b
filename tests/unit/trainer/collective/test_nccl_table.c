#include "collective/nccl_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
