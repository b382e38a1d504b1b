/* A node's part in a spill, over the real disk: of a node that was lost, out of copies. What the coordinator makes of it: unit/ckptd,
 * coord_spill. */
#include "ckptd/job_of.h"
#include "job/spill.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "ckptd/job_maker.h"
#include "cluster/roster.h"
#include "fakes.h"
#include "participant/participant.h"
#include "runtime/workers.h"
#include "scratch.h"
#include "store/disk/disk.h"
#include "store/read/repo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WAIT_S = 60, SELF = 1, LOST = 2, OTHER = 3, NODES = 4, RANKS = MAKER_WORLD };

static const struct step_id s7 = {7, 2}, as = {7, 3};

static char path[SCRATCH_MAX], dir[3 * SCRATCH_MAX];
static struct roster_node nodes[NODES] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
static struct roster roster = {.nodes = nodes, .n = NODES, .max = NODES};
static struct daemon self;
static struct maker m;
static const uint64_t no_limit;

/* replication/replication.h, participant/participant.h: what job/spill.c alone asks of them. */
static bool held[RANKS];
static struct replica_fetch asked[8];
static unsigned nasked;
static int ask_rc;
static struct peer_spilled said;
static unsigned nsaid;

int replica_pin(struct replica *r, const char *job, const struct replica_part *part, struct memory **mem,
		uint32_t *slot)
{
	uint32_t rank = part->rank;
	(void)r;
	cr_assert_str_eq(job, "main");
	cr_expect_eq(part->world, RANKS);
	if (rank >= RANKS || !held[rank] || step_compare(part->id, s7) != 0)
		return -ENOENT;
	*mem = memory_get(m.mem[rank]);
	*slot = 0;
	m.mem[rank]->slots[0].copies++;
	return 0;
}

int replica_fetch(struct replica *r, const struct replica_fetch *what)
{
	(void)r;
	if (ask_rc)
		return ask_rc;
	asked[nasked++] = *what;
	return 0;
}

void replica_drop(struct memory *mem, uint32_t slot)
{
	for (uint32_t r = 0; r < RANKS; r++)
		held[r] &= m.mem[r] != mem || slot;
}

void participant_spilled(const struct peers *peers, struct control *control, const char *job,
			 const struct peer_spilled *spilled)
{
	(void)peers;
	(void)control;
	cr_expect_str_eq(job, "main");
	said = *spilled;
	nsaid++;
}

static void setup(void)
{
	struct err err = {{0}};
	char name[NAME_WORK_MAX];
	fakes_reset();
	scratch_new(path);
	daemon_init(&self);
	self.peers.roster = &roster;
	self.peers.self = SELF;
	self.peers.replica = (struct replica *)&self;
	self.storage.root = 0;
	throttle_init(&self.storage.writes, &no_limit);
	cr_assert_eq(repo_create(path, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(path, &self.storage.disk, &self.storage.root, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &self.runtime.pool, &err), 0, "%s", err.text);
	cr_assert_eq(sources_new(&self.runtime.sources, &err), 0, "%s", err.text);
	name_work(as, MAKER_NUMBER, name);
	snprintf(dir, sizeof(dir), "%s/main", path);
	cr_assert_eq(mkdir(dir, 0777), 0);
	snprintf(dir, sizeof(dir), "%s/main/%s", path, name);
	cr_assert_eq(mkdir(dir, 0777), 0);
	maker_new(&m, s7);
	held[0] = held[1] = true;
	nasked = nsaid = 0;
	ask_rc = 0;
}

static void teardown(void)
{
	pool_free(self.runtime.pool);
	disk_free(self.storage.disk);
	sources_free(self.runtime.sources);
	maker_free(&m);
	scratch_remove(path);
}

TestSuite(spill, .init = setup, .fini = teardown);

static void order_as(struct step_id name, enum peer_spill_phase phase)
{
	struct peer_spill o = {
		.owner = LOST, .phase = phase, .as = name, .maker = MAKER_NUMBER, .bring = {.id = s7, .world = RANKS}};
	for (uint32_t r = 0; phase == PEER_SPILL_GATHER && r < RANKS; r++) {
		o.bring.holders[o.bring.nholders++] = (struct peer_holder){r, SELF};
		o.bring.holders[o.bring.nholders++] = (struct peer_holder){r, 0};
		o.bring.holders[o.bring.nholders++] = (struct peer_holder){r, OTHER};
	}
	spill_order(&self.jobs, "main", &o);
}

static void order(enum peer_spill_phase phase)
{
	order_as(as, phase);
}

static void run_until_said(unsigned n)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (nsaid < n && clock_now() < deadline) {
		pool_poll(self.runtime.pool);
		disk_poll(self.storage.disk, clock_deadline(CLOCK_NS_PER_MS));
	}
	cr_assert_eq(nsaid, n, "%u things were said: %s", nsaid, said.text);
	cr_expect_eq(said.owner, LOST);
	cr_expect_eq(step_compare(said.as, as), 0);
}

