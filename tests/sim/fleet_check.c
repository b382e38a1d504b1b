/* What must hold in a fleet, whatever happens (test_cluster.c numbers it). */
#include "base/clock.h"
#include "fleet.h"
#include "replica.h"

#include <string.h>

struct fleet_save *fleet_save_of(struct step_id id)
{
	for (unsigned i = fleet.nsaves; i-- > 0;)
		if (!step_compare(fleet.saves[i].id, id))
			return &fleet.saves[i];
	SIM_CHECK(fleet.nsaves < FLEET_SAVES, "too many saves");
	fleet.saves[fleet.nsaves] = (struct fleet_save){.id = id};
	return &fleet.saves[fleet.nsaves++];
}

struct step_id fleet_newest_durable(void)
{
	struct step_id newest = {0};
	for (unsigned i = 0; i < fleet.nsaves; i++)
		if (fleet.saves[i].level >= LEVEL_DURABLE && step_compare(fleet.saves[i].id, newest) > 0)
			newest = fleet.saves[i].id;
	return newest;
}

/* ---- what memory has ------------------------------------------------------------------------------------------------- */

struct look {
	uint32_t rank;
	struct step_id id;
	bool found;
};

static void look_at(void *arg, const struct replica_item *item)
{
	struct look *look = arg;
	look->found |= item->rank == look->rank && !step_compare(item->id, look->id);
}

static bool holds(struct fleet_node *n, uint32_t rank, struct step_id id)
{
	struct look look = {.rank = rank, .id = id};
	if (n->up)
		replica_inventory(n->daemon.replica, FLEET_JOB, look_at, &look);
	return look.found;
}

/* Nodes that have the rank's part. */
static unsigned havers(const struct fleet_rank *r, struct step_id id)
{
	unsigned count = 0;
	for (unsigned h = 0; h < fleet.n; h++)
		count += holds(&fleet.nodes[h], r->id, id) || (h == r->home && fleet_slot(r, id) >= 0);
	return count;
}

static bool all_have(struct step_id id, unsigned nodes)
{
	for (uint32_t r = 0; r < fleet.world; r++)
		if (havers(&fleet.ranks[r], id) < nodes)
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
	return s->told && fleet.losses - s->losses <= 1;
}

