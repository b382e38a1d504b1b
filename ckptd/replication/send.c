#include "replication/replication_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"

#include <stdio.h>
#include <string.h>

enum { ACTIVE_MAX = 16 /* ways that are more than waiting */ };

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static void set_active(struct shipment *s, bool active)
{
	if (s->active == active)
		return;
	s->active = active;
	if (active)
		s->what.mem->slots[s->what.slot].copies++;
	else
		s->what.mem->slots[s->what.slot].copies--;
}

static void let_go_of_slot(struct shipment *s)
{
	set_active(s, false);
	memory_put(s->what.mem);
	s->what.mem = NULL;
	free(s->leaves);
	s->leaves = NULL;
	wbuf_free(&s->table);
	s->table = (struct wbuf){0};
}

static void shipment_free(struct shipment *s)
{
	list_for_safe(it, &s->ways)
		target_free(target_of(it));
	if (s->what.mem)
		let_go_of_slot(s);
	list_remove(&s->link);
	free(s);
}

static unsigned count_ways(const struct shipment *s, bool held)
{
	unsigned n = 0;
	list_for(it, &s->ways)
		n += (target_of(it)->state == TARGET_HELD) == held;
	return n;
}

/* It only waits for what is in flight. */
static bool is_retired(const struct shipment *s)
{
	return s->told && !s->epoch;
}

static struct shipment *find(const struct copied *job, uint32_t rank)
{
	list_for(it, &job->shipments)
		if (shipment_of(it)->what.rank == rank && !is_retired(shipment_of(it)))
			return shipment_of(it);
	return NULL;
}

static void stop_ways(struct shipment *s, int rc, const char *text)
{
	if (!s->rc)
		s->rc = err_set(&s->err, rc, "%s", text);
	list_for_safe(it, &s->ways)
		if (target_of(it)->state != TARGET_HELD)
			target_fail(target_of(it), rc, text);
}

/* It looks for no other holder, and goes when nothing of it is in flight. */
static void retire(struct shipment *s, int rc, const char *text)
{
	s->epoch = 0;
	stop_ways(s, rc, text);
}

int replica_send(struct replica *r, const struct replica_send *what)
{
	struct copied *job = copied_get(r, what->job);
	if (!job)
		return -ENOMEM;
	if (what->epoch < job->epoch)
		return -ESTALE;
	replica_epoch(r, what->job, what->epoch);
	struct shipment *s = find(job, what->rank);
	if (s && !s->told)
		return -EBUSY;
	uint64_t nleaves = what->mem->layout.nleaves;
	struct shipment *made = calloc(1, sizeof(*made));
	uint64_t *leaves = made ? malloc(max_u64(nleaves, 1) * sizeof(*leaves)) : NULL;
	if (!leaves) {
		free(made);
		return -ENOMEM;
	}
	if (s)
		retire(s, -ECANCELED, "a later snapshot is sent");
	if (nleaves)
		memcpy(leaves, what->leaves, nleaves * sizeof(*leaves));
	*made = (struct shipment){
		.job = job, .what = *what, .epoch = what->epoch, .leaves = leaves, .born = ++r->tokens};
	made->what.job = job->name;
	made->what.mem = memory_get(what->mem);
	list_init(&made->ways);
	list_push(&job->shipments, &made->link);
	set_active(made, true);
	return 0; /* the next tick begins */
}

unsigned replica_holders(const struct replica *r, const char *name, uint32_t rank, struct step_id id,
			 unsigned nodes[REPLICA_COPIES_MAX])
{
	struct copied *job = copied_find(r, name);
	struct shipment *s = job ? find(job, rank) : NULL;
	unsigned n = 0;
	if (!s || step_compare(s->what.id, id) != 0)
		return 0;
	list_for(it, &s->ways)
		if (target_of(it)->state == TARGET_HELD && n < REPLICA_COPIES_MAX)
			nodes[n++] = target_of(it)->node;
	return n;
}

/* ---- choosing holders ---------------------------------------------------------------------------------------------- */

