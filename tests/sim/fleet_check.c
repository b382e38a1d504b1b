/* What must hold in a fleet, whatever happens (test_cluster.c numbers it). */
#include "base/clock.h"
#include "control/host/coordinator_host.h"
#include "fleet.h"
#include "net_sim.h"
#include "replication/replication.h"

#include <string.h>

struct fleet_save *fleet_save_of(struct step_id id)
{
	for (unsigned i = fleet.nsaves; i-- > 0;)
		if (!step_compare(fleet.saves[i].id, id))
			return &fleet.saves[i];
	SIM_CHECK(fleet.nsaves < FLEET_SAVES, "too many saves");
	fleet.saves[fleet.nsaves] = (struct fleet_save){.id = id, .world = fleet.world, .in = fleet.world};
	return &fleet.saves[fleet.nsaves++];
}

static uint32_t all_ranks(uint32_t world)
{
	return (1u << world) - 1;
}

bool fleet_complete(const struct fleet_save *s)
{
	return s->fenced == all_ranks(s->world) && !s->late;
}

/* What was spilled stands under an epoch that nobody had entered when it was written. */
struct fleet_save *fleet_origin(struct step_id id, uint32_t entry, uint64_t element, uint32_t value)
{
	struct fleet_save *s = fleet_save_of(id);
	if (s->begun)
		return s;
	for (unsigned i = fleet.nsaves; i-- > 0 && !s->is.epoch;) {
		const struct fleet_save *o = &fleet.saves[i];
		if (o->begun && o->id.step == id.step && o->id.epoch < id.epoch &&
		    fleet_content(entry, element, o->id) == value)
			s->is = o->id;
	}
	SIM_CHECK(s->is.epoch, "step %lu epoch %u is none that was saved", (unsigned long)id.step, id.epoch);
	return fleet_save_of(s->is);
}

/* In another world it stands in the memory of other ranks, and what was said of it there is over. */
static void enter_memory(struct step_id id, uint32_t world)
{
	struct fleet_save *s = fleet_save_of(id);
	if (s->in == world)
		return;
	s->in = world;
	s->told = 0;
	s->replicated = s->news = false;
	s->losses = fleet.losses;
}

static struct step_id origin_of(struct step_id id)
{
	const struct fleet_save *s = fleet_save_of(id);
	return s->is.epoch ? s->is : id;
}

struct step_id fleet_newest_durable(void)
{
	return fleet_durable_before(UINT64_MAX);
}

/* ---- what memory has ------------------------------------------------------------------------------------------------- */

struct look {
	uint32_t rank, world;
	struct step_id id;
	bool found;
};

static void look_at(void *arg, const struct replica_item *item)
{
	struct look *look = arg;
	look->found |= item->rank == look->rank && item->world == look->world && !step_compare(item->id, look->id);
}

static bool holds(struct fleet_node *n, const struct fleet_save *s, uint32_t rank)
{
	struct look look = {.rank = rank, .world = s->in, .id = s->id};
	if (n->up || n->ending)
		replica_inventory(n->daemon.peers.replica, FLEET_JOB, look_at, &look);
	return look.found;
}

static bool in_arena(const struct memory *mem, const struct fleet_save *s, uint32_t rank)
{
	return mem && mem->table->reg.rank == rank && mem->table->reg.world == s->in && fleet_slot(mem, s->id) >= 0;
}

/* In an arena of its own: that of a process, or one that only the daemon has. */
static bool has(struct fleet_node *n, const struct fleet_save *s, uint32_t rank)
{
	const struct job *job = fleet.elastic ? fleet_job(n) : NULL;
	const struct rank *here = job ? job_rank(job, rank) : NULL;
	if (here && in_arena(here->mem, s, rank))
		return true;
	fleet_each(r) if (r->home == n->id && !r->old && in_arena(r->mem, s, rank)) return true;
	return false;
}

/* Nodes that have the rank's part. */
static unsigned havers(const struct fleet_save *s, uint32_t rank)
{
	unsigned count = 0;
	for (unsigned h = 0; h < fleet.n; h++)
		count += holds(&fleet.nodes[h], s, rank) || has(&fleet.nodes[h], s, rank);
	return count;
}

