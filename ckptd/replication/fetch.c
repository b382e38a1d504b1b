#include "replication/replication_private.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { PART_TABLE, PART_LEAVES, PART_SLOT };

enum fetch_state {
	FETCH_ASKED = 1, /* the source has been asked */
	FETCH_FILLING,   /* pages for it are being made here */
	FETCH_COPYING,
	FETCH_CHECKING, /* a worker digests it */
};

struct fetch {
	struct list link;
	struct copied *job;
	struct replica_fetch what;
	enum fetch_state state;
	uint64_t token, deadline;
	bool has_table; /* only one with this will do */
	struct digest table;
	struct peer_source source;
	struct arrival *arrival; /* where it goes when it is to be held here */
	struct transfer transfer;
	bool opened;         /* the source must be told when it is over */
	struct memory *from; /* its source, when that is this node: a reference */
	uint32_t from_slot;
	/* What has arrived in what.mem is digested while the rest is on its way. */
	struct work work;
	bool checking;         /* a worker does */
	uint64_t checked, end; /* leaves: before checked they are right; up to end they are looked at */
	int found_rc;          /* by the worker */
	struct err found;
	int rc;
	bool failed; /* it ends when what runs has ended */
	struct err err;
};

static struct fetch *fetch_of(struct list *node)
{
	return list_entry(node, struct fetch, link);
}

const struct replica_fetch *fetch_what(const struct fetch *f)
{
	return &f->what;
}

