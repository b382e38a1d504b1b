/* What happens to the registry of a fleet, and to its nodes there. All is drawn from a stream of its own, so that what else happens in a seed does not depend on it. */
#include "base/clock.h"
#include "control/election/election.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "coordinator/assignment.h"
#include "fleet.h"
#include "format/files/marks.h"
#include "net_sim.h"
#include "registry_sim.h"

#include <string.h>

#define CALM_NS (60 * CLOCK_NS_PER_S)
#define LEASE_NS (400 * CLOCK_NS_PER_MS) /* as long as the registry of the simulator makes it */

/* Of a thousand events. */
static struct {
	unsigned lead, part, leave;
} often;
static uint64_t rng;
static bool early; /* leases may end sooner than promised */

/* Why a node does not reach it. */
static bool cut_off[FLEET_NODES_MAX];
static struct {
	uint64_t until_ns, term, epoch; /* 0: there is none */
	bool far[FLEET_NODES_MAX];      /* the registry is on the other side */
} parted;
static struct {
	uint64_t until_ns, since_ns, step; /* 0: it is there; step: begun last before */
} away;

static unsigned rate(unsigned percent, unsigned most)
{
	return rng_chance(&rng, percent) ? 1 + (unsigned)rng_below(&rng, most) : 0;
}

void registry_begin(uint64_t seed, uint64_t delay_ns, unsigned drop)
{
	rng = mix64(seed ^ 0x7265676973747279ull);
	struct registry_faults faults = {.delay_ns = delay_ns,
					 .lose = drop * 10 + rate(30, 50),
					 .mute = drop * 10 + rate(30, 50),
					 .slow = rate(50, 150),
					 .slow_ns = 1 + rng_below(&rng, LEASE_NS),
					 .fast = rate(50, 80),
					 .linger_ns = rate(30, 200) * CLOCK_NS_PER_MS,
					 .early = rate(20, 400)};
	early = faults.early;
	often.lead = rate(30, 10);
	often.part = rate(40, 4);
	often.leave = rate(40, 3);
	memset(cut_off, 0, sizeof(cut_off));
	memset(&parted, 0, sizeof(parted));
	memset(&away, 0, sizeof(away));
	registry_sim_faults(&faults);
}

static void set_ways(void)
{
	for (unsigned i = 0; i < fleet.n; i++)
		registry_sim_cut(i, cut_off[i] || away.until_ns || (parted.until_ns && parted.far[i]));
}

void registry_cut(unsigned node, bool cut)
{
	cut_off[node] = cut;
	set_ways();
}

/* ---- a partition ------------------------------------------------------------------------------------------------- */

/* The nodes in two groups, each with some; mostly the coordinator is in that which does not reach the registry. */
static void divide(void)
{
	const struct fleet_node *c = fleet_coordinator();
	unsigned n = 0;
	for (unsigned i = 0; i < fleet.n; i++)
		n += parted.far[i] = rng_chance(&rng, 50);
	unsigned odd = c ? c->id : (unsigned)rng_below(&rng, fleet.n);
	if (!n || n == fleet.n || (c && rng_chance(&rng, 50))) {
		parted.far[odd] = n != fleet.n;
		parted.far[(odd + 1) % fleet.n] = n == fleet.n;
	}
}

static void cut_between(bool cut)
{
	for (unsigned a = 0; a < fleet.n; a++)
		for (unsigned b = 0; b < fleet.n; b++)
			if (parted.far[a] != parted.far[b])
				fleet_cut(a, b, cut);
	set_ways();
	fleet.cuts++;
	fleet.faults++;
}

static void part(void)
{
	divide();
	parted.until_ns = clock_now() + LEASE_NS + rng_below(&rng, 4 * LEASE_NS);
	parted.term = fleet_term();
	parted.epoch = fleet.told;
	cut_between(true);
	for (unsigned i = 0; i < fleet.n; i++)
		fleet_trace("partition: node %u is on the side %s the registry", i, parted.far[i] ? "without" : "of");
	fleet_sum.partitions++;
}

static void heal(void)
{
	const struct fleet_node *c = fleet_coordinator();
	parted.until_ns = 0;
	cut_between(false);
	fleet_trace("the partition is over");
	fleet_sum.elsewhere += c && parted.term && fleet_term() != parted.term;
	fleet_sum.parted_epochs += fleet.told > parted.epoch;
}

/* ---- an absence -------------------------------------------------------------------------------------------------- */

/* Of all nodes' leases several times the length: nobody coordinates then, and ranks go on to save. */
static void leave(void)
{
	away.since_ns = clock_now();
	away.until_ns = away.since_ns + 2 * LEASE_NS + rng_below(&rng, 6 * LEASE_NS);
	away.step = fleet.last_step;
	set_ways();
	fleet_trace("the registry is away until %.6f", (double)away.until_ns / 1e9);
	fleet.faults++;
}

