#include "save/snapshot.h"

#include "ckptd/job_maker.h"

#include <criterion/criterion.h>

Test(snapshot, a_slot_that_is_being_copied_is_not_given_back)
{
	struct maker m;
	struct snapshot *s;
	struct step_id id = {.step = 7, .epoch = 2};
	maker_new(&m, id);
	cr_assert_eq(snapshot_new(NULL, id, 1, &s), 0);
	cr_assert_eq(snapshot_add(s, 0, m.mem[0], 0, true), 0);
	m.mem[0]->slots[0].copies = 1;
	cr_expect_not(snapshot_release(s));
	cr_expect(m.mem[0]->slots[0].used);
	m.mem[0]->slots[0].copies = 0;
	cr_expect(snapshot_release(s));
	cr_expect_not(m.mem[0]->slots[0].used);
	snapshot_free(s);
	maker_free(&m);
}