static void run_all(void)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while ((spills_at_work(&self.jobs) || disk_pending(self.storage.disk)) && clock_now() < deadline) {
		pool_poll(self.runtime.pool);
		disk_poll(self.storage.disk, clock_deadline(CLOCK_NS_PER_MS));
	}
}

static void expect_failed(int rc, const char *why)
{
	cr_expect_eq(said.phase, PEER_SPILL_FAILED);
	cr_expect_eq(said.rc, rc);
	cr_expect(strstr(said.text, why), "%s", said.text);
}

static bool stands(const char *name)
{
	char file[4 * SCRATCH_MAX];
	struct stat st;
	snprintf(file, sizeof(file), "%s/%s", dir, name);
	return !stat(file, &st);
}

static void gather(void)
{
	order(PEER_SPILL_GATHER);
	run_until_said(1);
	cr_assert_eq(said.phase, PEER_SPILL_GATHER, "%s", said.text);
	cr_expect(said.shares.n && said.shares.of[0].what && said.shares.of[0].cut);
	cr_expect_eq(m.mem[0]->slots[0].copies, 1, "the slot stays as it is");
}

static void write_all(void)
{
	gather();
	order(PEER_SPILL_WRITE);
	run_until_said(2);
	cr_assert_eq(said.phase, PEER_SPILL_WRITE, "%s", said.text);
}

/* At the end of each test: what fails in teardown is not counted. */
static void expect_over(void)
{
	cr_expect_null(self.jobs.spills, "it has not ended");
	for (uint32_t r = 0; r < RANKS; r++)
		cr_expect_eq(m.mem[r]->slots[0].copies, 0, "the slot of rank %u stays pinned", r);
}

Test(spill, the_part_of_a_lost_node_is_written_as_it_would_have_been)
{
	write_all();
	cr_expect_str_eq(said.part.node.name, "c");
	cr_expect_gt(said.part.files, 0);
	cr_expect(stands("node-c.json"));
	cr_expect(stands("rank-00001-of-00002.params.safetensors"));
	order(PEER_SPILL_STORED);
	run_all();
	cr_expect(stands("node-c.json"));
	cr_expect_eq(nsaid, 2);
	expect_over();
}

static void expect_unhealthy(const struct job *job, struct step_id id)
{
	const struct noted_mark *mark = health_marks_find(&job->health_marks, id);
	cr_assert_not_null(mark);
	cr_expect(mark->is.unhealthy);
	cr_expect_str_eq(mark->is.reason, "as seen");
}

Test(spill, what_was_said_of_it_holds_under_its_new_name)
{
	struct job job = {JOB_OF(self), .name = "main"};
	copying_init(&job);
	job_init_marks(&job);
	fake_saves.job = &job;
	mark_keep(&m.mem[0]->head->health_marks[0],
		  &(struct kept_mark){.id = s7, .unhealthy = true, .given_at = 5, .reason = "as seen"});
	health_marks_return(&job.health_marks, m.mem[0]);
	write_all();
	cr_expect_null(health_marks_find(&job.health_marks, as), "it is no checkpoint yet");
	order(PEER_SPILL_STORED);
	expect_unhealthy(&job, s7);
	expect_unhealthy(&job, as);
	run_all();
	expect_over();
}

static bool counts_as_stored(enum peer_spill_phase end)
{
	struct job job = {JOB_OF(self), .name = "main"};
	copying_init(&job);
	job_init_marks(&job);
	fake_saves.job = &job;
	nsaid = 0;
	write_all();
	order(end);
	run_all();
	return !step_compare(job.copies.durable, s7);
}

Test(spill, of_what_nobody_knows_to_be_stored_the_copies_stay)
{
	cr_expect_not(counts_as_stored(PEER_SPILL_KEEP));
	cr_expect(counts_as_stored(PEER_SPILL_STORED));
	expect_over();
}

Test(spill, what_was_written_goes_by_order)
{
	write_all();
	order(PEER_SPILL_CLEAR);
	cr_expect(stands("node-c.json"), "the directory is still there for all to see");
	run_all();
	cr_expect_eq(said.phase, PEER_SPILL_CLEAR);
	cr_expect_not(stands("node-c.json"));
	cr_expect_not(stands("rank-00001-of-00002.params.safetensors"));
	expect_over();
}

static void flip(uint32_t rank)
{
	memory_slot(m.mem[rank], 0)[m.mem[rank]->layout.pieces[0].slot_at] ^= 1;
}

static void run_until_asked(unsigned n)
{
	uint64_t deadline = clock_deadline(WAIT_S * CLOCK_NS_PER_S);
	while (nasked < n && !nsaid && clock_now() < deadline)
		pool_poll(self.runtime.pool);
	cr_assert_eq(nasked, n, "%u holders were asked: %s", nasked, said.text);
}

