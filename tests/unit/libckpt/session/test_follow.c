/* What a restore loads while the daemon still brings the rest. */
#include "base/clock.h"
#include "client/session/session.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SMALL = 700, /* blobs of a leaf each: three granules */
	LAST = 699,
	GRANULES = 3,
};

struct follow {
	struct ranks c;
	uint64_t small[SMALL];
	pthread_t thread;
	int rc[FAKE_WORLD_MAX];
	ckpt_restored out[FAKE_WORLD_MAX];
};

static void fill(struct follow *t, unsigned seed)
{
	ranks_fill(&t->c, seed);
	for (unsigned i = 0; i < SMALL; i++)
		t->small[i] = i + 1000 * seed;
}

static bool is(struct follow *t, unsigned seed)
{
	bool same = ranks_is(&t->c, seed);
	for (unsigned i = 0; i < SMALL; i++)
		same &= t->small[i] == i + 1000 * seed;
	return same;
}

/* Step 50 of seed 1 in slot 0 of every rank, step 40 of seed 3 in slot 1; the state is of seed 2. */
static void up(struct follow *t, uint32_t world)
{
	char name[16];
	memset(t, 0, sizeof(*t));
	ranks_open(&t->c, world, NULL);
	ranks_register(&t->c);
	for (unsigned i = 0; i < SMALL; i++) {
		snprintf(name, sizeof(name), "small%03u", i);
		cr_assert_eq(ckpt_register_blob(t->c.s[0], name, CKPT_SCOPE_RANK, &t->small[i], 8), 0);
	}
	ranks_join(&t->c);
	fill(t, 1);
	ranks_save(&t->c, 50, CKPT_MEMORY);
	fill(t, 3);
	ranks_save(&t->c, 60, CKPT_MEMORY);
	fill(t, 2);
	fake_manners(t->c.f, &(struct fake_manners){.hold_restore = true,
						    .restored = {.step = 50, .epoch = 1, .source = WIRE_FROM_PEER}});
}

static void *restore(void *arg)
{
	struct follow *t = arg;
	ranks_restore(&t->c, CKPT_LATEST, t->rc, t->out);
	return NULL;
}

/* The restore has been asked for. */
static void begin(struct follow *t)
{
	pthread_create(&t->thread, NULL, restore, t);
	fake_await(t->c.f, WIRE_RESTORE, t->c.world);
}

static void end(struct follow *t)
{
	fake_let_restore(t->c.f);
	pthread_join(t->thread, NULL);
}

static struct arena_bring *bring(struct follow *t, uint32_t rank)
{
	return &fake_head(t->c.f, rank)->bring;
}

static void attempt(struct follow *t, uint32_t rank, uint32_t slot, uint64_t step)
{
	struct arena_bring *b = bring(t, rank);
	atomic_store(&b->turn, (b->turn | 1) + 1);
	atomic_store(&b->slot, slot);
	atomic_store(&b->step, step);
	atomic_store(&b->epoch, 1);
	atomic_store(&b->there[0], 0);
	atomic_store(&b->turn, b->turn + 1);
}

static void there(struct follow *t, uint32_t rank, unsigned granule)
{
	atomic_fetch_or(&bring(t, rank)->there[0], 1ull << granule);
	fake_wake(t->c.f);
}

static void all_there(struct follow *t, uint32_t rank)
{
	for (unsigned g = 0; g < GRANULES; g++)
		there(t, rank, g);
}

static void await(const volatile void *at, uint64_t value)
{
	uint64_t until = clock_deadline(60 * CLOCK_NS_PER_S);
	while (*(const volatile uint64_t *)at != value && clock_now() < until)
		sched_yield();
	cr_assert_eq(*(const volatile uint64_t *)at, value);
}

/* The index of the small blob whose leaf is this one. */
static unsigned small_of_leaf(struct follow *t, uint64_t leaf)
{
	const struct layout *layout = fake_layout(t->c.f, 0);
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const char *name = fake_registration(t->c.f, 0)->entries[layout->pieces[i].entry].name;
		unsigned index;
		if (layout->pieces[i].first_leaf == leaf && sscanf(name, "small%u", &index) == 1)
			return index;
	}
	cr_assert_fail("leaf %lu is of no small blob", (unsigned long)leaf);
	return 0;
}

