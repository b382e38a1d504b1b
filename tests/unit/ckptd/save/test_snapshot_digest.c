/* Digests of a slot that a rank still fills. */
#include "save/snapshot_digest.h"

#include "base/clock.h"
#include "ckptd/job_maker.h"
#include "ckptd/job_of.h"
#include "daemon.h"
#include "format/make_registration.h"
#include "job/job.h"
#include "job/saving.h"
#include "save/saves_private.h"

#include <criterion/criterion.h>
#include <string.h>

#define UNIT (16ull << 20) /* of leaves that a worker digests at a time */
#define TENSOR (2 * UNIT + UNIT / 2 + 100)

static const struct step_id id = {.step = 3, .epoch = 1};

static struct daemon d;
static struct job job;
static struct rank ranks[1];
static struct snapshot *s;
static struct part *part;

/* A large tensor, and a small one in a file of its own behind it. */
static struct memory *make_memory(void)
{
	struct registration reg = {.rank = 0, .world = 1};
	struct shape large = shape1(TENSOR), small = shape1(1000);
	struct layout layout;
	struct memory *mem;
	struct err err = {{0}};
	add_tensor(&reg, "large", DTYPE_U8, large, "", region_whole(&large));
	add_tensor(&reg, "small", DTYPE_U8, small, "", region_whole(&small));
	struct table *table = maker_table(&reg);
	const struct registration *list[] = {&table->reg};
	cr_assert_eq(layout_make(list, 1, true, UNIT, &layout, &err), 0, "%s", err.text);
	cr_assert_eq(layout.nfiles, 2u);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &mem, &err), 0, "%s",
		     err.text);
	table_put(table);
	return mem;
}

static struct arena_slot *slot(void)
{
	return &part->mem->head->slots[part->slot];
}

static void setup(void)
{
	struct err err = {{0}};
	daemon_init(&d);
	d.storage.root = -1;
	list_init(&d.jobs.list);
	list_init(&d.control.hosts);
	outbox_init(&d.control.outbox);
	cr_assert_eq(pool_new(2, &d.runtime.pool, &err), 0, "%s", err.text);
	ranks[0] = (struct rank){.job = &job, .state = RANK_JOINED, .pidfd = -1, .mem = make_memory()};
	job = (struct job){JOB_OF(d), .name = "main", .world = 1, .nlocal = 1, .epoch = 1, .nslots = 3, .ranks = ranks};
	job_init_saves(&job);
	copying_init(&job);
	int at = memory_claim(ranks[0].mem, id);
	cr_assert_geq(at, 0);
	cr_assert_eq(snapshot_new(&job.saves, id, 1, &s), 0);
	saves_insert(&job.saves, s);
	cr_assert_eq(snapshot_add(s, 0, ranks[0].mem, (uint32_t)at, false), 0);
	part = &s->parts[0];
	atomic_store(&slot()->done, 0);
}

static void teardown(void)
{
	saves_free(&job.saves);
	memory_put(ranks[0].mem);
	pool_free(d.runtime.pool);
}

TestSuite(snapshot_digest, .init = setup, .fini = teardown);

static void arrive(uint64_t bytes, bool all)
{
	atomic_store(&slot()->progress, bytes);
	cr_assert_eq(snapshot_digest_arrived(s, part, all), 0);
}

static void digest(void)
{
	uint64_t deadline = clock_deadline(60 * CLOCK_NS_PER_S);
	while (part->in_flight && clock_now() < deadline)
		pool_poll(d.runtime.pool);
	cr_assert_eq(part->in_flight, 0u);
}

/* A device that says that more is there than is would otherwise have what it writes later on storage, beside digests of what was there before. */
Test(snapshot_digest, what_is_written_is_what_is_digested)
{
	cr_expect_eq(snapshot_digested(part), 0u);
	arrive(2 * UNIT + 5000, false);
	cr_expect_eq(part->submitted * LEAF_SIZE, 2 * UNIT);
	cr_expect_eq(snapshot_digested(part), 0u, "it is with the workers");
	digest();
	cr_expect_eq(snapshot_digested(part), 2 * UNIT);
	snapshot_note_arrived(s);
	cr_expect(s->commit_ranks[0].arriving);
	cr_expect_eq(s->commit_ranks[0].arrived, 2 * UNIT);
}

/* Not a file that is behind one that has just been digested, nor what stands between them. */
Test(snapshot_digest, the_last_leaf_ends_the_slot)
{
	const struct layout *layout = &part->mem->layout;
	arrive(layout->data_bytes, true);
	cr_expect_eq(part->submitted, layout->nleaves);
	cr_expect_eq(snapshot_digested(part), 0u);
	digest();
	cr_expect_eq(snapshot_digested(part), layout->slot_size);
	part->submitted = layout->files[1].first_piece ? layout->pieces[layout->files[1].first_piece].first_leaf : 0;
	cr_expect_eq(snapshot_digested(part), layout->files[1].slot_at);
}
