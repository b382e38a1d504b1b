/* A step that a world of two has left in memory, and that the one rank of the next world is given: out of what this node keeps, and what others
 * hold. What these do is played here; that whole daemons do so: sim/test_cluster. */
#include "restore/recut.h"

#include "arena/slot_check.h"
#include "base/log.h"
#include "ckptd/job_maker.h"
#include "ckptd/job_of.h"
#include "cluster/roster.h"
#include "daemon.h"
#include "format/make_registration.h"
#include "job/job.h"
#include "job/recovery_notes.h"
#include "job/restoring.h"
#include "job/saving.h"
#include "replication/replication_private.h"
#include "runtime/workers.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

enum { SELF = 0, OTHER = 1, THIRD = 2, ROWS = 2 * MAKER_ROWS };

static struct daemon here;
static struct job job;
static struct rank rank;
static struct maker made; /* what the world of two has left */
static const struct step_id kept = {10, 1};
static struct replica *replica;
static const uint64_t no_limit;
static struct replica_found held[8];
static size_t nheld;
static struct replica_found asked[8];
static unsigned nasked;

static int look_around(struct job *of)
{
	struct replica_surveyed surveyed = {.job = "main", .epoch = 2, .found = held, .n = nheld};
	recut_surveyed(&of->restore, &surveyed);
	return 0;
}

static int fetch_part(struct job *of, const struct replica_found *found)
{
	(void)of;
	cr_assert(nasked < sizeof(asked) / sizeof(asked[0]));
	asked[nasked++] = *found;
	return 0;
}

static void make_replica(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\nn2 127.0.0.1:7002\n";
	struct err err = {{0}};
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	here.runtime.config.memory_limit = UINT64_MAX;
	struct replica_config config = {.pool = here.runtime.pool,
					.memory = &here.runtime.memory,
					.memory_limit = &here.runtime.config.memory_limit,
					.roster = here.peers.roster,
					.self = SELF,
					.bandwidth = &no_limit};
	cr_assert_eq(replica_new(&config, &replica), 0);
	here.peers.replica = replica;
	here.peers.self = SELF;
}

/* All that was saved, or only "w". */
static void make_arena(bool all)
{
	struct shape rows = shape1(ROWS), shared = shape2(30, 500);
	struct registration reg = {.rank = 0, .world = 1};
	const struct registration *list[1];
	struct layout layout;
	struct err err = {{0}};
	add_tensor(&reg, "w", DTYPE_U64, rows, "", region_flat(0, ROWS));
	if (all) {
		add_tensor(&reg, "shared", DTYPE_F32, shared, "", region_whole(&shared));
		add_blob(&reg, "config", ENTRY_JOB_BLOB, 100);
	}
	struct table *table = maker_table(&reg);
	list[0] = &table->reg;
	cr_assert_eq(layout_make(list, 1, true, LAYOUT_FILE_MAX, &layout, &err), 0, "%s", err.text);
	memory_put(rank.mem);
	cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &rank.mem, &err), 0, "%s",
		     err.text);
	table_put(table);
}

static void setup(void)
{
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	list_init(&here.jobs.list);
	list_init(&here.control.hosts);
	outbox_init(&here.control.outbox);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	make_replica();
	job = (struct job){JOB_OF(here), .name = "main", .world = 1,    .nlocal = 1,
			   .epoch = 2,   .spread = true, .ranks = &rank};
	rank = (struct rank){.job = &job, .pidfd = -1, .restoring = {.seq = 1, .deadline = UINT64_MAX}};
	job_init_saves(&job);
	copying_init(&job);
	job_init_restore(&job);
	job_init_recoveries(&job);
	job.restore.of.look_around = look_around;
	job.restore.of.fetch_part = fetch_part;
	list_push(&here.jobs.list, &job.link);
	maker_new(&made, kept);
	make_arena(true);
	nheld = nasked = 0;
}

static void teardown(void)
{
	restore_cancel(&job.restore);
	pool_free(here.runtime.pool);
	saves_free(&job.saves);
	replica_free(replica);
	roster_free(here.peers.roster);
	memory_put(rank.mem);
	maker_free(&made);
}

TestSuite(recut, .init = setup, .fini = teardown, .timeout = 60);