static bool was_tried(const struct shipment *s, unsigned node)
{
	for (unsigned i = 0; i < s->ntried; i++)
		if (s->tried[i] == node)
			return true;
	list_for(it, &s->ways)
		if (target_of(it)->node == node)
			return true;
	return false;
}

static int place(struct replica *r, const struct shipment *without, unsigned copies, struct placement *out)
{
	const struct roster *roster = r->config.roster;
	AUTO_FREE bool *alive = calloc(roster->n, sizeof(*alive));
	if (!alive)
		return -ENOMEM;
	for (unsigned i = 0; i < roster->n; i++)
		alive[i] = i == r->config.self || (net_is_up(r->config.net, i) && !(without && was_tried(without, i)));
	return placement_make(roster, alive, copies, out);
}

/* As placed; after a failure wherever else there is somebody. */
static unsigned choose(struct shipment *s)
{
	struct replica *r = s->job->replica;
	struct placement *p = &r->placement[s->what.copies - 1], other;
	if (!p->holders && place(r, NULL, s->what.copies, p))
		return PLACEMENT_NOBODY;
	for (unsigned i = 0; i < p->copies; i++) {
		unsigned node = p->holders[(size_t)r->config.self * p->copies + i];
		if (node != PLACEMENT_NOBODY && !was_tried(s, node) && net_is_up(r->config.net, node))
			return node;
	}
	if (place(r, s, 1, &other))
		return PLACEMENT_NOBODY;
	unsigned node = other.holders[r->config.self];
	placement_free(&other);
	return node;
}

static unsigned count_up(const struct replica *r)
{
	unsigned n = 0;
	for (unsigned i = 0; i < r->config.roster->n; i++)
		n += i != r->config.self && net_is_up(r->config.net, i);
	return n;
}

static unsigned wanted(const struct shipment *s)
{
	return (unsigned)min_u64(s->what.copies, count_up(s->job->replica));
}

/* ---- a shipment ---------------------------------------------------------------------------------------------------- */

bool replica_whole(const struct replica *r, const char *name, uint32_t rank, struct step_id id)
{
	struct copied *job = copied_find(r, name);
	struct shipment *s = job ? find(job, rank) : NULL;
	return s && !step_compare(s->what.id, id) && count_ways(s, true) >= max_u64(wanted(s), 1);
}

bool send_busy(const struct copied *job)
{
	list_for(it, &job->shipments)
		if (!shipment_of(it)->told || shipment_of(it)->active)
			return true;
	return false;
}

static void add_target(struct shipment *s, unsigned node)
{
	struct target *w = calloc(1, sizeof(*w));
	if (!w) {
		target_remember(s, node, -ENOMEM, "no memory to send to it");
		return;
	}
	w->s = s;
	w->node = node;
	w->deadline = UINT64_MAX;
	list_push(&s->ways, &w->link);
}

static void tell(struct shipment *s)
{
	struct replica_send what = s->what;
	struct replica_sent sent = {.job = what.job,
				    .rank = what.rank,
				    .id = what.id,
				    .wanted = wanted(s),
				    .held = count_ways(s, true),
				    .rc = s->rc,
				    .err = s->err};
	if (sent.held && sent.held >= sent.wanted)
		sent.rc = 0;
	else if (!sent.rc)
		sent.rc = err_set(&sent.err, -EHOSTUNREACH, "no other node is there to hold a copy");
	s->told = true;
	if (!s->epoch)
		shipment_free(s);
	if (what.done)
		what.done(what.arg, &sent);
}

/* The slot has its snapshot still: nobody else has got it. */
static bool slot_stands(const struct shipment *s)
{
	const struct slot_view *view = s->what.mem ? &s->what.mem->slots[s->what.slot] : NULL;
	return view && view->used && !step_compare(view->id, s->what.id);
}

static bool wants_more(const struct shipment *s)
{
	return s->what.mem && s->epoch == s->job->epoch && s->ntried < TRIES_MAX &&
	       count_ways(s, true) + count_ways(s, false) < wanted(s);
}

