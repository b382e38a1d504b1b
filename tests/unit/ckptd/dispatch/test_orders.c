/* Every order in every state of a job on this node: dispatch/orders.c. Nobody sends them so. But a plan, a loss or a coordinator that moves can put any
 * of them behind the state that it was meant for, and the daemon of all other jobs must not die of it. */
#include "ckptd/job_of.h"
#include "participant/orders.h"

#include "base/clock.h"
#include "base/log.h"
#include "ckptd/job_maker.h"
#include "cluster/roster.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "daemon.h"
#include "format/message/peer_coord.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/recovery_notes.h"
#include "job/restoring.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { EPOCH = 3, STEP = 10, BEYOND = 9 /* a rank that no world here has */ };

/* How far the ranks of this node are. */
enum state { NO_RANKS, NOBODY, CONNECTED, REGISTERED, JOINING, JOINED, SAVED, RESTORING, ONE_GONE, LEFT };

/* What an order speaks of: what is there, or what was, or what others have. */
enum words { FITS, OF_LAST_EPOCH, OF_OTHERS, WORDS_END };

static struct daemon here;
static struct job *job;
static struct maker made;

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void open_daemon(void)
{
	static const char text[] = "n0 127.0.0.1:7000\nn1 127.0.0.1:7001\n";
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	daemon_init(&here);
	here.runtime.config = (struct config){.memory_limit = UINT64_MAX, .node = "n0"};
	cr_assert_eq(roster_parse("nodes", text, strlen(text), &here.peers.roster, &err), 0, "%s", err.text);
	cr_assert_eq(pool_new(1, &here.runtime.pool, &err), 0, "%s", err.text);
	cr_assert_eq(disk_new(NULL, &here.storage.disk, &here.storage.root, &err), 0, "%s", err.text);
	throttle_init(&here.storage.writes, &here.runtime.config.write_bandwidth);
	cr_assert_eq(loop_new(&here.runtime.loop, &err), 0, "%s", err.text);
	cr_assert_eq(sources_new(&here.runtime.sources, &err), 0, "%s", err.text);
}

static void close_daemon(void)
{
	pool_free(here.runtime.pool);
	disk_free(here.storage.disk);
	hosts_free(&here.control);
	loop_free(here.runtime.loop);
	sources_free(here.runtime.sources);
	roster_free(here.peers.roster);
}

static void fill_rank(struct rank *rank, uint32_t r, enum state state)
{
	static const enum rank_state is[] = {[CONNECTED] = RANK_CONNECTED, [REGISTERED] = RANK_REGISTERED,
					     [JOINING] = RANK_REGISTERED,  [JOINED] = RANK_JOINED,
					     [SAVED] = RANK_JOINED,        [RESTORING] = RANK_JOINED,
					     [ONE_GONE] = RANK_JOINED,     [LEFT] = RANK_LEFT};
	const struct waiting waits = {.seq = 5, .deadline = UINT64_MAX};
	*rank = (struct rank){.job = job, .id = r, .index = r, .pidfd = -1, .doorbell = -1, .state = is[state]};
	if (state == NOBODY)
		rank->id = RANK_MAX;
	if (state < REGISTERED)
		return;
	rank->registered = rank->arena_sent = true;
	rank->mem = memory_get(made.mem[r]);
	rank->table = table_get(made.mem[r]->table);
	here.runtime.memory.arenas += rank->mem->size;
	rank->joining = state == JOINING ? waits : (struct waiting){0};
	rank->restoring = state == RESTORING ? waits : (struct waiting){0};
	if (state == ONE_GONE && r)
		rank->state = RANK_ABSENT;
}

static void begin(enum state state)
{
	static const uint32_t slots[MAKER_WORLD] = {0};
	open_daemon();
	maker_new(&made, (struct step_id){STEP, EPOCH});
	job = calloc(1, sizeof(*job));
	cr_assert(job);
	*job = (struct job){JOB_OF(here),
			    .name = "main",
			    .world = state == NO_RANKS ? 0 : 2 * MAKER_WORLD,
			    .nlocal = state == NO_RANKS ? 0 : MAKER_WORLD,
			    .nslots = ARENA_SLOTS_MIN,
			    .spread = true,
			    .epoch = EPOCH,
			    .known = EPOCH,
			    .entered = state >= JOINED ? EPOCH : 0};
	job->resize = (struct resize){.offered = state % 2, .offer = {.want = 4, .least = 1, .processes = 2}};
	job->ranks = calloc(MAKER_WORLD, sizeof(*job->ranks));
	cr_assert(job->ranks);
	for (uint32_t r = 0; r < job->nlocal; r++)
		fill_rank(&job->ranks[r], r, state);
	job->has_arenas = state >= REGISTERED;
	job_init_saves(job);
	copying_init(job);
	job_init_restore(job);
	job_init_marks(job);
	job_init_recoveries(job);
	list_push(&here.jobs.list, &job->link);
	if (state == SAVED || state == RESTORING)
		cr_assert_eq(saves_adopt(&job->saves, (struct step_id){STEP, EPOCH}, slots), 0);
}

