/* Files of a slot that is still being filled: each byte is read for them when it has arrived, and not before. */
#include "checkpoint/node_part.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "ckptd/job_maker.h"
#include "scratch.h"
#include "store/check/verify.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { WAIT_S = 60, NOT_YET = 0xee, LATE_RANK = 1 };

static const struct step_id id = {.step = 7, .epoch = 2};

static char path[SCRATCH_MAX];
static struct disk *disk;
static struct pool *pool;
static struct packing packing;
static int root;
static struct maker m;
static struct node_part_rank ranks[MAKER_WORLD];
static uint8_t *right; /* what the slot of the rank that is late will hold */
static bool finished;

static uint8_t *late_slot(void)
{
	return memory_slot(m.mem[LATE_RANK], 0);
}

static void setup(void)
{
	struct err err = {{0}};
	scratch_new(path);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &disk, &root, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(2, &pool, &err), 0, "%s", err.text);
	packing_init(&packing, pool);
	maker_new(&m, id);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r] = (struct node_part_rank){.mem = m.mem[r], .leaves = m.leaves[r]};
	ranks[LATE_RANK].arriving = true;
	uint64_t size = m.mem[LATE_RANK]->slot_size;
	right = malloc(size);
	cr_assert(right);
	memcpy(right, late_slot(), size);
	memset(late_slot(), NOT_YET, size);
	finished = false;
}

static void teardown(void)
{
	failpoint_arm(NULL, NULL);
	free(right);
	maker_free(&m);
	disk_free(disk);
	pool_free(pool);
	packing_free(&packing);
	scratch_remove(path);
}

TestSuite(arriving, .init = setup, .fini = teardown);

static void on_written(struct node_part *c)
{
	(void)c;
}

static void on_done(struct node_part *c)
{
	(void)c;
	finished = true;
}

static struct node_part *start(bool packed)
{
	struct node_part *c = calloc(1, sizeof(*c));
	cr_assert(c);
	*c = (struct node_part){.disk = disk,
				.root = root,
				.job = "main",
				.node = "n0",
				.id = id,
				.world = MAKER_WORLD,
				.nranks = MAKER_WORLD,
				.ranks = ranks,
				.packing = packed ? &packing : NULL,
				.data_written = on_written,
				.done = on_done};
	maker_commit(c);
	return c;
}

static void poll_once(void)
{
	disk_poll(disk, clock_deadline(CLOCK_NS_PER_MS));
	pool_poll(pool);
}

/* All that can be written is, and what has ended is closed. */
static void run_until_waiting(const struct node_part *c, enum node_part_state state)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (!(c->state == state && node_part_waits(c) && !disk_pending(disk)) && clock_now() < deadline)
		poll_once();
	cr_assert(node_part_waits(c), "in state %s", node_part_state_name(c->state));
	cr_assert_eq(disk_pending(disk), 0u);
}

static void run(void)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while ((!finished || disk_pending(disk)) && clock_now() < deadline)
		poll_once();
	cr_assert(finished);
}

static void arrive(struct node_part *c, uint64_t to)
{
	memcpy(late_slot(), right, to);
	ranks[LATE_RANK].arrived = to;
	ranks[LATE_RANK].arriving = to < m.mem[LATE_RANK]->slot_size;
	node_part_arrived(c);
}

static void expect_verified(void)
{
	struct repo repo;
	struct err err = {{0}};
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1};
	cr_assert_eq(repo_open(path, &repo, &err), 0, "%s", err.text);
	int rc = verify_checkpoint(&repo, "main", id, &options, &result, &err);
	repo_close(&repo);
	cr_assert_eq(rc, 0, "%s", err.text);
	cr_assert_eq(result.findings, 0u);
	cr_assert_gt(result.leaves, 0u);
}

/* In steps that are no whole blocks, and end within files, leaves and gaps between files. */
static void arrive_in_steps(struct node_part *c)
{
	uint64_t size = m.mem[LATE_RANK]->slot_size;
	for (uint64_t to = 0; to < size; to += 30001) {
		arrive(c, to);
		run_until_waiting(c, NODE_PART_DATA);
	}
	arrive(c, size);
	run_until_waiting(c, NODE_PART_DIGESTS);
	node_part_digests_ready(c);
	run();
	cr_assert_eq(c->rc, 0, "%s", c->err.text);
	cr_expect_gt(c->waited_ns, 0u);
	node_part_free(c);
	expect_verified();
}

Test(arriving, what_is_written_is_what_has_arrived)
{
	arrive_in_steps(start(false));
}

Test(arriving, a_file_is_packed_when_all_of_it_has_arrived)
{
	arrive_in_steps(start(true));
}

Test(arriving, it_can_be_given_up_while_it_waits)
{
	struct node_part *c = start(false);
	run_until_waiting(c, NODE_PART_DATA);
	arrive(c, 100000);
	node_part_abort(c, -EBADMSG, "torn");
	run();
	cr_expect_eq(c->rc, -EBADMSG);
	cr_expect_str_eq(c->err.text, "torn");
	node_part_free(c);
}

/* Of the other rank, while that of this one waits. */
Test(arriving, when_one_file_fails_none_waits_on)
{
	struct err err = {{0}};
	cr_assert_eq(failpoint_arm("disk.fsync=error:EIO@1", &err), 0, "%s", err.text);
	struct node_part *c = start(false);
	run();
	cr_expect_eq(c->rc, -EIO);
	node_part_free(c);
}

/* Time that goes by before the rest arrives is none in which storage makes no progress. */
Test(arriving, waiting_is_no_stall)
{
	struct node_part *c = start(false);
	run_until_waiting(c, NODE_PART_DATA);
	c->progress_ns -= 5 * CLOCK_NS_PER_S;
	arrive(c, m.mem[LATE_RANK]->slot_size);
	cr_expect_not(node_part_waits(c));
	cr_expect_geq(c->waited_ns, 5 * CLOCK_NS_PER_S);
	cr_expect_lt(clock_now() - c->progress_ns, 5 * CLOCK_NS_PER_S);
	run_until_waiting(c, NODE_PART_DIGESTS);
	node_part_digests_ready(c);
	run();
	cr_expect_eq(c->rc, 0);
	node_part_free(c);
}