static void start_waiting(struct shipment *s)
{
	list_for_safe(it, &s->ways)
		if (target_of(it)->state == TARGET_WAITING && s->job->replica->active < ACTIVE_MAX)
			target_offer(target_of(it));
}

/* True: it has ended, and is not to be touched any more: who was told may have sent the next. */
static bool advance(struct shipment *s)
{
	if (is_retired(s) && !count_ways(s, false)) {
		shipment_free(s);
		return true;
	}
	if (s->told && !s->active) {
		if (s->what.mem && !slot_stands(s))
			let_go_of_slot(s);
		if (!s->again || !wants_more(s))
			return false;
		s->again = false; /* one try for each loss */
		set_active(s, true);
		s->job->replica->counts.remade++;
	}
	while (wants_more(s)) {
		unsigned node = choose(s);
		if (node == PLACEMENT_NOBODY)
			break;
		add_target(s, node);
	}
	start_waiting(s);
	if (count_ways(s, false))
		return false;
	set_active(s, false);
	if (s->told)
		return false;
	tell(s);
	return true;
}

void send_tick(struct copied *job)
{
	uint64_t now = clock_now(), last = job->replica->tokens;
	list_for(it, &job->shipments)
		list_for_safe(at, &shipment_of(it)->ways) {
			struct target *w = target_of(at);
			if ((w->state == TARGET_OFFERED || w->state == TARGET_SEALED) && w->deadline < now)
				target_fail(w, -ETIMEDOUT, "no answer in time");
		}
	for (struct list *it = job->shipments.next; it != &job->shipments;) {
		struct shipment *s = shipment_of(it);
		/* Who is told may send the next, which is not for this tick, for it may fail at once, too. */
		it = s->born <= last && advance(s) ? job->shipments.next : it->next;
	}
}

static void forget_try(struct shipment *s, unsigned node)
{
	unsigned n = 0;
	for (unsigned i = 0; i < s->ntried; i++)
		if (s->tried[i] != node)
			s->tried[n++] = s->tried[i];
	s->ntried = n;
}

/* Who has fewer copies than are wanted tries the newcomer, also one that was lost a moment ago. */
void send_up(struct copied *job, unsigned node)
{
	list_for(it, &job->shipments) {
		struct shipment *s = shipment_of(it);
		s->again = true;
		if (s->told)
			s->ntried = 0;
		else
			forget_try(s, node);
	}
}

void send_down(struct copied *job, unsigned node)
{
	list_for(it, &job->shipments) {
		struct shipment *s = shipment_of(it);
		list_for_safe(at, &s->ways) {
			struct target *w = target_of(at);
			if (w->node != node)
				continue;
			if (w->state == TARGET_HELD) {
				target_free(w); /* it may come back with empty hands */
				s->again = true;
			} else {
				target_fail(w, -ECONNRESET, "the connection is gone");
			}
		}
		if (s->told)
			s->ntried = 0;
	}
}

void send_epoch(struct copied *job)
{
	list_for(it, &job->shipments) {
		struct shipment *s = shipment_of(it);
		if (s->active)
			stop_ways(s, -ESTALE, "a new epoch has begun");
		if (!s->told || is_retired(s))
			continue;
		s->epoch = job->epoch; /* a lost copy is made anew in whatever epoch */
		s->ntried = 0;
	}
}

/* What was told of a snapshot that nobody asks for any more. */
void send_forget(struct copied *job, struct step_id before)
{
	list_for_safe(it, &job->shipments) {
		struct shipment *s = shipment_of(it);
		if (s->told && !s->active && step_compare(s->what.id, before) < 0)
			shipment_free(s);
	}
}

/* rc 0: the daemon ends, the net is gone, and nobody is told. */
void send_end(struct copied *job, int rc)
{
	list_for_safe(it, &job->shipments) {
		if (rc)
			retire(shipment_of(it), rc, "the job has ended");
		else
			shipment_free(shipment_of(it));
	}
}
