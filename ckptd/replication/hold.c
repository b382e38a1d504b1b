#include "replication/replication_private.h"

#include "arena/room.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- arrivals ---------------------------------------------------------------------------------------------------- */

static void close_regions(struct arrival *a)
{
	for (int i = 0; i < TRANSFER_PARTS; i++) {
		net_withdraw(a->regions[i]);
		a->regions[i] = NULL;
	}
}

static void arrival_free(struct arrival *a)
{
	close_regions(a);
	a->holding->arrival = NULL;
	free(a);
}

/* Whatever it has brought is nobody's. A worker that is at it has its slot until it is done. */
void hold_drop(struct arrival *a)
{
	close_regions(a);
	a->ended = true;
	a->fetch = NULL;
	if (!a->running)
		arrival_free(a);
}

static struct copied *job_of(const struct arrival *a)
{
	return a->holding->job;
}

/* Tokens of another session are other transfers'. */
static bool is_heard(const struct arrival *a)
{
	return a->session == net_session(job_of(a)->replica->config.net, a->node);
}

static void refuse(struct arrival *a, int rc, const struct err *err)
{
	if (a->fetch)
		fetch_checked(a->fetch, rc, err);
	else if (is_heard(a))
		replica_refuse(job_of(a), a->node, a->token, rc, err->text);
	hold_drop(a);
}

static void run_on_worker(struct arrival *a, void (*run)(struct work *), void (*done)(struct work *))
{
	a->work = (struct work){.run = run, .done = done};
	a->running = true;
	a->rc = -ECANCELED; /* unless it runs: the pool may end before */
	pool_submit(job_of(a)->replica->config.pool, &a->work);
}

/* ---- checking ------------------------------------------------------------------------------------------------------ */

static void check_run(struct work *work)
{
	struct arrival *a = list_entry(work, struct arrival, work);
	struct memory *mem = a->holding->mem;
	uint64_t bad;
	for (int i = 0; i < TRANSFER_PARTS; i++)
		assert(!a->regions[i]); /* what is digested can no longer change */
	a->rc = mem->table ? 0 : memory_learn(mem, &a->err);
	if (!a->rc && (mem->table->reg.rank != a->holding->rank || mem->table->reg.world != a->holding->world))
		a->rc = err_set(&a->err, -EBADMSG, "the table is of rank %u of %u", mem->table->reg.rank,
				mem->table->reg.world);
	if (a->rc || slot_check(mem, a->slot, &bad))
		return;
	char name[ERR_TEXT_MAX / 2];
	memory_name_leaf(mem, bad, name, sizeof(name));
	a->rc = err_set(&a->err, -EBADMSG, "damaged on its way: %s", name);
}

static void check_done(struct work *work)
{
	struct arrival *a = list_entry(work, struct arrival, work);
	struct copied *job = job_of(a);
	a->running = false;
	if (a->ended) {
		arrival_free(a);
		return;
	}
	if (a->rc) {
		refuse(a, a->rc, &a->err);
		return;
	}
	a->holding->mem->slots[a->slot] =
		(struct slot_view){.used = true, .id = a->id, .began = a->began, .lacks = a->lacks};
	a->holding->owners[a->slot] = a->fetch ? PEER_OWNER_UNKNOWN : a->node;
	job->replica->counts.held++;
	if (a->fetch)
		fetch_checked(a->fetch, 0, NULL);
	else if (is_heard(a))
		replica_post_head(job, a->node, PEER_HELD, a->token);
	arrival_free(a);
}

/* From here on nobody writes to the slot: what is digested is what is held. */
void hold_check(struct arrival *a)
{
	close_regions(a);
	a->deadline = UINT64_MAX; /* a worker ends by itself */
	run_on_worker(a, check_run, check_done);
}

