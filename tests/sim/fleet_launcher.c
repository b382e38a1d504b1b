/* The launchers of an elastic job: what `ckpt run --min-ranks` does on each node, as in cli/launcher/launch_world.c, launch_ranks.c and
 * launch_daemon.c. */
#include "base/clock.h"
#include "control/membership/membership.h"
#include "coordinator/assignment.h"
#include "fleet.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* As in cli/launcher/launch_ranks.c. */
#define WORD_NS (300 * CLOCK_NS_PER_MS)
#define LOST_NS (2 * CLOCK_NS_PER_S)
#define RECENT_NS CLOCK_NS_PER_S

static struct fleet_participant *find(struct fleet_assignment *c, uint32_t id)
{
	for (uint32_t i = 0; i < c->nplaces; i++)
		if (c->places[i].id == id)
			return &c->places[i];
	return NULL;
}

static struct fleet_participant *participant_of(const struct fleet_rank *r)
{
	struct fleet_assignment *c = &fleet.nodes[r->home].assignment;
	for (uint32_t i = 0; i < c->nplaces; i++)
		if (c->places[i].process == r)
			return &c->places[i];
	return NULL;
}

static void hang_up(struct fleet_node *n)
{
	if (fleet_job(n))
		job_disconnected(fleet_job(n), NULL);
	client_free(n->launcher);
	n->launcher = NULL;
}

/* ---- what it offers ---------------------------------------------------------------------------------------------------- */

/* 0, or -EAGAIN: it is hung up on, and comes again. */
static int offer(struct fleet_node *n)
{
	struct fleet_assignment *c = &n->assignment;
	struct err err = {{0}};
	struct wire_offer m = {.want = fleet.want,
			       .least = fleet.least,
			       .processes = c->processes,
			       .spread = true,
			       .spare = c->spare,
			       .leaving = c->leaving,
			       .drained = c->drained,
			       .plan = c->plan};
	for (uint32_t i = 0; i < c->nplaces && c->plan; i++)
		if (!c->places[i].retired)
			m.ranks[m.n++] = c->places[i].id;
	if (!n->launcher)
		return 0;
	SIM_CHECK(fleet_job(n), "the job of a launcher has ended");
	int rc = resize_offer(fleet_job(n), ++c->seq, &m, &err);
	SIM_CHECK(!rc || rc == -EAGAIN, "what node %u offers is refused: %s", n->id, err.text);
	if (rc) {
		fleet_trace("node %u: its launcher is hung up on: %s", n->id, err.text);
		hang_up(n);
	}
	return rc;
}

void launcher_begin(struct fleet_node *n, uint32_t processes, bool spare)
{
	fleet_trace("node %u: a launcher begins, with %u processes%s", n->id, processes, spare ? ", a spare" : "");
	n->assignment = (struct fleet_assignment){.runs = true, .processes = processes, .spare = spare};
	n->heard = 0;
}

static void give_back(struct fleet_node *n, struct job *job)
{
	struct err err;
	for (uint32_t i = 0; i < n->assignment.nplaces; i++) {
		struct fleet_participant *s = &n->assignment.places[i];
		if (s->process && s->process->held && s->process->fd >= 0)
			job_return(job, s->id, dup(s->process->fd), &err);
		if (s->process && s->process->alive)
			job_spawned(job, s->id, s->process->pid, -1);
	}
	fleet_each(r) if (r->home == n->id && r->rank && r->mem && !r->old) r->held = true;
}

uint32_t launcher_epoch(const struct fleet_node *n)
{
	uint32_t known = 0;
	fleet_each(r)
	{
		bool holds = r->home == n->id && (fleet.elastic ? r->held : r->fd >= 0);
		known = holds && n->heard > known ? n->heard : known;
		known = holds && r->entered > known ? r->entered : known;
	}
	return known;
}

void launcher_greet(struct fleet_node *n)
{
	struct fleet_assignment *c = &n->assignment;
	struct wire_hello hello = {.protocol_min = 1,
				   .protocol_max = 1,
				   .role = ROLE_LAUNCHER,
				   .world = c->nplaces ? c->world : 0,
				   .local_world = c->nplaces,
				   .spread = true,
				   .plan = c->plan,
				   .job = FLEET_JOB};
	struct err err = {{0}};
	struct rank *none;
	struct job *job;
	if (!n->up || n->launcher || !c->runs)
		return;
	hello.epoch = launcher_epoch(n);
	struct client *client = client_new();
	if (job_hello(&n->daemon.jobs, client, &hello, getpid(), &job, &none, &err)) {
		fleet_trace("node %u: its launcher is refused: %s", n->id, err.text);
		client_free(client); /* it tries again */
		return;
	}
	fleet_trace("node %u: its launcher is there", n->id);
	n->launcher = client;
	if (!offer(n))
		give_back(n, job);
}

