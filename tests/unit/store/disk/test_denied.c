#include "store/disk/denied.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static struct err said(uid_t owner, mode_t mode, int rc)
{
	struct err err;
	err_set(&err, rc, "cannot");
	cr_expect_eq(denied_by(owner, mode, rc, &err), rc);
	return err;
}

Test(denied, whose_it_is_is_said_with_what_to_do)
{
	struct err err = said(4321, 040755, -EACCES);
	cr_expect(strstr(err.text, "cannot: the directory belongs to user 4321, with mode 755, and this is user "),
		  "%s", err.text);
	cr_expect(strstr(err.text, "work as user 4321"), "%s", err.text);
	cr_expect_eq(!strstr(err.text, "root_squash"), geteuid() != 0, "%s", err.text);
	cr_expect(strstr(said(geteuid(), 0500, -EPERM).text, "own, with mode 500"));
}

Test(denied, what_is_no_matter_of_owners_stays_as_it_is)
{
	cr_expect_str_eq(said(4321, 0755, -ENOSPC).text, "cannot");
	cr_expect_str_eq(said(geteuid(), 0755, -EPERM).text, "cannot", "an immutable directory, say");
	cr_expect_eq(denied_by(4321, 0755, -EACCES, NULL), -EACCES);
	cr_expect_eq(denied_path("/no/such/place", -EACCES, &(struct err){"x"}), -EACCES);
}