static void found_at(uint32_t part, unsigned node)
{
	held[nheld++] = (struct replica_found){
		.node = node, .rank = part, .world = MAKER_WORLD, .id = kept, .table = made.mem[part]->sum};
}

/* On this node. */
static void keep(uint32_t part)
{
	struct step_id ids[ARENA_SLOTS_MAX] = {kept};
	cr_assert_eq(replica_keep(replica, "main", made.mem[part], ids), 0);
}

static void run_work(void)
{
	struct pollfd fd = {.fd = pool_event_fd(here.runtime.pool), .events = POLLIN};
	while (job.restore.work) {
		cr_assert_eq(poll(&fd, 1, 10000), 1, "nobody works");
		pool_poll(here.runtime.pool);
	}
}

static void begin(void)
{
	job.restore.state = RESTORE_FOUND;
	restore_fetch(&job.restore, &(struct peer_restore_fetch){.id = kept, .world = MAKER_WORLD, .recut = true});
	run_work();
}

/* Of the part that was asked for last. */
static void answer(int rc, const char *text)
{
	const struct replica_found *f = &asked[nasked - 1];
	struct replica_fetched done = {.job = "main", .rank = f->rank, .id = kept, .from = f->node, .rc = rc};
	err_set(&done.err, rc, "%s", text);
	if (!rc)
		keep(f->rank);
	recut_fetched(&job.restore, &done);
	run_work();
}

static unsigned used(const struct memory *mem)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < mem->nslots; i++)
		n += mem->slots[i].used;
	return n;
}

/* Of "w". */
static const uint8_t *data_of(const struct memory *mem, uint32_t slot)
{
	for (uint32_t p = 0; p < mem->layout.npieces; p++)
		if (!strcmp(mem->table->reg.entries[mem->layout.pieces[p].entry].name, "w"))
			return memory_slot(mem, slot) + mem->layout.pieces[p].slot_at;
	cr_assert_fail("no piece of w");
	return NULL;
}

static void expect_brought(enum wire_source source)
{
	uint64_t bad;
	cr_assert_eq(job.restore.state, RESTORE_FETCHED, "%s", job.restore.text);
	cr_assert_not_null(saves_in_memory(&job.saves, kept.step), "%s", job.restore.text);
	cr_expect_eq(job.restore.source, source);
	cr_expect(slot_check(rank.mem, job.restore.slots[0], &bad));
	const uint8_t *w = data_of(rank.mem, job.restore.slots[0]);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		cr_expect_arr_eq(w + r * MAKER_ROWS * 8, data_of(made.mem[r], 0), MAKER_ROWS * 8);
	cr_expect(!job.restore.recut && !made.mem[0]->slots[0].copies && !made.mem[1]->slots[0].copies);
}

static void expect_refused(int rc, const char *text)
{
	cr_assert_eq(job.restore.state, RESTORE_FETCHED);
	cr_expect_null(saves_in_memory(&job.saves, kept.step));
	cr_expect(strstr(job.restore.text, text), "%d: %s", rc, job.restore.text);
	cr_expect(!job.restore.claimed[0] && !used(rank.mem) && !job.restore.recut);
}

Test(recut, what_this_node_keeps_needs_nobody_else)
{
	keep(0);
	keep(1);
	found_at(0, SELF);
	found_at(1, SELF);
	begin();
	cr_expect_eq(nasked, 0);
	expect_brought(WIRE_FROM_MEMORY);
	cr_expect_eq(used(made.mem[0]), 1, "it is still there for others");
}

Test(recut, what_is_lacking_is_fetched_from_who_holds_it)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	cr_assert_eq(nasked, 1);
	cr_expect(asked[0].rank == 1 && asked[0].node == OTHER && asked[0].world == MAKER_WORLD);
	cr_expect_not(restore_idle(&job.restore));
	answer(0, "");
	expect_brought(WIRE_FROM_PEER);
	cr_expect_eq(used(made.mem[1]), 0, "what was fetched for this alone is let go");
}