/* What is under way ends, whatever becomes of it. */
static void settle(void)
{
	uint64_t limit = clock_deadline(10 * CLOCK_NS_PER_S);
	restore_cancel(&job->restore);
	saves_abandon(&job->saves, "the test is over");
	while (job->restore.work || saves_at_work(&job->saves)) {
		struct pollfd fds[] = {{.fd = pool_event_fd(here.runtime.pool), .events = POLLIN},
				       {.fd = disk_event_fd(here.storage.disk), .events = POLLIN}};
		cr_assert_gt(poll(fds, 2, clock_ms_until(limit)), 0, "it goes on for ever");
		pool_poll(here.runtime.pool);
		disk_poll(here.storage.disk, 0);
		outbox_deliver(&here.control);
		restore_cancel(&job->restore);
		saves_follow(&job->saves);
		saves_abandon(&job->saves, "the test is over");
	}
}

static void end(void)
{
	settle();
	job_free(job);
	maker_free(&made);
	close_daemon();
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static struct step_id id_of(enum words w)
{
	return (struct step_id){.step = STEP + (w == OF_OTHERS), .epoch = w == OF_LAST_EPOCH ? EPOCH - 1 : EPOCH};
}

static void word(struct peer_order *o, enum words w)
{
	o->word = (struct peer_word){.epoch = w == OF_LAST_EPOCH ? EPOCH : EPOCH + 1,
				     .rank = w == OF_OTHERS ? BEYOND : 0,
				     .flag = w != FITS,
				     .rc = o->type == PEER_REJECT ? -EAGAIN : 0,
				     .text = "why"};
}

static void joined(struct peer_order *o, enum words w)
{
	static uint32_t lens[2 * MAKER_WORLD], others_lens[1];
	static uint8_t addresses[2 * MAKER_WORLD][WIRE_ADDRESS_MAX], others[1][WIRE_ADDRESS_MAX];
	o->joined = (struct wire_joined){.epoch = w == OF_LAST_EPOCH ? EPOCH - 1 : EPOCH,
					 .world = w == OF_OTHERS ? 1 : 2 * MAKER_WORLD,
					 .address_len = w == OF_OTHERS ? others_lens : lens,
					 .addresses = w == OF_OTHERS ? others[0] : addresses[0]};
}

static void plan(struct peer_order *o, enum words w)
{
	o->plan = (struct wire_plan){.number = w == OF_LAST_EPOCH ? 1 : 3, .world = 3, .n = w == OF_OTHERS ? 0 : 1};
	o->plan.ranks[0] = 2;
	o->plan.was[0] = w == FITS ? 1 : WIRE_NEW_PROCESS;
}

static void fetch(struct peer_restore_fetch *m, enum words w)
{
	*m = (struct peer_restore_fetch){.id = id_of(w), .stored = w != FITS, .nholders = 2};
	m->holders[0] = (struct peer_holder){.rank = 0, .node = 1};
	m->holders[1] = (struct peer_holder){.rank = w == OF_OTHERS ? BEYOND : 1, .node = 0};
}

static void spill(struct peer_order *o, enum words w)
{
	static const enum peer_spill_phase phases[WORDS_END] = {PEER_SPILL_GATHER, PEER_SPILL_WRITE, PEER_SPILL_CLEAR};
	o->spill = (struct peer_spill){.owner = w == OF_OTHERS, .phase = phases[w], .as = id_of(w)};
	fetch(&o->spill.bring, w);
}

static void stragglers(struct peer_order *o, enum words w)
{
	struct peer_stragglers *m = &o->stragglers;
	*m = (struct peer_stragglers){.epoch = id_of(w).epoch, .n = 1, .nown = 1};
	m->of[0] = (struct peer_straggler){.rank = w == OF_OTHERS ? BEYOND : 1, .ratio = 2000};
	m->own[0] = (struct peer_own_part){.rank = m->of[0].rank, .ratio = 2000};
}

static void say(struct peer_order *o, enum words w)
{
	switch (o->type) {
	case PEER_JOINED:
		joined(o, w);
		return;
	case PEER_LOOK:
		o->look.step = w == FITS ? STEP_NEWEST : STEP;
		return;
	case PEER_PAUSE:
		o->step = w == OF_OTHERS ? UINT64_MAX : STEP;
		return;
	case PEER_RESTORE_FETCH:
		fetch(&o->bring, w);
		return;
	case PEER_RESTORED:
		o->choice = (struct peer_choice){.id = id_of(w), .source = WIRE_FROM_MEMORY};
		return;
	case PEER_REFUSE:
		o->refuse.rc = w == FITS ? -ENOENT : -EIO;
		return;
	case PEER_LEVEL:
	case PEER_FAIL:
	case PEER_COPY:
	case PEER_PIN_REPLICATED:
	case PEER_SKIP:
	case PEER_WRITE:
	case PEER_CLEAR:
		o->save = (struct peer_save){
			.id = id_of(w), .level = LEVEL_CAPTURED + w, .flag = w == FITS, .maker = 1, .rc = -EIO};
		return;
	case PEER_QUIESCE:
	case PEER_INVALIDATE_PLAN:
	case PEER_FINISH_STATE:
		o->number = 1 + w;
		return;
	case PEER_PLAN:
		plan(o, w);
		return;
	case PEER_SPILL:
		spill(o, w);
		return;
	case PEER_COMPARE:
		o->compare = (struct peer_compare){.id = id_of(w), .set = 1, .first = 0, .count = w == FITS ? 1 : 100};
		return;
	case PEER_SCHEDULE:
		o->schedule = (struct schedule){.epoch = id_of(w).epoch, .number = 1, .memory_every = 1, .from = 1};
		return;
	case PEER_STANDSTILL:
		o->standstill = (struct peer_standstill){
			.epoch = id_of(w).epoch, .is = true, .named = true, .rank = w == OF_OTHERS ? BEYOND : 1};
		return;
	case PEER_STRAGGLERS:
		stragglers(o, w);
		return;
	case PEER_COMMAND:
		o->command.kind = w == FITS ? COMMAND_HALT : w == OF_OTHERS ? COMMAND_FLUSH : COMMAND_GO_ON;
		return;
	case PEER_ANSWER:
		o->answer.token = 1;
		return;
	default:
		word(o, w);
		return;
	}
}

/* ---- and afterwards ---------------------------------------------------------------------------------------------- */

/* What job_tick() does, but for the end of a job. */
static void tick(void)
{
	uint64_t now = clock_now();
	saves_follow(&job->saves);
	saves_expire(&job->saves);
	job->join_ns = job->join_ns ? now : 0;
	participation_tick(job);
	member_expire(job, now);
	copying_tick(job);
	restore_pump(&job->restore);
	resize_tick(job);
	finish_tick(job);
	interval_look(job);
	straggler_watch_tick(job, now);
	standstill_tick(job, now);
	loss_watch_tick(job);
}

static void try_order(enum state state, enum peer_type type, enum words w)
{
	struct peer_order order = {.type = type, .job = "main"};
	begin(state);
	if (job->nlocal && w != OF_LAST_EPOCH) /* else the coordinator here has never heard of the job */
		participation_join(job);
	say(&order, w);
	outbox_deliver(&here.control);
	orders_obey(&here.dispatch, &order);
	tick();
	tick();
	if (state == NO_RANKS && !job->nlocal)
		cr_expect_not(host_has(&here.control, "main"), "%s: it takes part without a rank",
			      peer_coord_name(type));
	end();
}

static void try_all(enum state state)
{
	for (enum peer_type type = PEER_ADOPT; type < PEER_ORDER_END; type++)
		for (enum words w = FITS; w < WORDS_END; w++)
			try_order(state, type, w);
}

Test(orders, without_ranks)
{
	try_all(NO_RANKS);
}

Test(orders, when_nobody_has_come)
{
	try_all(NOBODY);
}

Test(orders, before_there_are_arenas)
{
	try_all(CONNECTED);
}

Test(orders, when_ranks_have_registered)
{
	try_all(REGISTERED);
}

Test(orders, when_ranks_wait_to_join)
{
	try_all(JOINING);
}

Test(orders, when_ranks_have_joined)
{
	try_all(JOINED);
}

Test(orders, when_there_is_a_snapshot)
{
	try_all(SAVED);
}

Test(orders, when_ranks_wait_to_restore)
{
	try_all(RESTORING);
}

Test(orders, when_a_rank_is_gone)
{
	try_all(ONE_GONE);
}

Test(orders, when_all_ranks_have_left)
{
	try_all(LEFT);
}

/* What the former one had them wait for nobody else knows. */
Test(orders, under_another_coordinator_nobody_waits_in_a_fence_any_more)
{
	struct peer_order pause = {.type = PEER_PAUSE, .job = "main", .step = STEP};
	struct peer_order resume = {.type = PEER_RESUME, .job = "main", .word.epoch = EPOCH + 1};
	begin(SAVED);
	orders_obey(&here.dispatch, &pause);
	orders_obey(&here.dispatch, &resume);
	cr_expect_eq(atomic_load(&made.mem[0]->head->pause), STEP + 1, "that was said of another epoch");
	resume.word.epoch = EPOCH;
	orders_obey(&here.dispatch, &resume);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		cr_expect_eq(atomic_load(&made.mem[r]->head->pause), 0);
	end();
}