/* Begun in an epoch that was entered before, and copied by all ranks: to memory, for all that anybody can know. */
static void count_saves(void)
{
	for (unsigned i = 0; i < fleet.nsaves; i++) {
		const struct fleet_save *s = &fleet.saves[i];
		fleet_sum.alone += s->begun && s->id.step > away.step && s->begun_ns > away.since_ns + LEASE_NS &&
				   fleet_complete(s);
	}
}

static void be_back(void)
{
	fleet_trace("the registry is back, and step %lu was the last before", (unsigned long)away.step);
	count_saves();
	away.until_ns = 0;
	set_ways();
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

bool registry_is_broken(void)
{
	return parted.until_ns || away.until_ns;
}

static bool ends(void)
{
	bool healed = parted.until_ns && clock_now() >= parted.until_ns;
	bool back = away.until_ns && clock_now() >= away.until_ns;
	if (healed)
		heal();
	if (back)
		be_back();
	return healed || back;
}

bool registry_happens(void)
{
	uint64_t what = rng_below(&rng, 1000);
	if (ends())
		return true;
	if (what < often.lead) {
		fleet_trace("another member of the registry leads");
		registry_sim_lead();
		fleet_sum.leads++;
	} else if ((what -= often.lead) < often.part && !registry_is_broken()) {
		part();
	} else if (what - often.part < often.leave && !registry_is_broken()) {
		leave();
		fleet_sum.absences++;
	} else {
		return false;
	}
	return true;
}

void registry_mend(void)
{
	if (parted.until_ns)
		heal();
	if (away.until_ns)
		be_back();
	memset(cut_off, 0, sizeof(cut_off));
	registry_sim_faults(&(struct registry_faults){0});
	set_ways();
}

/* ---- without faults ---------------------------------------------------------------------------------------------- */

static void go_on(uint64_t ns)
{
	for (uint64_t until = clock_now() + ns; clock_now() < until;)
		fleet_go_on(1);
}

/* The epoch on record is the one that all are in. A later one may be, that nobody was told of. */
static bool is_on_record(const struct fleet_node *c)
{
	struct begun last;
	struct err err;
	bool is = !election_last_begun(&c->daemon.control, FLEET_JOB, &last, &err) && last.id.epoch == fleet.told;
	begun_free(&last);
	return is;
}

/* The world does not change, nor is it about to: else ranks wait for the next plan, which is to be on record. */
static bool is_calm(void)
{
	const struct membership *at = NULL;
	struct membership_view v;
	const struct fleet_node *c = fleet_coordinator();
	struct coord_view coord = c ? host_view(&c->daemon.control, FLEET_JOB) : (struct coord_view){0};
	if (!c || fleet.stopped || coord.resuming || coord.epoch != fleet.told || coord.entered != fleet.told ||
	    !is_on_record(c))
		return false;
	fleet_each(r) if (r->alive && (!r->restored || r->epoch != fleet.told)) return false;
	return !membership_next(&c->daemon.control, &at, &v) ||
	       (!v.quiescing && !v.untold && assignment_state(v.assignment) == ASSIGNMENT_SOUND);
}

static bool becomes_calm(void)
{
	for (uint64_t until = clock_now() + CALM_NS; !is_calm() && clock_now() < until;)
		fleet_go_on(1);
	return is_calm();
}

/* However long it is away: all train on, and nothing is lost. */
static void try_absence(void)
{
	uint32_t epoch = fleet.told;
	uint64_t step = fleet.last_step;
	leave();
	go_on(away.until_ns - clock_now());
	SIM_CHECK(fleet.last_step > step, "training stands still at step %lu while the registry is away",
		  (unsigned long)step);
	be_back();
	fleet_settle("an absence of the registry");
	SIM_CHECK(fleet.stopped || fleet.told == epoch,
		  "epoch %u has begun after epoch %u, and nothing but the registry was away", fleet.told, epoch);
	fleet_sum.outlived++;
}

/* By daemons that have not begun anew since: others do not know that their ranks are in it. */
static bool is_entered_here(void)
{
	for (unsigned i = 0; i < fleet.n; i++) {
		const struct job *job = fleet.nodes[i].up ? fleet_job(&fleet.nodes[i]) : NULL;
		if (fleet.nodes[i].nranks && (!job || job->entered != fleet.told))
			return false;
	}
	return true;
}

static struct step_id newest_complete(void)
{
	struct step_id newest = {0};
	for (unsigned i = 0; i < fleet.nsaves; i++) {
		const struct fleet_save *s = &fleet.saves[i];
		if (s->begun && s->id.epoch == fleet.told && fleet_complete(s) && step_compare(s->id, newest) > 0)
			newest = s->id;
	}
	return newest;
}

static struct fleet_rank *any_rank(void)
{
	uint64_t at = rng_below(&rng, fleet.world);
	fleet_each(r) if (!at--) return r;
	return NULL;
}

/* A node that has the one complete that is being copied elsewhere has given up the one before, if it has no more slots. */
static bool is_copying(void)
{
	fleet_each(r) if (r->slot >= 0) return true;
	return false;
}

/* A rank is lost while nobody coordinates: what all had copied is not lost with it. */
static void try_loss_meanwhile(void)
{
	struct fleet_rank *r = fleet.elastic ? NULL : any_rank();
	if (!r || !is_entered_here())
		return;
	fleet_trace("trial: the loss of a rank while the registry is away");
	leave();
	go_on(away.until_ns - clock_now());
	for (uint64_t until = clock_now() + LEASE_NS; is_copying() && clock_now() < until;)
		fleet_go_on(1);
	bool alone = !fleet_coordinator() && !is_copying();
	struct step_id newest = newest_complete();
	fleet_kill_rank(r);
	be_back();
	fleet_settle("the loss of a rank while the registry is away");
	const struct fleet_epoch *e = &fleet.epochs[fleet.nepochs - 1];
	SIM_CHECK(!alone || fleet.stopped || step_compare(e->id, newest) >= 0,
		  "epoch %u goes on from step %lu epoch %u, and all had copied step %lu epoch %u", e->epoch,
		  (unsigned long)e->id.step, e->id.epoch, (unsigned long)newest.step, newest.epoch);
	fleet_sum.meanwhile += alone && newest.step > away.step;
}

static bool has_part(const struct fleet_node *n)
{
	return n->up && fleet_job((struct fleet_node *)n) && !n->nranks && !n->assignment.nplaces;
}

static void pass_to(const struct fleet_node *n)
{
	const struct fleet_node *c = fleet_coordinator();
	for (uint64_t until = clock_now() + 10 * LEASE_NS; c && c != n && clock_now() < until;
	     c = fleet_coordinator()) {
		if (election_may_hand_over(&c->daemon.control, FLEET_JOB))
			election_hand_over((struct control *)&c->daemon.control, FLEET_JOB, n->number);
		go_on(LEASE_NS);
	}
}

/* A spare, or a node that was drained: all ranks train on, under another coordinator. */
static void try_loss_of_rankless(void)
{
	struct fleet_node *n = NULL;
	for (unsigned i = 0; i < fleet.n && !n; i++)
		n = has_part(&fleet.nodes[i]) ? &fleet.nodes[i] : NULL;
	if (!n)
		return;
	pass_to(n);
	if (fleet_coordinator() != n || !becomes_calm())
		return;
	uint32_t epoch = fleet.told;
	uint64_t finished = fleet.finished;
	fleet_trace("trial: the loss of a coordinator without ranks");
	if (rng_chance(&rng, 50)) {
		fleet_kill_daemon(n);
	} else {
		fleet_lose(n);
		elastic_lost(n);
	}
	fleet_settle("the loss of a coordinator without ranks");
	SIM_CHECK(fleet.stopped || fleet.told == epoch,
		  "epoch %u has begun after epoch %u, and a coordinator without ranks was lost", fleet.told, epoch);
	SIM_CHECK(fleet.finished >= finished, "a step was repeated");
	fleet_sum.rankless++;
}

void registry_trials(void)
{
	if (becomes_calm())
		try_absence();
	if (becomes_calm())
		try_loss_of_rankless();
	if (is_calm()) /* or does not become so */
		try_loss_meanwhile();
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static uint64_t term_held_by(const struct fleet_node *n)
{
	bool here = n->up && host_here(&n->daemon.control, FLEET_JOB);
	return here ? coordinator_term(&n->daemon.control, FLEET_JOB) : 0;
}

void registry_check(void)
{
	uint64_t held[FLEET_NODES_MAX] = {0};
	unsigned n = 0;
	for (unsigned i = 0; fleet.registry && i < fleet.n; i++) {
		uint64_t term = term_held_by(&fleet.nodes[i]);
		for (unsigned k = 0; term && k < n; k++)
			SIM_CHECK(held[k] != term, "two daemons coordinate the job in term %lu", (unsigned long)term);
		if (term)
			held[n++] = term;
	}
	SIM_CHECK(n <= 1 || early, "%u daemons coordinate the job", n);
	fleet_sum.doubles += n > 1;
}