Test(recut, a_holder_that_is_busy_is_asked_again)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	answer(-EAGAIN, "1024 copies are being read here");
	cr_assert_eq(job.restore.state, RESTORE_RECUT, "%s", job.restore.text);
	while (nasked < 2) {
		poll(NULL, 0, 1);
		restore_pump(&job.restore);
	}
	cr_expect_eq(asked[1].node, OTHER);
	answer(0, "");
	expect_brought(WIRE_FROM_PEER);
}

Test(recut, nobody_waits_for_a_busy_holder_any_more)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	answer(-EAGAIN, "1024 copies are being read here");
	rank.restoring = (struct waiting){0};
	restore_pump(&job.restore);
	expect_refused(-ETIMEDOUT, "have not come in time");
}

Test(recut, what_is_damaged_here_is_taken_from_another)
{
	keep(0);
	keep(1);
	found_at(0, SELF);
	found_at(1, SELF);
	found_at(1, OTHER);
	((uint8_t *)memory_slot(made.mem[1], 0))[70000] ^= 1;
	begin();
	cr_assert_eq(nasked, 1);
	cr_expect(asked[0].rank == 1 && asked[0].node == OTHER);
	cr_expect(strstr(job.restore.text, "is damaged: tensor 'w' of rank 1"), "%s", job.restore.text);
	cr_expect_eq(used(made.mem[1]), 0, "nobody else is to find it");
	((uint8_t *)memory_slot(made.mem[1], 0))[70000] ^= 1;
	answer(0, "");
	expect_brought(WIRE_FROM_PEER);
}

Test(recut, the_next_holder_is_asked_for_what_one_has_damaged)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	found_at(1, THIRD);
	begin();
	answer(-EBADMSG, "damaged on its way");
	cr_assert_eq(nasked, 2);
	cr_expect_eq(asked[1].node, THIRD);
	answer(0, "");
	expect_brought(WIRE_FROM_PEER);
	cr_expect(strstr(job.restore.text, "rank 1 of 2 from node n1: damaged on its way"), "%s", job.restore.text);
}

/* That the tensor is not there may be the loss of a part: the step is passed over, and is not called a contradiction. */
Test(recut, a_part_that_nobody_has_any_more_is_no_contradiction)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	answer(-ECONNRESET, "the connection is gone");
	expect_refused(-EBADMSG, "tensor w: 40000 of the elements");
	cr_expect_eq(used(made.mem[0]), 1);
}

Test(recut, want_of_memory_is_said_and_lets_go_of_nothing)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	answer(-ENOMEM, "raise memory-limit of [node]");
	expect_refused(-ENOMEM, "raise memory-limit of [node]");
	cr_expect_eq(used(made.mem[0]), 1);
}

Test(recut, one_that_is_given_up_gives_its_slot_back_when_the_fetch_has_ended)
{
	keep(0);
	found_at(0, SELF);
	found_at(1, OTHER);
	begin();
	restore_cancel(&job.restore);
	cr_expect_eq(used(rank.mem), 1, "the fetch is under way");
	answer(-ESTALE, "a new epoch has begun");
	cr_expect(!used(rank.mem) && restore_idle(&job.restore) && !job.restore.recut);
	cr_expect(used(made.mem[0]) == 1 && !made.mem[0]->slots[0].copies);
}

Test(recut, ranks_that_register_less_have_a_part_of_the_step)
{
	make_arena(false);
	keep(0);
	keep(1);
	found_at(0, SELF);
	found_at(1, SELF);
	begin();
	expect_brought(WIRE_FROM_MEMORY);
	cr_expect(rank.mem->head->slots[job.restore.slots[0]].flags & SLOT_PARTIAL);
}

/* The copy of a rank that was restored in a larger world, and not saved since, has no blobs of it. */
Test(recut, a_copy_says_what_it_lacks)
{
	struct former_source source = {.saved_world = MAKER_WORLD};
	cr_assert_eq(former_source_make(&source, 1), 0);
	made.mem[1]->head->slots[0].flags = SLOT_NO_BLOBS | SLOT_PARTIAL | SLOT_WITNESSES;
	cr_expect_eq(memory_lacks(made.mem[1], 0), SLOT_NO_BLOBS | SLOT_PARTIAL);
	former_source_add(&source, made.mem[1], 0);
	cr_expect(source.partial && source.saved_world == 1);
	former_source_end(&source);
}

