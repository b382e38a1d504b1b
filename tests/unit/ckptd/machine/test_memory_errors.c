#include "machine/memory_errors.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[SCRATCH_MAX], path[SCRATCH_MAX + 256];

static void put(const char *name, const char *text)
{
	snprintf(path, sizeof(path), "%s/" MEMORY_ERRORS_DIR "/%s", root, name);
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	FILE *file = fopen(path, "w");
	cr_assert(file && fputs(text, file) >= 0 && !fclose(file));
}

static void setup(void)
{
	scratch_new(root);
}

static void teardown(void)
{
	scratch_remove(root);
}

TestSuite(memory_errors, .init = setup, .fini = teardown);

Test(memory_errors, are_counted_over_all_controllers)
{
	struct memory_errors is;
	put("mc0/ce_count", "17\n");
	put("mc0/ue_count", "0\n");
	put("mc1/ce_count", "25\n");
	put("mc1/ue_count", "2\n");
	put("power/control", "auto\n");
	cr_assert_eq(memory_errors_read(root, &is), 0);
	cr_assert_eq(is.corrected, 42u);
	cr_assert_eq(is.uncorrected, 2u);
	cr_assert_eq(is.controllers, 2u);
}

Test(memory_errors, a_kernel_that_counts_none_is_told)
{
	struct memory_errors is;
	cr_assert_eq(memory_errors_read(root, &is), -ENOENT, "there is no such directory");
	put("power/control", "auto\n");
	cr_assert_eq(memory_errors_read(root, &is), -ENOENT, "there is no controller");
}

Test(memory_errors, what_cannot_be_read_is_no_zero)
{
	struct memory_errors is;
	put("mc0/ce_count", "17\n");
	cr_assert_eq(memory_errors_read(root, &is), -ENOENT);
	put("mc0/ue_count", "many\n");
	cr_assert_eq(memory_errors_read(root, &is), -EINVAL);
}
