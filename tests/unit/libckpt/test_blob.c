#include "ranks.h"

#include "format/arena/sized_blob.h"
#include "refusals.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST = 200000 };

static struct ranks c;
static uint8_t bytes[MOST], got[MOST];

static void up(void)
{
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_register_sized_blob(c.s[0], "tree", CKPT_SCOPE_RANK, MOST), 0, "%s", ckpt_error(c.s[0]));
	ranks_join(&c);
	for (size_t i = 0; i < MOST; i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
}

static void down(void)
{
	ranks_down(&c);
}

TestSuite(blob, .init = up, .fini = down);

static void set(size_t n)
{
	cr_assert_eq(ckpt_set_blob(c.s[0], "tree", bytes, n), 0, "%s", ckpt_error(c.s[0]));
}

static bool is(size_t n)
{
	memset(got, 0, sizeof(got));
	return ckpt_get_blob(c.s[0], "tree", got, sizeof(got)) == (int64_t)n && !memcmp(got, bytes, n);
}

Test(blob, changes_its_size_from_save_to_save)
{
	static const size_t sizes[] = {1000, MOST, 0, 70000, 1};
	int rc;
	for (uint64_t step = 0; step < sizeof(sizes) / sizeof(*sizes); step++) {
		set(sizes[step]);
		ranks_save(&c, step, CKPT_MEMORY);
		uint32_t at = ranks_slot(&c, 0, step);
		const uint8_t *slot = fake_slot(c.f, 0, at);
		cr_assert_eq(sized_length(slot), sizes[step]);
		for (size_t i = sizes[step]; i < MOST; i++)
			cr_assert_eq(slot[SIZED_HEAD + i], 0, "byte %zu of step %lu", i, step);
		set(3);
		fake_manners(
			c.f,
			&(struct fake_manners){
				.restored = {.step = step, .epoch = 1, .source = WIRE_FROM_MEMORY, .slots = {at}}});
		ranks_restore(&c, CKPT_LATEST, &rc, NULL);
		cr_assert_eq(rc, 0);
		cr_assert(is(sizes[step]), "step %lu", step);
		fake_free(c.f, 0, at);
	}
}

Test(blob, is_not_set_while_a_save_reads_it)
{
	ckpt_snapshot *snap;
	set(10);
	cr_assert_eq(ckpt_begin(c.s[0], 1, CKPT_MEMORY, NULL, &snap), 0);
	ckpt *s = c.s[0];
	REFUSES(ckpt_set_blob(s, "tree", bytes, 20), -EBUSY, "a save reads it until its fence");
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	set(20);
	ckpt_snapshot_free(snap);
	cr_assert(is(20));
	cr_assert_eq(ckpt_begin(c.s[0], 2, CKPT_MEMORY, NULL, &snap), 0);
	ckpt_snapshot_free(snap); /* given up */
	set(30);
}