static bool all_have(struct step_id id, unsigned nodes)
{
	const struct fleet_save *s = fleet_save_of(id);
	for (uint32_t r = 0; r < s->in; r++)
		if (havers(s, r) < nodes)
			return false;
	return true;
}

bool fleet_restorable(struct step_id id)
{
	return all_have(id, 1);
}

bool fleet_copied(struct step_id id)
{
	return all_have(id, 2);
}

static bool guaranteed(const struct fleet_save *s)
{
	return s->told && fleet.losses - s->losses <= 1 && !s->waived;
}

struct step_id fleet_newest_safe(void)
{
	struct step_id newest = {0};
	for (unsigned i = 0; i < fleet.nsaves; i++)
		if (guaranteed(&fleet.saves[i]) && step_compare(fleet.saves[i].id, newest) > 0 &&
		    fleet_counts(fleet.saves[i].id))
			newest = fleet.saves[i].id;
	return newest;
}

/* This one, or one that is newer and was captured, is on so many nodes. */
static bool something_left(struct step_id from, unsigned nodes)
{
	for (unsigned i = 0; i < fleet.nsaves; i++)
		if (fleet.saves[i].level >= LEVEL_CAPTURED && step_compare(fleet.saves[i].id, from) >= 0 &&
		    all_have(fleet.saves[i].id, nodes))
			return true;
	return false;
}

/* Nothing has happened, since the epoch was entered that was entered last, for which a change of the world may leave behind what is in
 * memory: but for the loss of one node, and what follows from that. */
static bool calm(void)
{
	const struct fleet_epoch *e = fleet.nepochs ? &fleet.epochs[fleet.nepochs - 1] : NULL;
	return e && e->connected && e->shocks == fleet_shocks() && e->term == fleet_term() &&
	       net_sim_counts()->ended - e->ended <= 2 * (fleet.n - 1);
}

/* A change of the world may have brought it to storage, or left it behind. */
static bool excused(struct step_id safe)
{
	if (!fleet.elastic || fleet_stored_since(safe))
		return fleet.elastic;
	if (calm())
		return false;
	fleet_trace("step %lu epoch %u is left behind", (unsigned long)safe.step, safe.epoch);
	for (unsigned i = 0; i < fleet.nsaves; i++)
		fleet.saves[i].waived = true;
	return true;
}

/* As far as anybody may still need it: also when all have finished, and not every launcher has heard of it. */
static bool is_over(void)
{
	bool all = !fleet.elastic;
	if (fleet.finishing)
		return true;
	for (unsigned i = 0; i < fleet.n; i++) {
		if (fleet.nodes[i].ended)
			return true;
		all = all && (!fleet.nodes[i].nranks || fleet_finished(&fleet.nodes[i]));
	}
	return all;
}

static void check_promise(void)
{
	struct step_id safe = fleet_newest_safe();
	if (is_over() || !safe.epoch || step_compare(safe, fleet_newest_durable()) <= 0)
		return;
	bool lost = fleet.losses != fleet_save_of(safe)->losses;
	fleet_sum.promised++;
	if (something_left(safe, lost ? 1 : 2) || excused(safe))
		return;
	fleet_tell();
	SIM_CHECK(false, "step %lu epoch %u was replicated, and %s", (unsigned long)safe.step, safe.epoch,
		  lost ? "after one loss nothing from there on is left" : "nothing from there on would outlive a loss");
}

/* ---- levels ---------------------------------------------------------------------------------------------------------- */

static unsigned losses_before(uint64_t ns)
{
	unsigned n = fleet.losses;
	const unsigned size = sizeof(fleet.loss_ns) / sizeof(fleet.loss_ns[0]);
	while (n && n + size > fleet.losses && fleet.loss_ns[(n - 1) % size] >= ns)
		n--;
	return n;
}

