#include "ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 300000 };

static struct ranks c;
static uint8_t *at[3]; /* where the state may stand */

static uint8_t *filled(uint8_t *p, int with)
{
	return memset(p, with, BYTES);
}

static void up(void)
{
	const uint64_t shape = BYTES;
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		at[i] = filled(malloc(BYTES), 0xee);
	ranks_open(&c, 1, NULL);
	ckpt_tensor t = {.size = sizeof(t),
			 .name = "x",
			 .dtype = CKPT_U8,
			 .ndim = 1,
			 .shape = &shape,
			 .npieces = 1,
			 .pieces = &(ckpt_piece){.data = at[0]},
			 .device = CKPT_HOST};
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(ckpt_register_blob(c.s[0], "x", CKPT_SCOPE_RANK, at[0], 1), 0);
	ranks_join(&c);
}

static void down(void)
{
	ranks_down(&c);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		free(at[i]);
}

TestSuite(rebind, .init = up, .fini = down);

static void move(const char *name, uint8_t *to)
{
	cr_assert_eq(ckpt_rebind(c.s[0], name, 0, to), 0, "%s", ckpt_error(c.s[0]));
}

/* What the captured piece of so many bytes is filled with: the tensor has BYTES, the blob one. */
static uint8_t captured(uint64_t step, uint64_t bytes)
{
	const struct layout *layout = fake_layout(c.f, 0);
	const uint8_t *piece = NULL;
	for (uint32_t i = 0; i < layout->npieces; i++)
		if (layout->pieces[i].bytes == bytes)
			piece = fake_slot(c.f, 0, ranks_slot(&c, 0, step)) + layout->pieces[i].slot_at;
	cr_assert_not_null(piece);
	for (uint64_t i = 1; i < bytes; i++)
		cr_assert_eq(piece[i], piece[0], "byte %lu", i);
	return piece[0];
}

Test(rebind, a_save_reads_the_new_address_and_restores_go_there)
{
	int rc;
	filled(at[0], 1);
	ranks_save(&c, 1, CKPT_MEMORY);
	for (uint64_t step = 2; step < 9; step++) {
		uint8_t *to = at[step % 3];
		move("x", filled(to, (int)step));
		ranks_save(&c, step, CKPT_MEMORY);
		filled(to, 0xee);
		cr_assert_eq(captured(step, BYTES), step);
		fake_free(c.f, 0, ranks_slot(&c, 0, step == 2 ? 1 : step - 1));
	}
	fake_manners(c.f, &(struct fake_manners){.restored = {.step = 8,
							      .epoch = 1,
							      .source = WIRE_FROM_MEMORY,
							      .slots = {ranks_slot(&c, 0, 8)}}});
	move("x", at[0]);
	ranks_restore(&c, CKPT_LATEST, &rc, NULL);
	cr_assert_eq(rc, 0);
	cr_assert_eq(at[0][BYTES - 1], 8);
	cr_assert_eq(at[2][BYTES - 1], 0xee);
}

Test(rebind, what_was_begun_before_goes_on_where_it_began)
{
	ckpt_snapshot *snap;
	filled(at[0], 1);
	filled(at[1], 2);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), 0);
	move("x", at[1]);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	cr_assert_eq(captured(1, BYTES), 1);
	ckpt_snapshot_free(snap);
	ranks_save(&c, 2, CKPT_MEMORY);
	cr_assert_eq(captured(2, BYTES), 2);
}

Test(rebind, a_blob_of_the_rank_has_the_name_that_it_was_registered_with_unless_a_tensor_has_it)
{
	filled(at[0], 1);
	filled(at[1], 2);
	filled(at[2], 3);
	move("x@00000", at[2]);
	move("x", at[1]);
	ranks_save(&c, 1, CKPT_MEMORY);
	cr_assert_eq(captured(1, BYTES), 2);
	cr_assert_eq(captured(1, 1), 3);
}

Test(rebind, the_plan_is_made_anew_only_for_what_has_moved)
{
	struct capture *capture = &c.s[0]->stage->capture;
	uint64_t before = capture->bound[0];
	move("x", at[0]);
	cr_assert_eq(c.s[0]->table.moves, before, "it is there already");
	move("x", at[1]);
	ranks_save(&c, 1, CKPT_MEMORY);
	uint32_t slot = ranks_slot(&c, 0, 1);
	cr_assert_eq(capture->bound[slot], before + 1);
	cr_assert_eq(capture->bound[(slot + 1) % 3], before, "when it is used next");
}