struct copied *fetch_job(struct fetch *f)
{
	return f->job;
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

static void fetch_free(struct fetch *f)
{
	struct replica *r = f->job->replica;
	if (f->opened && net_is_up(r->config.net, f->what.from))
		replica_post_head(f->job, f->what.from, PEER_RELEASE, f->token);
	if (f->arrival)
		hold_drop(f->arrival);
	if (f->what.mem) {
		f->what.mem->slots[f->what.slot].copies--;
		memory_put(f->what.mem);
	}
	if (f->from) {
		f->from->slots[f->from_slot].copies--;
		memory_put(f->from);
	}
	list_remove(&f->link);
	free(f);
}

static void finish(struct fetch *f)
{
	struct replica *r = f->job->replica;
	struct replica_fetch what = f->what;
	struct replica_fetched done = {
		.job = what.job, .rank = what.rank, .id = what.id, .from = what.from, .rc = f->rc, .err = f->err};
	if (f->rc)
		r->counts.fetch_failed++;
	else
		r->counts.fetched++;
	fetch_free(f);
	what.done(what.arg, &done);
}

/* Ends it when nothing of it runs any more; the reason is kept, the first. */
static void fail(struct fetch *f, int rc, const char *text)
{
	if (f->failed)
		return;
	f->failed = true;
	f->rc = err_set(&f->err, rc, "%s", text);
	bool copying = f->state == FETCH_COPYING && !transfer_stop(&f->transfer, rc);
	if (!copying && !f->checking)
		finish(f);
}

/* ---- checking ------------------------------------------------------------------------------------------------------ */

enum { OWN_LEAVES = 1024 }; /* of a copy within this node, that are copied at a time */

static void go_on(struct fetch *f);

/* Both have the same layout. */
static void copy_own(struct fetch *f)
{
	struct memory *mem = f->what.mem;
	uint64_t at = f->checked ? memory_leaf_at(mem, f->checked) : 0, end = memory_leaf_at(mem, f->end);
	memcpy(memory_leaves(mem, f->what.slot) + f->checked, memory_leaves(f->from, f->from_slot) + f->checked,
	       (f->end - f->checked) * sizeof(uint64_t));
	memcpy(memory_slot(mem, f->what.slot) + at, memory_slot(f->from, f->from_slot) + at, end - at);
}

static void check_run(struct work *work)
{
	struct fetch *f = list_entry(work, struct fetch, work);
	struct memory *mem = f->what.mem;
	struct slot_leaves leaves = {.first = f->checked, .count = f->end - f->checked};
	uint64_t bad;
	if (f->from)
		copy_own(f);
	f->found_rc = 0;
	if (slot_check_leaves(mem, f->what.slot, &leaves, &bad))
		return;
	char name[ERR_TEXT_MAX / 2];
	memory_name_leaf(mem, bad, name, sizeof(name));
	f->found_rc = err_set(&f->found, -EBADMSG, "damaged: %s", name);
}

static void check_done(struct work *work)
{
	struct fetch *f = list_entry(work, struct fetch, work);
	f->checking = false;
	if (f->failed) {
		if (f->state != FETCH_COPYING || !f->transfer.in_flight)
			finish(f);
		return;
	}
	if (f->found_rc) {
		fail(f, f->found_rc, f->found.text);
		return;
	}
	if (f->what.arrived)
		f->what.arrived(f->what.arg, f->what.job, f->what.rank, f->checked, f->end - f->checked);
	f->checked = f->end;
	go_on(f);
}

/* Leaves that have arrived with their digests. */
static uint64_t arrived(const struct fetch *f)
{
	const struct memory *mem = f->what.mem;
	if (f->from)
		return min_u64(f->checked + OWN_LEAVES, mem->layout.nleaves);
	if (f->state == FETCH_CHECKING)
		return mem->layout.nleaves;
	if (transfer_front(&f->transfer, PART_LEAVES) < f->transfer.parts[PART_LEAVES].len)
		return 0;
	return memory_leaves_within(mem, transfer_front(&f->transfer, PART_SLOT));
}

/* Has the next leaves checked, if there are any, one bunch at a time; ends it behind the last. */
static void go_on(struct fetch *f)
{
	if (f->checking || f->failed)
		return;
	f->end = arrived(f);
	if (f->state == FETCH_CHECKING && f->checked == f->what.mem->layout.nleaves) {
		finish(f);
		return;
	}
	if (f->end <= f->checked)
		return;
	f->checking = true;
	f->work = (struct work){.run = check_run, .done = check_done};
	f->found_rc = err_set(&f->found, -ECANCELED, "the daemon ends"); /* unless it runs */
	pool_submit(f->job->replica->config.pool, &f->work);
}

/* All is here. */
static void check(struct fetch *f)
{
	if (f->opened)
		replica_post_head(f->job, f->what.from, PEER_RELEASE, f->token);
	f->opened = false;
	f->state = FETCH_CHECKING;
	if (f->arrival)
		hold_check(f->arrival);
	else
		go_on(f);
}

void fetch_checked(struct fetch *f, int rc, const struct err *err)
{
	f->arrival = NULL; /* it sees to itself */
	if (f->failed)
		return;
	f->rc = rc;
	if (rc)
		f->err = *err;
	finish(f);
}

/* ---- copying ------------------------------------------------------------------------------------------------------- */

static void copied(struct transfer *transfer)
{
	struct fetch *f = list_entry(transfer, struct fetch, transfer);
	if (!f->failed && !transfer->rc) {
		check(f);
		return;
	}
	if (!f->failed)
		f->rc = err_set(&f->err, transfer->rc, "copying failed: %s", err_name(transfer->rc));
	f->failed = true;
	if (!f->checking)
		finish(f);
}

static void advanced(struct transfer *transfer)
{
	struct fetch *f = list_entry(transfer, struct fetch, transfer);
	if (!f->arrival)
		go_on(f);
}

static void copy(struct fetch *f)
{
	struct replica *r = f->job->replica;
	struct memory *mem = f->arrival ? f->arrival->holding->mem : f->what.mem;
	uint32_t slot = f->arrival ? f->arrival->slot : f->what.slot;
	const struct peer_tickets *t = &f->source.tickets;
	f->state = FETCH_COPYING;
	f->transfer = (struct transfer){
		.net = r->config.net,
		.node = f->what.from,
		.kind = NET_READ,
		.parts = {{mem->base, mem->table ? 0 : mem->table_len, to_net(&t->table)},
			  {memory_leaves(mem, slot), mem->layout.nleaves * sizeof(uint64_t), to_net(&t->leaves)},
			  {memory_slot(mem, slot), mem->slot_size, to_net(&t->slot)}},
		.patience_ns = r->config.patience_ns,
		.done = copied,
		.advanced = advanced,
	};
	if (!transfer_start(&f->transfer))
		check(f);
}

void fetch_filled(struct fetch *f, int rc, const struct err *err)
{
	if (rc)
		fail(f, rc, err->text);
	else
		copy(f);
}

static struct replica_part part_of(const struct fetch *f)
{
	return (struct replica_part){.rank = f->what.rank,
				     .world = f->what.world,
				     .id = f->what.id,
				     .table = f->has_table ? &f->table : NULL};
}

static bool fits(const struct fetch *f, const struct peer_source *m)
{
	const struct memory *mem = f->what.mem;
	const struct peer_shape *s = &m->shape;
	if (m->tickets.table.size != s->table_len ||
	    m->tickets.leaves.size != max_u64(s->nleaves * sizeof(uint64_t), 1) ||
	    m->tickets.slot.size != max_u64(s->slot_size, 1))
		return false;
	if ((f->what.world && m->world != f->what.world) || (f->has_table && !digest_equal(s->table, f->table)))
		return false;
	return !mem || (digest_equal(s->table, mem->sum) && s->nleaves == mem->layout.nleaves &&
			s->slot_size == mem->slot_size);
}

static struct fetch *find(struct copied *job, unsigned node, uint64_t token)
{
	list_for(it, &job->fetches)
		if (fetch_of(it)->what.from == node && fetch_of(it)->token == token)
			return fetch_of(it);
	return NULL;
}

/* Ranks may load leaves as soon as they are there: what there is not they hear of before. */
static void tell_origin(const struct fetch *f, uint32_t began, uint32_t lacks)
{
	memory_tell_began(f->what.mem, f->what.slot, began);
	memory_tell_lacks(f->what.mem, f->what.slot, lacks);
	if (lacks & SLOT_NO_BLOBS)
		memory_bring_no_blobs(f->what.mem);
}

void fetch_source(struct copied *job, unsigned node, const struct peer_source *m)
{
	struct fetch *f = find(job, node, m->head.token);
	struct err err = {{0}};
	if (!f || f->state != FETCH_ASKED) {
		replica_post_head(job, node, PEER_RELEASE, m->head.token); /* nobody reads it any more */
		return;
	}
	f->opened = true;
	f->source = *m;
	if (!fits(f, m)) {
		fail(f, -ESTALE, "the source has it in another shape");
		return;
	}
	if (f->what.mem) {
		tell_origin(f, m->began, m->lacks);
		copy(f);
		return;
	}
	uint32_t slot;
	struct replica_part part = part_of(f);
	if (hold_find(job, &part, &slot)) { /* it was sent here meanwhile */
		finish(f);
		return;
	}
	f->state = FETCH_FILLING;
	f->deadline = UINT64_MAX; /* a worker ends by itself */
	int rc = hold_for_fetch(f, m, &f->arrival, &err);
	if (rc)
		fail(f, rc, err.text);
}

bool fetch_refused(struct copied *job, unsigned node, const struct peer_refused *m)
{
	struct fetch *f = find(job, node, m->head.token);
	if (f && f->state == FETCH_ASKED)
		fail(f, m->rc, m->text);
	return f != NULL;
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

static int ask(struct fetch *f)
{
	AUTO_WBUF struct wbuf body = {0};
	struct replica *r = f->job->replica;
	struct peer_fetch m = {.head = {.epoch = f->job->epoch, .token = f->token},
			       .rank = f->what.rank,
			       .world = f->what.world,
			       .id = f->what.id,
			       .same_table = f->has_table,
			       .table = f->table};
	memcpy(m.head.job, f->job->name, sizeof(m.head.job));
	int rc = peer_fetch_encode(&m, &body);
	if (!rc)
		replica_post(r, f->what.from, PEER_FETCH, &body);
	return rc;
}

/* What is held here is copied by a worker. */
static int take_own(struct fetch *f)
{
	uint32_t slot;
	struct memory *mem = f->what.mem;
	struct replica_part part = part_of(f), any = {.rank = f->what.rank, .id = f->what.id};
	struct holding *h = hold_find(f->job, &part, &slot);
	if (!h && mem && hold_find(f->job, &any, &slot))
		return -ESTALE;
	if (!h || !mem)
		return -ENOENT;
	if (h->mem->slot_size != mem->slot_size || h->mem->layout.nleaves != mem->layout.nleaves)
		return -ESTALE;
	f->from = memory_get(h->mem);
	f->from_slot = slot;
	tell_origin(f, memory_began(f->from, slot), memory_lacks(f->from, slot));
	f->from->slots[slot].copies++;
	check(f);
	return 0;
}

int replica_fetch(struct replica *r, const struct replica_fetch *what)
{
	struct copied *job = copied_get(r, what->job);
	struct fetch *f = job ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return -ENOMEM;
	if (what->epoch < job->epoch || (what->from != r->config.self && !net_is_up(r->config.net, what->from))) {
		bool stale = what->epoch < job->epoch;
		free(f);
		return stale ? -ESTALE : -ENOTCONN;
	}
	uint32_t slot;
	const struct digest *table = what->mem ? &what->mem->sum : what->table;
	*f = (struct fetch){.job = job, .what = *what, .state = FETCH_ASKED, .token = ++r->tokens};
	f->has_table = table != NULL;
	if (table)
		f->table = *table;
	f->what.table = NULL;
	struct replica_part part = part_of(f);
	if (!what->mem && hold_find(job, &part, &slot)) {
		free(f);
		return -EEXIST;
	}
	replica_epoch(r, what->job, what->epoch);
	f->what.job = job->name;
	f->deadline = replica_until(r, 0);
	list_push(&job->fetches, &f->link);
	if (what->mem) {
		memory_get(what->mem);
		what->mem->slots[what->slot].copies++;
	}
	int rc = what->from == r->config.self ? take_own(f) : ask(f);
	if (rc)
		fetch_free(f);
	return rc;
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

/* Who is told may begin other fetches, or end these. */
static void fail_all(struct copied *job, int rc, const char *text)
{
	uint64_t last = job->replica->tokens;
	for (struct list *it = job->fetches.next; it != &job->fetches;) {
		struct fetch *f = fetch_of(it);
		it = it->next;
		if (f->failed || f->token > last)
			continue;
		fail(f, rc, text);
		it = job->fetches.next;
	}
}

void fetch_epoch(struct copied *job)
{
	fail_all(job, -ESTALE, "a new epoch has begun");
}

static bool lost(const struct fetch *f, unsigned node)
{
	/* What stands here already is only looked at. */
	return f->what.from == node && f->state != FETCH_CHECKING;
}

void fetch_down(struct copied *job, unsigned node)
{
	uint64_t last = job->replica->tokens;
	for (struct list *it = job->fetches.next; it != &job->fetches;) {
		struct fetch *f = fetch_of(it);
		it = it->next;
		if (f->failed || f->token > last || !lost(f, node))
			continue;
		f->opened = false;
		fail(f, -ECONNRESET, "the connection is gone");
		it = job->fetches.next;
	}
}

void fetch_tick(struct copied *job)
{
	for (struct list *it = job->fetches.next; it != &job->fetches;) {
		struct fetch *f = fetch_of(it);
		it = it->next;
		if (f->state != FETCH_ASKED || f->deadline >= clock_now())
			continue;
		fail(f, -ETIMEDOUT, "no answer in time");
		it = job->fetches.next;
	}
}

void fetch_end(struct copied *job, int rc)
{
	if (rc) {
		fail_all(job, rc, "the job has ended");
		return;
	}
	list_for_safe(it, &job->fetches)
		fetch_free(fetch_of(it));
}