static void check_copies(struct fleet_save *s)
{
	s->news = false;
	if (fleet.finishing || s->losses != fleet.losses || step_compare(s->id, fleet_newest_durable()) <= 0)
		return;
	for (uint32_t i = 0; i < s->in; i++)
		SIM_CHECK(havers(s, i) > 1,
			  "step %lu epoch %u is shown as replicated, and rank %u's part is on one node",
			  (unsigned long)s->id.step, s->id.epoch, i);
}

static void is_replicated(struct fleet_save *s, const struct fleet_rank *r)
{
	unsigned before = losses_before(r->born_ns); /* what is shown in an arena was copied since that was made */
	s->losses = s->losses > before ? s->losses : before;
	s->news = s->news || !s->told;
	s->told |= 1u << r->id;
	fleet_sum.replicated += !s->replicated && s->told == all_ranks(s->in);
	s->replicated = s->told == all_ranks(s->in);
}

static void is_shown(struct fleet_rank *r, struct step_id id, int level)
{
	struct fleet_save *s = fleet_save_of(id);
	if (level == LEVEL_REPLICATED)
		is_replicated(s, r);
	if (level <= s->level)
		return;
	const struct fleet_save *o = fleet_save_of(origin_of(id));
	SIM_CHECK(o->fenced == all_ranks(o->world),
		  "step %lu epoch %u is shown as %d without the fence of every rank (%x)", (unsigned long)id.step,
		  id.epoch, level, o->fenced);
	SIM_CHECK(!o->late, "step %lu epoch %u is shown as %d, and was copied after the epoch was over (%x)",
		  (unsigned long)id.step, id.epoch, level, o->late);
	fleet_trace("step %lu epoch %u is shown as %d to rank %u", (unsigned long)id.step, id.epoch, level, r->id);
	fleet_sum.captured += s->level < LEVEL_CAPTURED;
	fleet_sum.durable += s->level < LEVEL_DURABLE && level >= LEVEL_DURABLE;
	if (s->level < LEVEL_DURABLE && level >= LEVEL_DURABLE)
		s->durable_ns = clock_now();
	s->level = level;
}

/* LATE_NOBODY of what is durable makes ckpt_wait(CKPT_VERIFIED) an -EINVAL. */
static void check_dead_end(const struct arena_status *s)
{
	bool never = s->level == LEVEL_DURABLE && !s->error && s->late_phase == LATE_NOBODY;
	SIM_CHECK(!never || !fleet.verified,
		  "step %lu epoch %u is shown as never to be verified, and the settings say that it is", s->step,
		  s->epoch);
}

static void check_levels(struct fleet_rank *r)
{
	const struct arena_head *head = r->mem->head;
	uint32_t epoch = atomic_load(&head->epoch);
	if (atomic_load(&head->stop) && !fleet.stopped) {
		fleet.stopped = true;
		fleet_sum.stopped++;
		fleet_trace("the job is asked to end");
	}
	if (r->wake == atomic_load(&head->wake))
		return;
	r->wake = atomic_load(&head->wake);
	if (epoch != ARENA_EPOCH_OVER)
		fleet.told = epoch > fleet.told ? epoch : fleet.told;
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &head->status[i];
		if (s->epoch)
			check_dead_end(s);
		if (s->epoch && s->level > LEVEL_PENDING)
			is_shown(r, (struct step_id){.step = s->step, .epoch = s->epoch}, s->level);
	}
}

static void count_resumed(void)
{
	const struct fleet_node *n = fleet.registry ? fleet_coordinator() : NULL;
	const struct fleet_epoch *e = fleet.nepochs ? &fleet.epochs[fleet.nepochs - 1] : NULL;
	struct coord_view v = n ? host_view(&n->daemon.control, FLEET_JOB) : (struct coord_view){0};
	if (!e || !v.epoch || v.entered != e->epoch || e->term == fleet_term() || fleet.resumed_term == fleet_term())
		return;
	fleet.resumed_term = fleet_term();
	fleet_sum.resumed++;
	fleet_sum.planned += fleet.elastic;
}