void hold_seal(struct copied *job, unsigned node, const struct peer_head *m)
{
	list_for(it, &job->holdings) {
		struct arrival *a = holding_of(it)->arrival;
		if (a && !a->fetch && !a->ended && a->node == node && a->token == m->token && a->regions[1]) {
			hold_check(a);
			return;
		}
	}
	/* It was dropped meanwhile, and its sender knows or will soon. */
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static int expose(struct arrival *a, int part, void *base, uint64_t size, struct err *err)
{
	return net_expose(job_of(a)->replica->config.net, a->node, base, size, NET_WRITABLE, &a->regions[part], err);
}

/* A region of no bytes has a byte, so that every ticket is one. */
static int open_regions(struct arrival *a, struct err *err)
{
	struct memory *mem = a->holding->mem;
	int rc = mem->table ? 0 : expose(a, 0, mem->base, mem->table_len, err);
	if (!rc)
		rc = expose(a, 1, memory_leaves(mem, a->slot), max_u64(mem->layout.nleaves * sizeof(uint64_t), 1), err);
	return rc ? rc : expose(a, 2, memory_slot(mem, a->slot), max_u64(mem->slot_size, 1), err);
}

static void open_for_sender(struct arrival *a)
{
	AUTO_WBUF struct wbuf body = {0};
	struct err err = {{0}};
	struct copied *job = job_of(a);
	int rc = is_heard(a) ? open_regions(a, &err) : -ENOTCONN;
	if (rc) {
		refuse(a, rc, &err);
		return;
	}
	struct peer_open m = {.head = {.epoch = job->epoch, .token = a->token},
			      .tickets = {.table = from_region(a->regions[0]),
					  .leaves = from_region(a->regions[1]),
					  .slot = from_region(a->regions[2])}};
	memcpy(m.head.job, job->name, sizeof(m.head.job));
	/* The sender fails when it makes no progress, and says so; this is for one that is gone in silence. */
	a->deadline = replica_until(job->replica, 64 * a->holding->mem->slot_size);
	if (!peer_open_encode(&m, &body))
		replica_post(job->replica, a->node, PEER_TICKET, &body);
}

static void opened(struct arrival *a)
{
	if (a->fetch)
		fetch_filled(a->fetch, 0, NULL);
	else
		open_for_sender(a);
}

static void fill(struct arrival *a);

static void fill_run(struct work *work)
{
	struct arrival *a = list_entry(work, struct arrival, work);
	a->rc = memory_prefault(a->holding->mem, true, &a->holding->filled);
}

static void fill_done(struct work *work)
{
	struct arrival *a = list_entry(work, struct arrival, work);
	struct holding *h = a->holding;
	a->running = false;
	h->present = a->rc <= 0; /* or as far as it could be */
	if (a->ended)
		arrival_free(a);
	else if (h->present)
		opened(a);
	else
		fill(a);
}

/* A slice at a time, so that others have their turn with the workers. */
static void fill(struct arrival *a)
{
	run_on_worker(a, fill_run, fill_done);
}

static void begin(struct arrival *a)
{
	if (a->holding->present)
		opened(a);
	else
		fill(a);
}

/* ---- the sender's word ----------------------------------------------------------------------------------------------- */

static bool holds(const struct holding *h, struct step_id id)
{
	for (uint32_t i = 0; h && i < h->mem->nslots; i++)
		if (h->mem->slots[i].used && !step_compare(h->mem->slots[i].id, id))
			return true;
	return false;
}

void hold_offer(struct copied *job, unsigned node, const struct peer_offer *m)
{
	struct err err = {{0}};
	struct wish w = {.rank = m->rank, .world = m->world, .id = m->id, .keep = m->keep, .shape = &m->shape};
	struct holding *h = holding_for(job, &w);
	struct arrival *a = h ? h->arrival : NULL;
	if (holds(h, m->id)) {
		replica_post_head(job, node, PEER_HELD, m->head.token);
		return;
	}
	/* A new offer of the same sender takes the place of its old one, unless a worker has that. */
	if (a && a->node == node && !a->fetch && !a->running) {
		hold_drop(a);
		a = NULL;
	}
	int rc = a ? err_set(&err, -EAGAIN, "another copy of rank %u is arriving", m->rank)
		   : make_arrival(job, &w, &a, &err);
	if (rc) {
		replica_refuse(job, node, m->head.token, rc, err.text);
		return;
	}
	a->began = m->began;
	a->lacks = m->lacks;
	a->node = node;
	a->session = net_session(job->replica->config.net, node);
	a->token = m->head.token;
	begin(a);
}

bool hold_release(struct copied *job, unsigned node, const struct peer_head *m)
{
	list_for(it, &job->holdings) {
		struct arrival *a = holding_of(it)->arrival;
		if (a && !a->fetch && a->node == node && a->token == m->token) {
			hold_drop(a);
			return true;
		}
	}
	return false;
}

int hold_for_fetch(struct fetch *fetch, const struct peer_source *m, struct arrival **out, struct err *err)
{
	const struct replica_fetch *what = fetch_what(fetch);
	struct copied *job = fetch_job(fetch);
	struct wish w = {.rank = what->rank, .world = m->world, .id = what->id, .fetched = true, .shape = &m->shape};
	int rc = make_arrival(job, &w, out, err);
	if (rc)
		return rc;
	(*out)->began = m->began;
	(*out)->lacks = m->lacks;
	(*out)->fetch = fetch;
	begin(*out);
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------------------------------- */

void hold_epoch(struct copied *job)
{
	list_for(it, &job->holdings) {
		struct arrival *a = holding_of(it)->arrival;
		if (a && !a->fetch && a->epoch < job->epoch)
			hold_drop(a);
	}
}

/* What a worker digests already needs nobody any more. */
void hold_down(struct copied *job, unsigned node)
{
	list_for(it, &job->holdings) {
		struct arrival *a = holding_of(it)->arrival;
		if (a && !a->fetch && a->node == node && (!a->running || !holding_of(it)->present))
			hold_drop(a);
	}
}

void hold_tick(struct copied *job)
{
	list_for_safe(it, &job->holdings) {
		struct holding *h = holding_of(it);
		if (h->arrival && h->arrival->deadline < clock_now()) {
			log_warn("job %s: rank %u stopped arriving from node %s", job->name, h->rank,
				 replica_node(job->replica, h->arrival->node));
			hold_drop(h->arrival);
		}
		if (holding_is_empty(h))
			holding_free(h);
	}
}

void hold_forget(struct copied *job, struct step_id before)
{
	if (step_compare(before, job->forgotten) > 0)
		job->forgotten = before;
	list_for(it, &job->holdings) {
		struct arrival *a = holding_of(it)->arrival;
		if (a && !a->fetch && step_compare(a->id, before) < 0)
			hold_drop(a);
		for (uint32_t i = 0; i < holding_of(it)->mem->nslots; i++) {
			struct slot_view *slot = &holding_of(it)->mem->slots[i];
			if (slot->used && !slot->copies && step_compare(slot->id, before) < 0)
				*slot = (struct slot_view){0};
		}
	}
}

void hold_end(struct copied *job)
{
	list_for_safe(it, &job->holdings) {
		if (holding_of(it)->arrival)
			hold_drop(holding_of(it)->arrival);
		holding_free(holding_of(it));
	}
}