/* ---- processes --------------------------------------------------------------------------------------------------------- */

static struct fleet_rank *free_process(const struct fleet_node *n)
{
	for (uint32_t i = 0; i < fleet.nprocesses; i++) {
		struct fleet_rank *r = &fleet.ranks[i];
		if (r->used)
			continue;
		r->home = n->id;
		return r;
	}
	return NULL; /* when others have ended */
}

static void start(struct fleet_node *n, struct fleet_participant *s)
{
	struct job *job = fleet_job(n);
	if (!s->process)
		s->process = free_process(n);
	if (!s->process)
		return;
	fleet_born(s->process, s->id, n->assignment.world, n->assignment.nplaces);
	s->kill_ns = UINT64_MAX;
	if (n->launcher && job)
		job_spawned(job, s->id, s->process->pid, -1);
}

/* The daemon holds it for lost, and it has done nothing since. */
static void kill_lost(struct fleet_participant *s)
{
	struct fleet_rank *r = s->process;
	uint64_t since = s->kill_ns - LOST_NS;
	s->kill_ns = UINT64_MAX;
	if (r->worked_ns <= since)
		fleet_kill_rank(r);
}

void launcher_turn(struct fleet_node *n)
{
	for (uint32_t i = 0; i < n->assignment.nplaces; i++) {
		struct fleet_participant *s = &n->assignment.places[i];
		bool alive = s->process && s->process->alive;
		if (!alive && clock_now() >= s->start_ns)
			start(n, s);
		else if (alive && clock_now() >= s->kill_ns)
			kill_lost(s);
	}
}

void launcher_ended(struct fleet_rank *r, bool retire)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct fleet_participant *s = participant_of(r);
	struct job *job = fleet_job(n);
	if (!s) { /* of which nobody hears */
		fleet_forget_rank(r);
		return;
	}
	if (job && n->launcher)
		job_exited(job, s->id, r->pid, 9);
	s->kill_ns = UINT64_MAX;
	s->start_ns = clock_now() + (n->launcher ? WORD_NS : 0);
	if (!r->held) {
		fleet_forget_rank(r);
		s->process = NULL;
	}
	if (!retire || n->assignment.processes == 1 || launcher_without(NULL) - 1 < fleet.least)
		return;
	fleet_trace("node %u: rank %u is not started again", n->id, s->id);
	s->retired = true;
	s->start_ns = UINT64_MAX;
	n->assignment.processes--;
	offer(n);
}

/* It ends as soon as it sees that; nobody waits for it. */
static void let_go(struct fleet_participant *s)
{
	if (s->process && s->process->alive)
		s->process->doomed = true;
	else if (s->process)
		fleet_forget_rank(s->process);
}

/* ---- what it hears ----------------------------------------------------------------------------------------------------- */

static bool changes_nothing(struct fleet_assignment *c, const struct wire_plan *m)
{
	if (m->world != c->world || m->n != c->nplaces)
		return false;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->was[i] != m->ranks[i] || !find(c, m->ranks[i]))
			return false;
	return true;
}

static void take_places(struct fleet_node *n, const struct wire_plan *m)
{
	struct fleet_assignment *c = &n->assignment;
	struct fleet_participant places[FLEET_PLACES_MAX];
	if (c->nplaces)
		fleet_count_loss(); /* what is in memory here is of no use any more, if it is not elsewhere */
	SIM_CHECK(m->n <= c->processes + c->nplaces && m->n <= FLEET_PLACES_MAX, "a plan of %u ranks for node %u", m->n,
		  n->id);
	for (uint32_t i = 0; i < m->n; i++) {
		struct fleet_participant *from = m->was[i] == WIRE_NEW_PROCESS ? NULL : find(c, m->was[i]);
		places[i] = from ? *from : (struct fleet_participant){.start_ns = clock_now(), .kill_ns = UINT64_MAX};
		places[i].id = m->ranks[i];
		if (from)
			from->process = NULL;
	}
	for (uint32_t i = 0; i < c->nplaces; i++)
		let_go(&c->places[i]);
	for (uint32_t i = 0; i < m->n; i++)
		c->places[i] = places[i];
	c->nplaces = m->n;
	c->world = m->n ? m->world : 0;
	fleet_each(r) if (r->home == n->id)
	{
		r->held = false;
		r->old = true;
		if (!r->alive)
			fleet_drop_arena(r);
	}
}