struct step_id fleet_newest_safe(void)
{
	struct step_id newest = {0};
	for (unsigned i = 0; i < fleet.nsaves; i++)
		if (guaranteed(&fleet.saves[i]) && step_compare(fleet.saves[i].id, newest) > 0)
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

static void check_promise(void)
{
	struct step_id safe = fleet_newest_safe();
	if (!safe.epoch || step_compare(safe, fleet_newest_durable()) <= 0)
		return;
	bool lost = fleet.losses != fleet_save_of(safe)->losses;
	fleet_sum.promised++;
	if (!something_left(safe, lost ? 1 : 2))
		fleet_tell();
	SIM_CHECK(something_left(safe, lost ? 1 : 2), "step %lu epoch %u was replicated, and %s",
		  (unsigned long)safe.step, safe.epoch,
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
	if (s->losses != fleet.losses || step_compare(s->id, fleet_newest_durable()) <= 0)
		return;
	for (uint32_t i = 0; i < fleet.world; i++)
		SIM_CHECK(havers(&fleet.ranks[i], s->id) > 1,
			  "step %lu epoch %u is shown as replicated, and rank %u's part is on one node",
			  (unsigned long)s->id.step, s->id.epoch, i);
}

static void is_replicated(struct fleet_save *s, const struct fleet_rank *r)
{
	unsigned before = losses_before(r->born_ns); /* what is shown in an arena was copied since that was made */
	s->losses = s->losses > before ? s->losses : before;
	s->news = s->news || !s->told;
	s->told |= 1u << r->id;
	fleet_sum.replicated += !s->replicated && s->told == (1u << fleet.world) - 1;
	s->replicated = s->told == (1u << fleet.world) - 1;
}

static void is_shown(struct fleet_rank *r, struct step_id id, int level)
{
	struct fleet_save *s = fleet_save_of(id);
	if (level == LEVEL_REPLICATED)
		is_replicated(s, r);
	if (level <= s->level)
		return;
	SIM_CHECK(s->fenced == (1u << fleet.world) - 1,
		  "step %lu epoch %u is shown as %d without the fence of every rank (%x)", (unsigned long)id.step,
		  id.epoch, level, s->fenced);
	SIM_CHECK(!s->late, "step %lu epoch %u is shown as %d, and was copied after the epoch was over (%x)",
		  (unsigned long)id.step, id.epoch, level, s->late);
	fleet_trace("step %lu epoch %u is shown as %d to rank %u", (unsigned long)id.step, id.epoch, level, r->id);
	fleet_sum.captured += s->level < LEVEL_CAPTURED;
	fleet_sum.durable += s->level < LEVEL_DURABLE && level >= LEVEL_DURABLE;
	s->level = level;
}

static void check_levels(struct fleet_rank *r)
{
	const struct arena_head *head = r->mem->head;
	uint32_t epoch = atomic_load(&head->epoch);
	if (r->wake == atomic_load(&head->wake))
		return;
	r->wake = atomic_load(&head->wake);
	fleet.told = epoch > fleet.told ? epoch : fleet.told;
	for (int i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &head->status[i];
		if (s->epoch && s->level > LEVEL_PENDING)
			is_shown(r, (struct step_id){.step = s->step, .epoch = s->epoch}, s->level);
	}
}

void fleet_check(void)
{
	for (uint32_t r = 0; r < fleet.world; r++)
		if (fleet.ranks[r].mem)
			check_levels(&fleet.ranks[r]);
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

static void read_members(const struct wire_joined *m, uint8_t *out)
{
	SIM_CHECK(m->world == fleet.world, "epoch %u has a world of %u", m->epoch, m->world);
	for (uint32_t r = 0; r < m->world; r++) {
		SIM_CHECK(m->address_len[r] == FLEET_ADDRESS, "the address of rank %u has %u bytes", r,
			  m->address_len[r]);
		memcpy(out + (size_t)r * FLEET_ADDRESS, m->addresses + (size_t)r * WIRE_ADDRESS_MAX, FLEET_ADDRESS);
	}
}

/* Nobody has entered it before. */
static struct fleet_epoch *new_epoch(uint32_t epoch)
{
	uint32_t last = fleet.nepochs ? fleet.epochs[fleet.nepochs - 1].epoch : 0;
	SIM_CHECK(epoch > last, "epoch %u is entered after epoch %u", epoch, last);
	SIM_CHECK(fleet.nepochs < FLEET_EPOCHS, "too many epochs");
	struct fleet_epoch *e = &fleet.epochs[fleet.nepochs++];
	*e = (struct fleet_epoch){.epoch = epoch, .durable = fleet_newest_durable(), .faults = fleet_faults()};
	struct step_id safe = fleet_newest_safe();
	if (safe.epoch && fleet_connected() && fleet_restorable(safe))
		e->safe = safe;
	fleet_sum.epochs++;
	return e;
}

void fleet_joined(struct fleet_rank *r, const struct wire_joined *m)
{
	uint8_t members[sizeof(fleet.epochs[0].members)] = {0};
	uint32_t me[2] = {r->id, r->life};
	struct fleet_epoch *e = find_epoch(m->epoch);
	read_members(m, members);
	if (!e) {
		e = new_epoch(m->epoch);
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

void fleet_restored(struct fleet_rank *r, const struct step_id *id)
{
	static const struct step_id nothing;
	const struct step_id *is = id ? id : &nothing;
	struct fleet_epoch *e = find_epoch(r->epoch);
	SIM_CHECK(e, "rank %u restores in epoch %u, which it has not entered", r->id, r->epoch);
	SIM_CHECK(!e->restored || (e->fresh == !id && !step_compare(e->id, *is)),
		  "in epoch %u one rank restores step %lu epoch %u and rank %u step %lu epoch %u", e->epoch,
		  (unsigned long)e->id.step, e->id.epoch, r->id, (unsigned long)is->step, is->epoch);
	SIM_CHECK(step_compare(*is, e->durable) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and step %lu epoch %u was durable", e->epoch,
		  (unsigned long)is->step, is->epoch, (unsigned long)e->durable.step, e->durable.epoch);
	bool quiet = e->faults == fleet_faults();
	SIM_CHECK(!quiet || step_compare(*is, e->safe) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and step %lu epoch %u was replicated", e->epoch,
		  (unsigned long)is->step, is->epoch, (unsigned long)e->safe.step, e->safe.epoch);
	struct fleet_save *s = id ? fleet_save_of(*id) : NULL;
	SIM_CHECK(!s || (s->fenced == (1u << fleet.world) - 1 && !s->late),
		  "step %lu epoch %u is restored, and was not copied by all in its epoch (%x, %x)",
		  (unsigned long)is->step, is->epoch, s->fenced, s->late);
	fleet_sum.held += !e->restored && quiet && e->safe.epoch;
	fleet_sum.restores += id != NULL;
	fleet_sum.fresh += !id;
	e->restored = true;
	e->fresh = !id;
	e->id = *is;
}