/* ---- what is kept ---------------------------------------------------------------------------------------------- */

static struct memory_account *account(void)
{
	return &here.runtime.memory;
}

Test(recut, what_is_kept_counts_with_its_table)
{
	keep(0);
	cr_expect_eq(account()->copies, made.mem[0]->size + TABLE_COST * made.mem[0]->table_len);
	cr_expect_eq(replica_kept(replica), account()->copies);
	replica_forget(replica, "main", (struct step_id){11, 1});
	replica_tick(replica);
	cr_expect(!account()->copies && !replica_kept(replica));
}

/* A copy of rank 0 of the present world arrives where there is no room for it. */
static int hold_another(struct step_id copied_by_all)
{
	struct err err = {{0}};
	struct arrival *arrival;
	const struct peer_shape shape = {.table = {1, 2}, .table_len = 100, .nleaves = 4, .slot_size = 4096};
	struct wish w = {.world = 1, .id = {30, 2}, .keep = copied_by_all, .shape = &shape};
	here.runtime.config.memory_limit = account()->copies + 100;
	int rc = make_arrival(copied_get(replica, "main"), &w, &arrival, &err);
	cr_expect(!rc || strstr(err.text, "kept of former worlds"), "%s", err.text);
	return rc;
}

Test(recut, what_may_be_the_only_copy_is_kept_although_memory_is_short)
{
	keep(0);
	cr_expect_eq(hold_another((struct step_id){0}), -ENOMEM);
	cr_expect_eq(hold_another(kept), -ENOMEM, "of that step the new world may have a part");
	cr_expect_eq(used(made.mem[0]), 1);
	cr_expect(replica_kept(replica));
}

Test(recut, what_is_older_than_what_every_rank_has_copies_of_makes_room)
{
	keep(0);
	cr_expect_eq(hold_another((struct step_id){20, 2}), 0);
	cr_expect_not(replica_kept(replica));
}

/* A snapshot of rank 0 of the former world, of which copies are held already or which is fetched to be read once. Returns where it arrives. */
static const struct holding *arrives(struct step_id id, bool fetched)
{
	struct err err = {{0}};
	struct arrival *arrival;
	const struct peer_shape shape = {.table = {1, 2}, .table_len = 100, .nleaves = 4, .slot_size = 4096};
	struct wish w = {.world = MAKER_WORLD, .id = id, .fetched = fetched, .shape = &shape};
	cr_assert_eq(make_arrival(copied_get(replica, "main"), &w, &arrival, &err), 0, "%s", err.text);
	struct holding *h = arrival->holding;
	h->mem->slots[arrival->slot] = (struct slot_view){.used = true, .id = id};
	h->arrival = NULL;
	free(arrival);
	return h;
}

/* Nothing of what is held is let go for it, and nobody waits for that: it may be what another node needs. */
Test(recut, what_is_fetched_has_its_place_beside_copies_that_fill_theirs)
{
	const struct holding *copies = arrives((struct step_id){8, 1}, false);
	cr_expect_eq(arrives((struct step_id){9, 1}, false), copies);
	const struct holding *fetched = arrives(kept, true);
	cr_expect_neq(fetched, copies);
	cr_expect_eq(used(copies->mem), MEMORY_HELD_SLOTS);
	cr_expect_eq(arrives((struct step_id){11, 1}, false), copies, "copies do not go where it was");
	for (uint32_t slot = 0; slot < fetched->mem->nslots; slot++)
		replica_drop(fetched->mem, slot);
	replica_tick(replica);
	cr_expect_eq(account()->copies, copies->mem->size + TABLE_COST * copies->mem->table_len, "it is let go");
}

/* Both are of rank 0, and of the same step. */
Test(recut, a_part_is_of_its_world)
{
	struct memory *mem;
	uint32_t slot;
	struct replica_part part = {.rank = 0, .world = 1, .id = kept};
	keep(0);
	cr_expect_eq(replica_pin(replica, "main", &part, &mem, &slot), -ENOENT);
	part.world = MAKER_WORLD;
	cr_assert_eq(replica_pin(replica, "main", &part, &mem, &slot), 0);
	replica_unpin(replica, mem, slot);
}
