#include "reader_store.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(listed, .init = reader_store_make, .fini = reader_store_drop);

Test(listed, the_checkpoints_of_a_store_in_order)
{
	static const char *const names[] = {"step-000000000010.e0001", "step-000000000020.e0001",
					    "step-000000000030.e0002"};
	ckpt_reader_list *list;
	cr_assert_eq(ckpt_reader_list_make(reader_root, NULL, &list), 0, "%s", ckpt_reader_error());
	cr_assert_eq(ckpt_reader_list_count(list), 3, "what was never committed is none");
	for (size_t i = 0; i < 3; i++) {
		const ckpt_reader_checkpoint *c = ckpt_reader_list_at(list, i);
		cr_assert_str_eq(c->name, names[i]);
		cr_assert_str_eq(c->job, "main");
		cr_assert_eq(c->size, sizeof(*c));
		cr_assert_eq(c->step, 10 * (i + 1));
		cr_assert_eq(c->world, 4);
		cr_assert_eq(c->nodes, 2);
		cr_assert_eq(c->state, CKPT_READER_COMMITTED);
		cr_assert_eq(c->health, i == 1 ? CKPT_HEALTHY : 0);
		cr_assert_eq(c->pinned, i == 1);
		cr_assert_gt(c->bytes, 64u * 48 * 4);
		cr_assert_eq(c->stored, c->bytes);
		cr_assert_gt(c->committed_ns, 0);
	}
	ckpt_reader_list_free(list);
	cr_assert_eq(ckpt_reader_list_make(reader_root, "other", &list), 0);
	cr_assert_eq(ckpt_reader_list_count(list), 0);
	ckpt_reader_list_free(list);
}

Test(listed, what_is_damaged_is_listed_as_that)
{
	char dir[SCRATCH_MAX + 64];
	struct err err = {0};
	ckpt_reader_list *list;
	store_dir(&reader_newest, dir, sizeof(dir));
	scratch_flip(dir, "MANIFEST.json", 20, 2);
	struct store_spec healthy = reader_newest;
	healthy.id = (struct step_id){20, 1};
	cr_assert_eq(store_mark_health(&healthy, false, "", &err), 0);
	setenv("CKPT_REPO", reader_root, 1);
	cr_assert_eq(ckpt_reader_list_make(NULL, "main", &list), 0, "%s", ckpt_reader_error());
	cr_assert_eq(ckpt_reader_list_at(list, 1)->state, CKPT_READER_VERIFIED);
	cr_assert_eq(ckpt_reader_list_at(list, 2)->state, CKPT_READER_DAMAGED);
	cr_assert_eq(ckpt_reader_list_at(list, 2)->world, 0);
	ckpt_reader_list_free(list);
}
