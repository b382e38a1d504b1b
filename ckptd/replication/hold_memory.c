#include "replication/replication_private.h"
#include "runtime/room.h"

#include <stdlib.h>

enum { HOLDINGS_MAX = 4096 };

static uint64_t charge_of(const struct memory *mem)
{
	return mem->size + TABLE_COST * mem->table_len;
}

void holding_free(struct holding *h)
{
	h->job->replica->config.memory->copies -= charge_of(h->mem);
	list_remove(&h->link);
	memory_put(h->mem);
	free(h);
}

bool holding_in_use(const struct holding *h)
{
	for (uint32_t i = 0; i < h->mem->nslots; i++)
		if (h->mem->slots[i].copies)
			return true;
	return h->arrival != NULL;
}

bool holding_is_empty(const struct holding *h)
{
	for (uint32_t i = 0; i < h->mem->nslots; i++)
		if (h->mem->slots[i].used)
			return false;
	return !holding_in_use(h);
}

struct holding *holding_for(const struct copied *job, const struct wish *w)
{
	list_for(it, &job->holdings) {
		struct holding *h = holding_of(it);
		if (!h->kept && !h->fetched && h->rank == w->rank && h->world == w->world &&
		    digest_equal(h->mem->sum, w->shape->table) && h->mem->table_len == w->shape->table_len &&
		    h->mem->slot_size == w->shape->slot_size && h->mem->layout.nleaves == w->shape->nleaves)
			return h;
	}
	return NULL;
}

static unsigned count_holdings(const struct replica *r)
{
	unsigned n = 0;
	list_for(it, &r->jobs)
		list_for(node, &list_entry(it, struct copied, link)->holdings)
			n++;
	return n;
}

static int check_room(struct replica *r, const struct wish *w, const char *job, struct err *err)
{
	const struct memory_account *in_use = r->config.memory;
	const struct peer_shape *s = w->shape;
	uint64_t memory = memory_hold_cost(s->table_len, s->nleaves, s->slot_size);
	uint64_t need = memory + TABLE_COST * s->table_len, limit = *r->config.memory_limit;
	uint64_t used = memory_in_use(in_use);
	char a[16], b[16], c[16], e[16], f[16], g[16], k[16];
	if (count_holdings(r) >= HOLDINGS_MAX)
		return err_set(err, -EBUSY, "it holds copies for %d ranks already", HOLDINGS_MAX);
	if (memory && used <= limit && need <= limit - used)
		return 0;
	return err_set(
		err, -ENOMEM,
		"to hold rank %u of job '%s' takes %s (%d slots of %s and what belongs to them), %s of arenas, %s of "
		"tables and %s of other copies are in use (%s of it kept of former worlds), the limit of this node is "
		"%s: raise memory-limit of [node], or make fewer copies",
		w->rank, job, bytes_human(a, sizeof(a), need), MEMORY_HELD_SLOTS,
		bytes_human(b, sizeof(b), s->slot_size), bytes_human(c, sizeof(c), in_use->arenas),
		bytes_human(e, sizeof(e), in_use->tables), bytes_human(f, sizeof(f), in_use->copies),
		bytes_human(k, sizeof(k), replica_kept(r)), bytes_human(g, sizeof(g), limit));
}

/* What is older than a snapshot that every rank has copies of, and nothing else: it may be all that is left of its step. */
static bool is_outlived(const struct holding *h, struct step_id keep)
{
	bool outlived = h->kept && keep.epoch && !holding_in_use(h);
	for (uint32_t i = 0; outlived && i < h->mem->nslots; i++)
		outlived = !h->mem->slots[i].used || step_compare(h->mem->slots[i].id, keep) < 0;
	return outlived;
}

static bool let_go_kept(struct copied *job, struct step_id keep)
{
	bool any = false;
	list_for_safe(it, &job->holdings) {
		struct holding *h = holding_of(it);
		if (!is_outlived(h, keep))
			continue;
		holding_free(h);
		any = true;
	}
	return any;
}

static int make_holding(struct copied *job, const struct wish *w, struct holding **out, struct err *err)
{
	const struct peer_shape *s = w->shape;
	int rc = check_room(job->replica, w, job->name, err);
	if (rc == -ENOMEM && let_go_kept(job, w->keep))
		rc = check_room(job->replica, w, job->name, err);
	struct holding *h = rc ? NULL : calloc(1, sizeof(*h));
	if (rc || !h)
		return rc ? rc : err_set(err, -ENOMEM, "no memory to hold a copy");
	rc = memory_hold(s->table, s->table_len, s->nleaves, s->slot_size, &h->mem, err);
	if (rc) {
		free(h);
		return rc;
	}
	h->job = job;
	h->rank = w->rank;
	h->world = w->world;
	h->fetched = w->fetched;
	job->replica->config.memory->copies += charge_of(h->mem);
	list_push(&job->holdings, &h->link);
	*out = h;
	return 0;
}

/* A slot that has nothing, else the older one, if it is not the newest that every rank has. */
static int choose_slot(const struct holding *h, const struct wish *w, struct err *err)
{
	int best = -EAGAIN;
	for (int i = 0; i < MEMORY_HELD_SLOTS; i++) {
		const struct slot_view *slot = &h->mem->slots[i];
		if (slot->copies || (slot->used && (w->fetched || !step_compare(slot->id, w->keep))))
			continue;
		if (slot->used && step_compare(slot->id, w->id) > 0)
			return err_set(err, -ESTALE, "step %lu of rank %u is held already",
				       (unsigned long)slot->id.step, h->rank);
		if (best < 0 || !slot->used ||
		    (h->mem->slots[best].used && step_compare(slot->id, h->mem->slots[best].id) < 0))
			best = i;
	}
	return best >= 0 ? best : err_set(err, best, "both copies of rank %u are in use", h->rank);
}