/* It ends, and its connection with it. */
static void over(struct fleet_node *n)
{
	fleet_trace("node %u: its launcher ends", n->id);
	n->assignment.runs = false;
	if (n->launcher)
		hang_up(n);
}

/* Who has no rank in it may hear of a plan that is over, in the words of its own last one. Without a store and a registry no plan is on record,
 * and the next life of the coordinator's daemon may make another one of that number, until it hears of the first. */
static void check_plan(const struct fleet_node *n, const struct wire_plan *m)
{
	SIM_CHECK(m->number < FLEET_PLANS && m->world <= FLEET_RANKS_MAX, "plan %u of %u ranks", m->number, m->world);
	SIM_CHECK(!m->number == !m->world, "plan %u has a world of %u", m->number, m->world);
	struct fleet_plan *p = &fleet.plans[m->number];
	if (!m->n || (!fleet.stored && !fleet.registry))
		return;
	SIM_CHECK(!p->world || p->world == m->world, "there are two plans %u: of %u and of %u ranks", m->number,
		  p->world, m->world);
	p->world = m->world;
	for (uint32_t i = 0; i < m->n; i++) {
		uint8_t *on = &p->on[m->ranks[i]];
		SIM_CHECK(!*on || *on == n->id + 1, "there are two plans %u: rank %u is on node %u and on node %u",
			  m->number, m->ranks[i], *on - 1u, n->id);
		*on = (uint8_t)(n->id + 1);
	}
}

/* All have finished; or all who were at work are gone, and too few wait to begin it again. */
static bool may_be_over(void)
{
	if (fleet.over)
		return true;
	fleet_each(r) if (r->alive && r->joined) return false;
	return true;
}

static void take_plan(struct fleet_node *n, const struct wire_plan *m)
{
	check_plan(n, m);
	struct fleet_assignment *c = &n->assignment;
	bool same = m->number && changes_nothing(c, m);
	if ((!m->number && c->nplaces) || (m->number && m->number < c->plan))
		return;
	fleet_trace("node %u: plan %u: world %u, %u ranks here%s", n->id, m->number, m->world, m->n,
		    same ? ", as before" : "");
	SIM_CHECK(m->number || may_be_over(), "the job has ended for node %u", n->id);
	if (!m->number) {
		fleet_sum.let_go++;
		over(n);
		return;
	}
	c->plan = m->number;
	if (!same)
		take_places(n, m);
	fleet_sum.plans++;
	offer(n);
	if (!c->nplaces && c->leaving)
		over(n);
}

static void lost(struct fleet_participant *s)
{
	if (!s->process || !s->process->alive) {
		bool finished = s->process && s->process->finished && !s->retired;
		if (s->start_ns != UINT64_MAX || finished)
			s->start_ns = clock_now();
	} else if (clock_now() - s->process->begun_ns >= RECENT_NS) {
		s->kill_ns = clock_now() + LOST_NS;
	}
}

static void take_epoch(struct fleet_node *n, const struct wire_epoch *m)
{
	n->heard = m->epoch > n->heard ? m->epoch : n->heard;
	for (uint32_t i = 0; i < n->assignment.nplaces; i++)
		n->assignment.places[i].kill_ns = UINT64_MAX;
	for (uint32_t i = 0; i < m->nlost; i++) {
		struct fleet_participant *s = find(&n->assignment, m->lost[i]);
		if (s)
			lost(s);
	}
}

/* Only where a rank is given up whose part cannot be written, so that the others would lose it, too. */
static void take_error(const struct fleet_node *n, uint32_t seq, const struct wire_error *m)
{
	if (seq != n->assignment.seq)
		return;
	SIM_CHECK(strstr(m->text, "is in memory only, and cannot be written"), "the launcher of node %u gives up: %s",
		  n->id, m->text);
	fleet_sum.stopped += !fleet.stopped;
	fleet.stopped = true;
}