void fleet_check(void)
{
	registry_check();
	count_resumed();
	drains_check();
	halts_check();
	fleet_each(r) if (r->mem && !r->old) check_levels(r);
	for (unsigned i = 0; i < fleet.nsaves; i++)
		if (fleet.saves[i].news)
			check_copies(&fleet.saves[i]);
	check_promise();
}

/* ---- epochs ---------------------------------------------------------------------------------------------------------- */

static struct fleet_epoch *find_epoch(uint32_t epoch)
{
	for (unsigned i = fleet.nepochs; i-- > 0;)
		if (fleet.epochs[i].epoch == epoch)
			return &fleet.epochs[i];
	return NULL;
}

static void read_members(const struct fleet_rank *rank, const struct wire_joined *m, uint8_t *out)
{
	SIM_CHECK(m->world == rank->world, "epoch %u has a world of %u, says rank %u of %u", m->epoch, m->world,
		  rank->id, rank->world);
	for (uint32_t r = 0; r < m->world; r++) {
		SIM_CHECK(m->address_len[r] == FLEET_ADDRESS, "the address of rank %u has %u bytes", r,
			  m->address_len[r]);
		memcpy(out + (size_t)r * FLEET_ADDRESS, m->addresses + (size_t)r * WIRE_ADDRESS_MAX, FLEET_ADDRESS);
	}
}

/* The newest step that it must go on from. */
static struct step_id safe_now(bool changed)
{
	struct step_id safe = fleet_newest_safe(), none = {0};
	if (!safe.epoch || !fleet_connected())
		return none;
	return fleet_restorable(safe) || (changed && calm()) ? safe : none;
}

/* The newest that all ranks of some world have left in memory that is there. */
static struct step_id whole_now(void)
{
	struct step_id newest = {0};
	for (unsigned i = 0; !fleet.stored && fleet.elastic && fleet_connected() && i < fleet.nsaves; i++) {
		const struct fleet_save *s = &fleet.saves[i];
		if (s->level >= LEVEL_REPLICATED && step_compare(s->id, newest) > 0 && fleet_counts(s->id) &&
		    fleet_restorable(s->id))
			newest = s->id;
	}
	return newest;
}

static void count_world(const struct fleet_epoch *last, uint32_t world)
{
	fleet_sum.shrunk += last && world < last->world;
	fleet_sum.grown += last && world > last->world;
	fleet_sum.elastic += !last && fleet.elastic;
}

/* Nobody has entered it before. */
static struct fleet_epoch *new_epoch(uint32_t epoch, uint32_t world)
{
	const struct fleet_epoch *last = fleet.nepochs ? &fleet.epochs[fleet.nepochs - 1] : NULL;
	SIM_CHECK(!last || epoch > last->epoch, "epoch %u is entered after epoch %u", epoch, last->epoch);
	SIM_CHECK(fleet.nepochs < FLEET_EPOCHS, "too many epochs");
	struct fleet_epoch *e = &fleet.epochs[fleet.nepochs];
	*e = (struct fleet_epoch){.epoch = epoch,
				  .world = world,
				  .entered_ns = clock_now(),
				  .safe = safe_now(last && last->world != world),
				  .whole = whole_now(),
				  .faults = fleet_faults(),
				  .shocks = fleet_shocks(),
				  .ended = net_sim_counts()->ended,
				  .connected = fleet_connected(),
				  .term = fleet_term(),
				  .parted = registry_is_broken(),
				  .asked = fleet.elastic && last && last->restored && !last->parted &&
					   last->faults == fleet_faults()};
	count_world(last, world);
	fleet.nepochs++;
	fleet_sum.epochs++;
	return e;
}

void fleet_joined(struct fleet_rank *r, const struct wire_joined *m)
{
	uint8_t members[sizeof(fleet.epochs[0].members)] = {0};
	uint32_t me[2] = {r->id, r->life};
	struct fleet_epoch *e = find_epoch(m->epoch);
	read_members(r, m, members);
	if (!e) {
		e = new_epoch(m->epoch, m->world);
		memcpy(e->members, members, sizeof(members));
	}
	SIM_CHECK(!memcmp(e->members, members, sizeof(members)), "two memberships enter epoch %u", m->epoch);
	SIM_CHECK(!memcmp(members + (size_t)r->id * FLEET_ADDRESS, me, sizeof(me)),
		  "rank %u enters epoch %u in the place of another process", r->id, m->epoch);
	SIM_CHECK(!(e->entered & 1u << r->id), "rank %u enters epoch %u twice", r->id, m->epoch);
	SIM_CHECK(m->epoch > r->epoch, "rank %u enters epoch %u after %u", r->id, m->epoch, r->epoch);
	e->entered |= 1u << r->id;
}

