#include "replication/replication_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { SERVINGS_MAX = 1024 };

/* A snapshot that another node reads out of this one's memory: held for somebody, or of a rank here. It stays until RELEASE. */
struct serving {
	struct list link;
	unsigned node;
	uint64_t token;
	struct memory *mem; /* a reference; its slot counts a copy */
	uint32_t slot;
	struct wbuf table; /* of an arena; of held memory it stands at the beginning */
	struct net_region *regions[TRANSFER_PARTS];
	uint64_t deadline;
};

static struct serving *serving_of(struct list *node)
{
	return list_entry(node, struct serving, link);
}

static void serving_free(struct serving *s)
{
	for (int i = 0; i < TRANSFER_PARTS; i++)
		net_withdraw(s->regions[i]);
	s->mem->slots[s->slot].copies--;
	memory_put(s->mem);
	wbuf_free(&s->table);
	list_remove(&s->link);
	free(s);
}

static int find_source(struct copied *job, const struct peer_fetch *m, struct memory **mem, uint32_t *slot)
{
	const struct replica_config *config = &job->replica->config;
	struct replica_part part = {
		.rank = m->rank, .world = m->world, .id = m->id, .table = m->same_table ? &m->table : NULL};
	struct holding *h = hold_find(job, &part, slot);
	*mem = h ? h->mem : NULL;
	if (h)
		return 0;
	int rc = config->find ? config->find(config->arg, job->name, m->rank, m->id, mem, slot) : -ENOENT;
	part.table = NULL;
	part.world = 0;
	if (rc == -ENOENT && hold_find(job, &part, slot))
		return -ESTALE;
	if (!rc && m->world && (*mem)->table->reg.world != m->world)
		return -ESTALE;
	return !rc && m->same_table && !digest_equal(m->table, (*mem)->sum) ? -ESTALE : rc;
}

static int open_regions(struct replica *r, struct serving *s, struct err *err)
{
	struct memory *mem = s->mem;
	int rc = mem->head ? memory_table(mem, &s->table) : 0;
	if (rc)
		return err_set(err, rc, "no memory for the table");
	const struct {
		void *base;
		uint64_t size;
	} parts[TRANSFER_PARTS] = {{mem->head ? s->table.data : mem->base, mem->table_len},
				   {memory_leaves(mem, s->slot), mem->layout.nleaves * sizeof(uint64_t)},
				   {memory_slot(mem, s->slot), mem->slot_size}};
	for (int i = 0; !rc && i < TRANSFER_PARTS; i++)
		rc = net_expose(r->config.net, s->node, parts[i].base, max_u64(parts[i].size, 1), NET_READABLE,
				&s->regions[i], err);
	return rc;
}

static int begin(struct copied *job, unsigned node, const struct peer_fetch *m, struct serving **out, struct err *err)
{
	struct memory *mem;
	uint32_t slot, n = 0;
	list_for(it, &job->servings)
		n++;
	if (n >= SERVINGS_MAX)
		return err_set(err, -EAGAIN, "%u copies are being read here", n);
	int rc = find_source(job, m, &mem, &slot);
	if (rc)
		return err_set(err, rc, rc == -ESTALE ? "it has another shape here" : "it is not in memory here");
	struct serving *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "no memory to serve a copy");
	*s = (struct serving){.node = node, .token = m->head.token, .mem = memory_get(mem), .slot = slot};
	mem->slots[slot].copies++;
	/* Its reader gives up earlier when nothing moves, and says so; this is for one that is gone in silence. */
	s->deadline = replica_until(job->replica, 64 * mem->slot_size);
	list_push(&job->servings, &s->link);
	rc = open_regions(job->replica, s, err);
	if (rc) {
		serving_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void serve_fetch(struct copied *job, unsigned node, const struct peer_fetch *m)
{
	AUTO_WBUF struct wbuf body = {0};
	struct err err = {{0}};
	struct serving *s = NULL;
	int rc = begin(job, node, m, &s, &err);
	if (rc) {
		replica_refuse(job, node, m->head.token, rc, err.text);
		return;
	}
	const struct memory *mem = s->mem;
	struct peer_source reply = {.head = {.epoch = job->epoch, .token = s->token},
				    .world = mem->table->reg.world,
				    .began = memory_began(mem, s->slot),
				    .lacks = memory_lacks(mem, s->slot),
				    .shape = {.table = mem->sum,
					      .table_len = mem->table_len,
					      .nleaves = mem->layout.nleaves,
					      .slot_size = mem->slot_size},
				    .tickets = {.table = from_region(s->regions[0]),
						.leaves = from_region(s->regions[1]),
						.slot = from_region(s->regions[2])}};
	memcpy(reply.head.job, job->name, sizeof(reply.head.job));
	job->replica->counts.served++;
	if (!peer_source_encode(&reply, &body))
		replica_post(job->replica, node, PEER_SOURCE, &body);
}

bool serve_release(struct copied *job, unsigned node, const struct peer_head *m)
{
	list_for(it, &job->servings) {
		struct serving *s = serving_of(it);
		if (s->node == node && s->token == m->token) {
			serving_free(s);
			return true;
		}
	}
	return false;
}

void serve_down(struct copied *job, unsigned node)
{
	list_for_safe(it, &job->servings)
		if (serving_of(it)->node == node)
			serving_free(serving_of(it));
}

void serve_tick(struct copied *job)
{
	list_for_safe(it, &job->servings) {
		struct serving *s = serving_of(it);
		if (s->deadline >= clock_now())
			continue;
		log_warn("job %s: node %s has not finished reading a copy", job->name,
			 replica_node(job->replica, s->node));
		serving_free(s);
	}
}

void serve_end(struct copied *job)
{
	list_for_safe(it, &job->servings)
		serving_free(serving_of(it));
}