/* Copies of the same rank in another shape that nobody will ask for. */
static void drop_outdated(struct copied *job, const struct wish *w, const struct holding *now)
{
	list_for_safe(it, &job->holdings) {
		struct holding *h = holding_of(it);
		bool needed = h == now || h->kept || h->rank != w->rank || holding_in_use(h);
		for (uint32_t i = 0; i < h->mem->nslots; i++)
			needed |= h->mem->slots[i].used &&
				  (!w->keep.epoch || step_compare(h->mem->slots[i].id, w->keep) >= 0);
		if (!needed)
			holding_free(h);
	}
}

static bool has_room(const struct holding *h, const struct wish *w)
{
	struct err err;
	return !h->arrival && choose_slot(h, w, &err) >= 0;
}

/* The arrival in its slot, or why there is no room for it. */
int make_arrival(struct copied *job, const struct wish *w, struct arrival **out, struct err *err)
{
	struct holding *h = holding_for(job, w);
	if (h && w->fetched && !has_room(h, w))
		h = NULL;
	if (step_compare(w->id, job->forgotten) < 0)
		return err_set(err, -ESTALE, "nobody asks for step %lu any more", (unsigned long)w->id.step);
	drop_outdated(job, w, h);
	int rc = h ? 0 : make_holding(job, w, &h, err);
	int slot = rc ? rc : choose_slot(h, w, err);
	if (slot < 0)
		return slot;
	struct arrival *a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, -ENOMEM, "no memory for an arrival");
	*a = (struct arrival){.holding = h, .slot = (uint32_t)slot, .id = w->id, .epoch = job->epoch};
	a->deadline = UINT64_MAX;
	h->mem->slots[slot] = (struct slot_view){0};
	h->arrival = a;
	*out = a;
	return 0;
}

struct holding *hold_find(const struct copied *job, const struct replica_part *part, uint32_t *slot)
{
	list_for(it, &job->holdings) {
		struct holding *h = holding_of(it);
		for (uint32_t i = 0; i < h->mem->nslots; i++) {
			const struct slot_view *view = &h->mem->slots[i];
			if (h->rank != part->rank || !view->used || step_compare(view->id, part->id) ||
			    (part->world && h->world != part->world) ||
			    (part->table && !digest_equal(*part->table, h->mem->sum)))
				continue;
			*slot = i;
			return h;
		}
	}
	return NULL;
}

void replica_inventory(const struct replica *r, const char *name,
		       void (*fn)(void *arg, const struct replica_item *item), void *arg)
{
	struct copied *job = copied_find(r, name);
	if (!job)
		return;
	list_for(it, &job->holdings) {
		const struct holding *h = holding_of(it);
		for (uint32_t i = 0; i < h->mem->nslots; i++) {
			struct replica_item item = {.rank = h->rank,
						    .world = h->world,
						    .owner = h->owners[i],
						    .id = h->mem->slots[i].id,
						    .table = h->mem->sum};
			if (h->mem->slots[i].used)
				fn(arg, &item);
		}
	}
}

int replica_pin(struct replica *r, const char *name, const struct replica_part *part, struct memory **mem,
		uint32_t *slot)
{
	struct copied *job = copied_find(r, name);
	struct holding *h = job ? hold_find(job, part, slot) : NULL;
	if (!h)
		return -ENOENT;
	h->mem->slots[*slot].copies++;
	*mem = memory_get(h->mem);
	return 0;
}

void replica_unpin(struct replica *r, struct memory *mem, uint32_t slot)
{
	(void)r;
	mem->slots[slot].copies--;
	memory_put(mem);
}

void replica_drop(struct memory *mem, uint32_t slot)
{
	mem->slots[slot].used = false;
}

/* ---- of a former world ----------------------------------------------------------------------------------------- */

int replica_keep(struct replica *r, const char *name, struct memory *mem, const struct step_id *ids)
{
	struct copied *job = copied_get(r, name);
	struct holding *h = job ? calloc(1, sizeof(*h)) : NULL;
	if (!h)
		return -ENOMEM;
	*h = (struct holding){.job = job,
			      .rank = mem->table->reg.rank,
			      .world = mem->table->reg.world,
			      .mem = memory_get(mem),
			      .kept = true,
			      .present = true};
	for (uint32_t i = 0; i < mem->nslots; i++) {
		struct slot_view *slot = &mem->slots[i];
		slot->used = slot->left = ids[i].epoch;
		slot->id = ids[i];
		h->owners[i] = r->config.self;
	}
	r->config.memory->copies += charge_of(mem);
	list_push(&job->holdings, &h->link);
	return 0;
}

uint64_t replica_kept(const struct replica *r)
{
	uint64_t bytes = 0;
	list_for(it, &r->jobs)
		list_for(node, &list_entry(it, struct copied, link)->holdings)
			bytes += holding_of(node)->kept ? charge_of(holding_of(node)->mem) : 0;
	return bytes;
}