/* ---- restores -------------------------------------------------------------------------------------------------------- */

/* Nothing was lost, so that nobody has to compute again what he has computed. */
static void check_repeated(const struct fleet_epoch *e, struct step_id is)
{
	if (e->asked && e->faults == fleet_faults()) {
		SIM_CHECK(is.step >= fleet.finished, "epoch %u goes on from step %lu, and step %lu was finished",
			  e->epoch, (unsigned long)is.step, (unsigned long)fleet.finished);
		fleet_sum.asked += fleet.elastic;
	}
	fleet.finished = is.step;
}

void fleet_restored(struct fleet_rank *r, const struct step_id *id)
{
	static const struct step_id nothing;
	struct step_id is = id ? origin_of(*id) : nothing;
	struct fleet_epoch *e = find_epoch(r->epoch);
	SIM_CHECK(e, "rank %u restores in epoch %u, which it has not entered", r->id, r->epoch);
	SIM_CHECK(!e->restored || (e->fresh == !id && !step_compare(e->id, is)),
		  "in epoch %u one rank restores step %lu epoch %u and rank %u step %lu epoch %u", e->epoch,
		  (unsigned long)e->id.step, e->id.epoch, r->id, (unsigned long)is.step, is.epoch);
	if (fleet_back_by(r, e))
		e->safe = nothing; /* what was replicated is given up */
	struct step_id durable = fleet_durable_before(e->entered_ns);
	SIM_CHECK(step_compare(is, durable) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and step %lu epoch %u was durable", e->epoch,
		  (unsigned long)is.step, is.epoch, (unsigned long)durable.step, durable.epoch);
	SIM_CHECK(!id || fleet_counts(*id) || !durable.epoch,
		  "epoch %u goes on from step %lu epoch %u, which was given up, and step %lu epoch %u was durable",
		  e->epoch, (unsigned long)is.step, is.epoch, (unsigned long)durable.step, durable.epoch);
	bool quiet = e->faults == fleet_faults();
	SIM_CHECK(!quiet || step_compare(is, e->safe) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and step %lu epoch %u was replicated", e->epoch,
		  (unsigned long)is.step, is.epoch, (unsigned long)e->safe.step, e->safe.epoch);
	SIM_CHECK(!quiet || step_compare(is, e->whole) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and memory has all of step %lu epoch %u", e->epoch,
		  (unsigned long)is.step, is.epoch, (unsigned long)e->whole.step, e->whole.epoch);
	const struct fleet_save *s = id ? fleet_save_of(is) : NULL;
	SIM_CHECK(!s || fleet_complete(s),
		  "step %lu epoch %u is restored, and was not copied by all in its epoch (%x, %x)",
		  (unsigned long)is.step, is.epoch, s->fenced, s->late);
	if (!e->restored)
		check_repeated(e, is);
	fleet_sum.recut += !e->restored && id && !fleet.stored && fleet_save_of(*id)->in != e->world;
	if (id && fleet.elastic)
		enter_memory(*id, e->world);
	fleet_sum.held += !e->restored && quiet && e->safe.epoch;
	fleet_sum.spilled += !e->restored && id && step_compare(*id, is) != 0;
	fleet_sum.restores += id != NULL;
	fleet_sum.fresh += !id;
	e->restored = true;
	e->fresh = !id;
	e->id = is;
}

uint32_t fleet_entered_world(void)
{
	const struct fleet_epoch *e = fleet.nepochs ? &fleet.epochs[fleet.nepochs - 1] : NULL;
	return e && e->restored && e->epoch == fleet.told ? e->world : 0;
}