Test(spill, a_damaged_copy_is_named_and_nothing_is_written)
{
	flip(1);
	ask_rc = -ENOTCONN;
	order(PEER_SPILL_GATHER);
	run_until_said(1);
	expect_failed(-ENODATA, "the part of rank 1 cannot be had: node d: ");
	cr_expect_not(held[1], "nobody is to find it any more");
	cr_expect_not(stands("node-c.json"));
	expect_over();
}

Test(spill, in_place_of_a_damaged_copy_an_intact_one_is_fetched)
{
	flip(0);
	order(PEER_SPILL_GATHER);
	run_until_asked(1);
	cr_expect_eq(asked[0].rank, 0);
	cr_expect_eq(asked[0].from, 0);
	cr_expect_not(held[0], "it would be found before the other one");
	flip(0);
	held[0] = true;
	asked[0].done(asked[0].arg, &(struct replica_fetched){.job = "main", .rank = 0, .id = s7});
	run_until_said(1);
	cr_assert_eq(said.phase, PEER_SPILL_GATHER, "%s", said.text);
	order(PEER_SPILL_WRITE);
	run_until_said(2);
	cr_expect_eq(said.phase, PEER_SPILL_WRITE, "%s", said.text);
	cr_expect(stands("rank-00001-of-00002.params.safetensors"));
	order(PEER_SPILL_KEEP);
	run_all();
	expect_over();
}

Test(spill, what_is_damaged_again_and_again_is_given_up)
{
	flip(1);
	order(PEER_SPILL_GATHER);
	run_until_asked(1);
	held[1] = true;
	asked[0].done(asked[0].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7});
	run_until_said(1);
	expect_failed(-EBADMSG, "it is damaged: ");
	expect_over();
}

Test(spill, what_is_lacking_is_fetched_from_one_holder_after_another)
{
	held[1] = false;
	order(PEER_SPILL_GATHER);
	cr_assert_eq(nasked, 1);
	cr_expect_eq(asked[0].rank, 1);
	cr_expect_eq(asked[0].from, 0);
	cr_expect_eq(asked[0].epoch, as.epoch);
	cr_expect_null(asked[0].mem, "it is to be held here as if it had been sent");
	asked[0].done(asked[0].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7, .rc = -EBADMSG});
	cr_assert_eq(nasked, 2);
	cr_expect_eq(asked[1].from, OTHER);
	held[1] = true;
	asked[1].done(asked[1].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7});
	run_until_said(1);
	cr_expect_eq(said.phase, PEER_SPILL_GATHER);
	order(PEER_SPILL_KEEP);
	expect_over();
}

Test(spill, what_nobody_has_is_said)
{
	held[1] = false;
	ask_rc = -ENOTCONN;
	order(PEER_SPILL_GATHER);
	expect_failed(-ENODATA, "the part of rank 1 cannot be had: node d: ");
	expect_over();
}

Test(spill, of_what_is_given_up_nobody_hears)
{
	held[1] = false;
	order(PEER_SPILL_GATHER);
	order(PEER_SPILL_KEEP);
	cr_expect(spills_at_work(&self.jobs), "the fetch goes on");
	asked[0].done(asked[0].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7});
	cr_expect_eq(nsaid, 0);
	expect_over();
}

Test(spill, what_comes_for_one_of_an_epoch_that_is_over_is_not_for_the_next)
{
	const struct step_id next = {as.step, as.epoch + 1};
	held[1] = false;
	order(PEER_SPILL_GATHER);
	order_as(next, PEER_SPILL_GATHER);
	cr_assert_eq(nasked, 2);
	asked[0].done(asked[0].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7, .rc = -ESTALE});
	cr_assert_eq(nasked, 2, "it waits for what it has asked");
	held[1] = true;
	asked[1].done(asked[1].arg, &(struct replica_fetched){.job = "main", .rank = 1, .id = s7});
	run_all();
	cr_expect_eq(nsaid, 1);
	cr_expect_eq(said.phase, PEER_SPILL_GATHER, "%s", said.text);
	cr_expect_eq(said.as.epoch, next.epoch);
	order_as(next, PEER_SPILL_KEEP);
	expect_over();
}

Test(spill, without_the_coordinator_nothing_is_deleted)
{
	write_all();
	spills_abandon(&self.jobs, NULL);
	run_all();
	cr_expect(stands("node-c.json"));
	cr_expect_eq(nsaid, 2);
	expect_over();
}

Test(spill, who_knows_nothing_of_it_has_nothing_to_delete)
{
	order(PEER_SPILL_CLEAR);
	cr_expect_eq(nsaid, 1);
	cr_expect_eq(said.phase, PEER_SPILL_CLEAR);
	expect_over();
}

Test(spill, storage_that_makes_no_progress_is_given_up)
{
	gather();
	order(PEER_SPILL_WRITE);
	cr_expect(spills_at_work(&self.jobs));
	spills_tick(&self.jobs);
	clock_skip(3600 * CLOCK_NS_PER_S);
	spills_tick(&self.jobs);
	run_until_said(2);
	expect_failed(-ETIMEDOUT, "storage made no progress");
	order(PEER_SPILL_CLEAR);
	run_all();
	expect_over();
}
