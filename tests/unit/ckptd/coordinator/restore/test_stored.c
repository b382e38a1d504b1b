/* Nodes that do not see the same on storage: coordinator/restore/restore.c. */
#include "ckptd/coordinator/restore/restore_maker.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct step_id none;

TestSuite(coord_stored, .init = coord_maker_setup, .fini = coord_maker_teardown);

/* It has another store by mistake, or sees what is new there later than others. */
Test(coord_stored, what_one_node_alone_sees_on_storage_is_no_fresh_start)
{
	ask(STEP_NEWEST);
	find(0, none, 0);
	find(1, none, 2);
	find(2, none, 2);
	survey(NULL, 0);
	cr_expect_eq(told[0].refused, 0, "%s", told[0].text);
	expect_bring((struct step_id){20, 1}, true);
	bring(0, (struct step_id){20, 1}, -ENOENT, WIRE_FROM_STORAGE, "it is not there");
	bring(1, (struct step_id){20, 1}, 0, WIRE_FROM_STORAGE, "");
	bring(2, (struct step_id){20, 1}, 0, WIRE_FROM_STORAGE, "");
	expect_bring((struct step_id){10, 1}, true);
	bring_all((struct step_id){10, 1}, -EIO);
	cr_expect_eq(told[0].refusal, -EBADMSG, "%s", told[0].text);
	cr_expect(strstr(told[0].why, "it is not there"), "%s", told[0].why);
}

/* Of a mark that it sees late it says nothing. */
Test(coord_stored, which_are_healthy_the_first_node_decides)
{
	ask(STEP_NEWEST_HEALTHY);
	find(0, none, 0);
	find(1, none, 2);
	find(2, none, 2);
	survey(NULL, 0);
	cr_expect_eq(told[0].fetched, 0);
	cr_expect_eq(told[0].refusal, -ENODATA, "%s", told[0].text); /* it has checkpoints */
}