void launcher_hear(struct fleet_node *n)
{
	struct wire_epoch epoch;
	struct wire_error error;
	struct wire_plan plan;
	struct wire_command command;
	const void *body;
	uint64_t len;
	uint32_t seq;
	while (n->launcher && client_take(n->launcher, WIRE_EPOCH, &seq, &body, &len)) {
		SIM_CHECK(!wire_epoch_decode(body, len, &epoch, NULL), "EPOCH cannot be decoded");
		take_epoch(n, &epoch);
	}
	while (n->launcher && client_take(n->launcher, WIRE_ERROR, &seq, &body, &len)) {
		SIM_CHECK(!wire_error_decode(body, len, &error, NULL), "ERROR cannot be decoded");
		take_error(n, seq, &error);
	}
	while (n->launcher && client_take(n->launcher, WIRE_COMMAND, &seq, &body, &len)) {
		SIM_CHECK(!wire_command_decode(body, len, &command, NULL), "COMMAND cannot be decoded");
		n->assignment.drained = command.kind == COMMAND_DRAIN;
	}
	while (n->launcher && client_take(n->launcher, WIRE_PLAN, &seq, &body, &len)) {
		SIM_CHECK(!wire_plan_decode(body, len, &plan, NULL), "PLAN cannot be decoded");
		take_plan(n, &plan);
	}
}

/* ---- the ends ---------------------------------------------------------------------------------------------------------- */

void launcher_leave(struct fleet_node *n)
{
	fleet_trace("node %u: its launcher is asked to leave", n->id);
	n->assignment.leaving = true;
	offer(n);
}

void launcher_lost(struct fleet_node *n)
{
	n->assignment = (struct fleet_assignment){0};
}

static bool is_needed(const struct fleet_participant *s)
{
	return !s->retired && !(s->process && s->process->finished);
}

void launcher_finished(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct fleet_participant *s = participant_of(r);
	struct job *job = fleet_job(n);
	if (job && s)
		job_exited(job, s->id, r->pid, 0);
	if (s)
		s->start_ns = UINT64_MAX;
	for (uint32_t i = 0; i < n->assignment.nplaces; i++)
		if (is_needed(&n->assignment.places[i]))
			return;
	for (uint32_t i = 0; i < n->assignment.nplaces; i++)
		if (n->assignment.places[i].process)
			fleet_forget_rank(n->assignment.places[i].process);
	over(n);
	launcher_lost(n);
}

/* As the daemon hears it by the process's pidfd, also of one that has yet to connect; by whatever plan it is there. */
static void process_ends(struct job *job, int pid)
{
	for (uint32_t i = 0; job && pid && i < job->nlocal; i++)
		if (job->ranks[i].pid == pid)
			job_exited(job, job->ranks[i].id, pid, 9);
}

void launcher_kill(struct fleet_node *n)
{
	struct job *job = fleet_job(n);
	fleet_trace("node %u: its launcher is killed", n->id);
	fleet_each(r)
	{
		if (r->home != n->id)
			continue;
		struct rank *rank = r->rank;
		if (r->client)
			client_moved(r->client, &rank);
		if (job && rank)
			job_disconnected(job, rank);
		process_ends(job, r->pid);
		fleet_forget_rank(r);
	}
	over(n);
	launcher_lost(n);
	n->heard = 0;
	fleet.deaths++;
	fleet_count_loss();
}

static bool drained(uint32_t node)
{
	const struct membership *at = NULL;
	struct membership_view v;
	const struct fleet_node *first = fleet_coordinator();
	while (first && membership_next(&first->daemon.control, &at, &v))
		if (v.assignment->nodes[node].leaving)
			return true;
	return false;
}

uint32_t launcher_without(const struct fleet_node *n)
{
	uint32_t sum = 0;
	for (unsigned i = 0; i < fleet.n; i++) {
		const struct fleet_assignment *c = &fleet.nodes[i].assignment;
		if (&fleet.nodes[i] != n && c->runs && !c->leaving && !drained(fleet.nodes[i].number))
			sum += c->processes;
	}
	return sum;
}

uint32_t fleet_expected_world(void)
{
	uint32_t sum = launcher_without(NULL);
	return sum < fleet.want ? sum : fleet.want;
}
