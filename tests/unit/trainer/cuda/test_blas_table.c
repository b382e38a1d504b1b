#include "cuda/blas_table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct blas_table *table;
static char why[BLAS_WHY_SIZE];

Test(blas_table, a_library_that_is_missing_or_another_is_named)
{
	setenv("CKPT_CUBLAS_LIBRARY", "/nowhere/libcublas.so", 1);
	cr_assert_eq(blas_table_load(&table, why), -ENOENT);
	cr_assert(strstr(why, "/nowhere/libcublas.so"), "%s", why);
	setenv("CKPT_CUBLAS_LIBRARY", "libm.so.6", 1);
	cr_assert_eq(blas_table_load(&table, why), -ENOSYS);
	cr_assert(strstr(why, "libm.so.6 has no cublasCreate_v2"), "%s", why);
	cr_assert_null(table);
}

/* Where it is installed; without a GPU nothing can be created. */
Test(blas_table, the_real_library_has_all_calls)
{
	int rc;

	unsetenv("CKPT_CUBLAS_LIBRARY");
	rc = blas_table_load(&table, why);
	if (rc == -ENOENT)
		cr_skip_test("%s", why);
	cr_assert_eq(rc, 0, "%s", why);
	cr_assert_str_eq(table->text_of(0), "success");
}