Test(follow, another_thread_is_told_how_far_it_is)
{
	struct follow t;
	up(&t, 1);
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await(&t.small[LAST], LAST + 1000);
	await(&t.c.s[0]->progress.done, t.c.s[0]->progress.total);
	attempt(&t, 0, 1, 60);
	fake_wake(t.c.f);
	await(&t.c.s[0]->progress.done, 0); /* it begins anew */
	end(&t);
	cr_assert_eq(ckpt_restore_progress(t.c.s[0], NULL), (int64_t)t.out[0].bytes);
	ranks_down(&t.c);
}

Test(follow, what_is_there_is_loaded_before_the_answer_and_not_again)
{
	struct follow t;
	up(&t, 1);
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await(&t.small[LAST], LAST + 1000);
	/* Were it loaded again, this would be found. */
	fake_leaves(t.c.f, 0, 0)[0] ^= 1;
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, t.out[0].bytes);
	cr_assert(is(&t, 1));
	ranks_save(&t.c, 70, CKPT_MEMORY);
	ranks_down(&t.c);
}

Test(follow, what_is_not_there_is_not_touched)
{
	struct follow t;
	up(&t, 1);
	unsigned in = small_of_leaf(&t, 300), out = small_of_leaf(&t, 600), before = small_of_leaf(&t, 255);
	begin(&t);
	attempt(&t, 0, 0, 50);
	there(&t, 0, 1);
	await(&t.small[in], in + 1000);
	cr_assert_eq(t.small[out], out + 2000);
	cr_assert_eq(t.small[before], before + 2000);
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, 256 * 8);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, another_attempt_is_loaded_from_the_beginning)
{
	struct follow t;
	up(&t, 1);
	unsigned first = small_of_leaf(&t, 300);
	begin(&t);
	attempt(&t, 0, 1, 60);
	there(&t, 0, 1);
	await(&t.small[first], first + 3000);
	attempt(&t, 0, 0, 50);
	there(&t, 0, 1);
	await(&t.small[first], first + 1000);
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].step, 50);
	cr_assert_eq(t.out[0].early_bytes, 256 * 8, "what was of the other one does not count");
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, an_attempt_that_the_answer_is_not_about_counts_for_nothing)
{
	struct follow t;
	up(&t, 1);
	begin(&t);
	attempt(&t, 0, 1, 60);
	all_there(&t, 0);
	await(&t.small[LAST], LAST + 3000);
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, an_attempt_that_is_over_counts_for_nothing)
{
	struct follow t;
	up(&t, 1);
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await(&t.small[LAST], LAST + 1000);
	atomic_fetch_add(&bring(&t, 0)->turn, 1);
	t.small[LAST] = 0;
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, what_was_told_before_the_restore_was_asked_for_is_not_loaded)
{
	struct follow t;
	up(&t, 1);
	attempt(&t, 0, 1, 60);
	all_there(&t, 0);
	begin(&t);
	fake_wake(t.c.f);
	end(&t);
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, parts_that_neighbours_have_are_loaded_out_of_their_arenas)
{
	struct follow t;
	up(&t, 2);
	begin(&t);
	for (uint32_t r = 0; r < 2; r++) {
		attempt(&t, r, 0, 50);
		all_there(&t, r);
	}
	await(&t.small[LAST], LAST + 1000);
	end(&t);
	for (uint32_t r = 0; r < 2; r++)
		cr_assert_eq(t.rc[r], 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

/* Everything of step 50 is loaded, and then the restore fails. */
static void loaded_then(struct follow *t, int rc, const char *text)
{
	ckpt_snapshot *snap;
	up(t, 1);
	begin(t);
	attempt(t, 0, 0, 50);
	all_there(t, 0);
	await(&t->small[LAST], LAST + 1000);
	fake_manners(t->c.f, &(struct fake_manners){.hold_restore = true, .restore = {.rc = rc}});
	end(t);
	cr_assert_eq(t->rc[0], rc, "%s", text);
	cr_assert_eq(ckpt_begin(t->c.s[0], 70, CKPT_MEMORY, NULL, &snap), -EPERM, "the state is undefined");
	fake_manners(t->c.f, &(struct fake_manners){.restored = {.step = 50, .epoch = 1, .source = WIRE_FROM_PEER}});
	ranks_restore(&t->c, CKPT_LATEST, t->rc, NULL);
	cr_assert_eq(t->rc[0], 0);
	cr_assert(is(t, 1));
	ranks_save(&t->c, 70, CKPT_MEMORY);
	ranks_down(&t->c);
}

Test(follow, when_nothing_is_left_saves_are_refused_until_a_restore_succeeds)
{
	struct follow t;
	loaded_then(&t, -EBADMSG, "nothing is left");
	loaded_then(&t, -ETIMEDOUT, "a rank has not come");
}

Test(follow, nothing_is_loaded_once_another_epoch_has_begun)
{
	struct follow t;
	up(&t, 1);
	unsigned first = small_of_leaf(&t, 300), second = small_of_leaf(&t, 600);
	begin(&t);
	attempt(&t, 0, 0, 50);
	there(&t, 0, 1);
	await(&t.small[first], first + 1000);
	fake_epoch_quietly(t.c.f, 2);
	there(&t, 0, 2);
	fake_manners(t.c.f, &(struct fake_manners){.hold_restore = true, .restore = {.rc = -ESTALE}});
	end(&t);
	cr_assert_eq(t.rc[0], -ESTALE);
	cr_assert_eq(t.small[second], second + 2000);
	cr_assert(atomic_load(&t.c.s[0]->undefined));
	ranks_down(&t.c);
}

Test(follow, a_daemon_that_dies_in_the_middle_leaves_the_state_undefined)
{
	struct follow t;
	up(&t, 1);
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await(&t.small[LAST], LAST + 1000);
	fake_die(t.c.f);
	pthread_join(t.thread, NULL);
	cr_assert_eq(t.rc[0], -ENOTCONN);
	cr_assert(atomic_load(&t.c.s[0]->undefined));
	fake_live(t.c.f);
	ranks_down(&t.c);
}

static struct arena_bring *_Atomic ends_under_the_copy;

static int end_then_copy(struct device *dev, const void *base, const struct span *spans, size_t n,
			 const uint64_t *leaves, void *stream, uint64_t *bad_leaf, struct err *err)
{
	struct arena_bring *b = atomic_exchange(&ends_under_the_copy, NULL);
	if (b)
		atomic_fetch_add(&b->turn, 1);
	return device_host.restore(dev, base, spans, n, leaves, stream, bad_leaf, err);
}

Test(follow, an_attempt_that_ends_under_the_copy_is_no_error_and_counts_for_nothing)
{
	struct follow t;
	struct device_ops ops = device_host;
	ops.restore = end_then_copy;
	up(&t, 1);
	t.c.s[0]->stage->capture.devices[0].ops = &ops;
	ends_under_the_copy = bring(&t, 0);
	/* What is there is another save's already: its digests are others. */
	fake_leaves(t.c.f, 0, 1)[0] ^= 1;
	begin(&t);
	attempt(&t, 0, 1, 60);
	all_there(&t, 0);
	await(&ends_under_the_copy, 0);
	end(&t);
	t.c.s[0]->stage->capture.devices[0].ops = &device_host;
	cr_assert_eq(t.rc[0], 0);
	cr_assert_eq(t.out[0].early_bytes, 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

/* ---- a device that copies in parts ------------------------------------------------------------------------------- */

/* All that is put arrives as late as can be. */
enum { PARTS_MAX = 16 };
static struct late {
	const void *base;
	struct span *spans;
	size_t n;
	const uint64_t *leaves;
	const void *origin;
} late[PARTS_MAX];
static _Atomic unsigned nlate, nput;

static int late_end(struct device *dev, struct restored_bad *bad, struct err *err)
{
	int rc = 0;
	*bad = (struct restored_bad){.leaf = UINT64_MAX};
	for (unsigned i = 0; i < nlate; i++) {
		struct late *l = &late[i];
		if (!rc) {
			rc = device_host.restore(dev, l->base, l->spans, l->n, l->leaves, NULL, &bad->leaf, err);
			bad->origin = rc ? l->origin : NULL;
		}
		free(l->spans);
	}
	nlate = 0;
	return rc;
}

static int late_put(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		    void *stream, const void *origin, struct restored_bad *bad, struct err *err)
{
	(void)stream;
	int rc = nlate == PARTS_MAX ? late_end(dev, bad, err) : 0;
	if (rc)
		return rc;
	late[nlate] = (struct late){base, malloc(n * sizeof(*spans)), n, leaves, origin};
	memcpy(late[nlate++].spans, spans, n * sizeof(*spans));
	nput++;
	return 0;
}

static const struct device_ops *late_ops(void)
{
	static struct device_ops ops;
	ops = device_host;
	ops.restore_put = late_put;
	ops.restore_end = late_end;
	nlate = nput = 0;
	return &ops;
}

static void await_puts(unsigned n)
{
	uint64_t until = clock_deadline(60 * CLOCK_NS_PER_S);
	while (nput < n && clock_now() < until)
		sched_yield();
	cr_assert_geq(nput, n);
}

Test(follow, parts_that_arrive_late_are_there_when_the_restore_returns)
{
	struct follow t;
	up(&t, 1);
	t.c.s[0]->stage->capture.devices[0].ops = late_ops();
	begin(&t);
	attempt(&t, 0, 0, 50);
	there(&t, 0, 0);
	await_puts(1);
	there(&t, 0, 1);
	await_puts(2);
	cr_assert_eq(nlate, 2, "nothing has waited for the first");
	all_there(&t, 0);
	await_puts(3);
	end(&t);
	t.c.s[0]->stage->capture.devices[0].ops = &device_host;
	cr_assert_eq(t.rc[0], 0);
	cr_assert(is(&t, 1));
	cr_assert_eq(t.out[0].early_bytes, t.out[0].bytes);
	cr_assert_eq(nput, 3, "nothing was copied twice");
	cr_assert_eq(nlate, 0);
	ranks_down(&t.c);
}

Test(follow, what_is_on_the_way_of_an_attempt_that_ends_is_no_error_and_counts_for_nothing)
{
	struct follow t;
	up(&t, 1);
	t.c.s[0]->stage->capture.devices[0].ops = late_ops();
	fake_leaves(t.c.f, 0, 1)[0] ^= 1;
	begin(&t);
	attempt(&t, 0, 1, 60);
	all_there(&t, 0);
	await_puts(1);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await_puts(2);
	end(&t);
	t.c.s[0]->stage->capture.devices[0].ops = &device_host;
	cr_assert_eq(t.rc[0], 0);
	cr_assert(is(&t, 1));
	ranks_down(&t.c);
}

Test(follow, damage_that_is_found_when_a_part_arrives_is_told_after_the_answer)
{
	struct follow t;
	up(&t, 1);
	t.c.s[0]->stage->capture.devices[0].ops = late_ops();
	fake_leaves(t.c.f, 0, 0)[300] ^= 1;
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	await_puts(1);
	end(&t);
	t.c.s[0]->stage->capture.devices[0].ops = &device_host;
	cr_assert_eq(t.rc[0], -EBADMSG);
	cr_assert_eq(nlate, 0);
	ranks_down(&t.c);
}

Test(follow, a_load_that_fails_is_told_after_the_answer)
{
	struct follow t;
	ckpt_snapshot *snap;
	up(&t, 1);
	fake_leaves(t.c.f, 0, 0)[300] ^= 1;
	begin(&t);
	attempt(&t, 0, 0, 50);
	all_there(&t, 0);
	end(&t);
	cr_assert_eq(t.rc[0], -EBADMSG);
	cr_assert_eq(ckpt_begin(t.c.s[0], 70, CKPT_MEMORY, NULL, &snap), -EPERM);
	ranks_down(&t.c);
}
