#include "base/cleanup.h"
#include "base/secret_file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* With that mode. */
static int check(mode_t mode, struct err *err)
{
	AUTO_CLOSE int fd = memfd_create("secret", MFD_CLOEXEC);
	cr_assert(fd >= 0 && !fchmod(fd, mode));
	return secret_file_check(fd, err);
}

Test(secret_file, is_closed_to_others)
{
	static const mode_t open_to_others[] = {0640, 0604, 0620, 0601};
	struct err err = {{0}};
	for (size_t i = 0; i < 4; i++) {
		cr_expect_eq(check(open_to_others[i], &err), -EACCES);
		cr_expect(strstr(err.text, "chmod 600"), "%s", err.text);
	}
	cr_expect_eq(check(0600, &err), 0, "%s", err.text);
	cr_expect_eq(check(0400, &err), 0, "%s", err.text);
}

Test(secret_file, is_no_folder_and_no_device)
{
	static const char *const paths[] = {"/", "/dev/null"};
	for (size_t i = 0; i < 2; i++) {
		struct err err = {{0}};
		AUTO_CLOSE int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		cr_assert(fd >= 0);
		cr_expect_eq(secret_file_check(fd, &err), -EINVAL);
		cr_expect_str_eq(err.text, "it is not a file");
	}
}
