#include "replication/replication_private.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <string.h>

void target_set_state(struct target *w, enum target_state state)
{
	struct replica *r = w->s->job->replica;
	bool was = w->state != TARGET_WAITING && w->state != TARGET_HELD,
	     is = state != TARGET_WAITING && state != TARGET_HELD;
	r->active += (unsigned)is - (unsigned)was;
	w->state = state;
}

void target_free(struct target *w)
{
	target_set_state(w, TARGET_HELD);
	list_remove(&w->link);
	free(w);
}

void target_remember(struct shipment *s, unsigned node, int rc, const char *text)
{
	if (s->ntried < TRIES_MAX)
		s->tried[s->ntried++] = node;
	if (!s->rc)
		s->rc = err_set(&s->err, rc, "node %s: %s", replica_node(s->job->replica, node), text);
	log_info("job %s: step %lu of rank %u is not held by node %s: %s", s->job->name, (unsigned long)s->what.id.step,
		 s->what.rank, replica_node(s->job->replica, node), text);
}

/* What is in flight still reads the slot. */
void target_fail(struct target *w, int rc, const char *text)
{
	struct shipment *s = w->s;
	enum target_state was = w->state;
	if (was == TARGET_STOPPING)
		return;
	target_remember(s, w->node, rc, text);
	s->job->replica->counts.send_failed++;
	target_set_state(w, TARGET_STOPPING);
	if (was == TARGET_COPYING && !transfer_stop(&w->transfer, rc))
		return;
	if (was != TARGET_WAITING && net_is_up(s->job->replica->config.net, w->node))
		replica_post_head(s->job, w->node, PEER_RELEASE, w->token);
	target_free(w);
}

static void seal(struct target *w)
{
	struct replica *r = w->s->job->replica;
	target_set_state(w, TARGET_SEALED);
	w->deadline = replica_until(r, w->s->what.mem->slot_size);
	replica_post_head(w->s->job, w->node, PEER_SEAL, w->token);
}

static void copied(struct transfer *transfer)
{
	struct target *w = list_entry(transfer, struct target, transfer);
	struct replica *r = w->s->job->replica;
	r->counts.sent_bytes += transfer->moved;
	if (w->state == TARGET_STOPPING) {
		if (net_is_up(r->config.net, w->node))
			replica_post_head(w->s->job, w->node, PEER_RELEASE, w->token);
		target_free(w);
	} else if (transfer->rc) {
		target_fail(w, transfer->rc, err_name(transfer->rc));
	} else {
		seal(w);
	}
}

void target_offer(struct target *w)
{
	AUTO_WBUF struct wbuf body = {0};
	struct shipment *s = w->s;
	const struct memory *mem = s->what.mem;
	struct replica *r = s->job->replica;
	w->token = ++r->tokens;
	struct peer_offer m = {.head = {.epoch = s->job->epoch, .token = w->token},
			       .rank = s->what.rank,
			       .world = mem->table->reg.world,
			       .id = s->what.id,
			       .keep = s->what.keep,
			       .began = memory_began(mem, s->what.slot),
			       .lacks = memory_lacks(mem, s->what.slot),
			       .shape = {.table = mem->sum,
					 .table_len = mem->table_len,
					 .nleaves = mem->layout.nleaves,
					 .slot_size = mem->slot_size}};
	memcpy(m.head.job, s->job->name, sizeof(m.head.job));
	target_set_state(w, TARGET_OFFERED);
	/* The holder may have to touch memory for two slots first. */
	w->deadline = replica_until(r, MEMORY_HELD_SLOTS * mem->slot_size);
	if (peer_offer_encode(&m, &body))
		target_fail(w, -ENOMEM, "no memory for an offer");
	else
		replica_post(r, w->node, PEER_OFFER, &body);
	s->job->reached[w->node] = true;
}

static struct target *find_target(struct copied *job, unsigned node, uint64_t token)
{
	list_for(it, &job->shipments)
		list_for(at, &shipment_of(it)->ways) {
			struct target *w = target_of(at);
			if (w->node == node && w->token == token && w->state != TARGET_WAITING)
				return w;
		}
	return NULL;
}

/* A holder that opens something else than what was offered does not speak our language. */
static bool fits(const struct shipment *s, const struct peer_tickets *t)
{
	const struct memory *mem = s->what.mem;
	return (!t->table.size || t->table.size == mem->table_len) &&
	       t->leaves.size == max_u64(mem->layout.nleaves * sizeof(uint64_t), 1) &&
	       t->slot.size == max_u64(mem->slot_size, 1);
}

void send_ticket(struct copied *job, unsigned node, const struct peer_open *m)
{
	struct target *w = find_target(job, node, m->head.token);
	struct replica *r = job->replica;
	if (!w || w->state != TARGET_OFFERED)
		return;
	struct shipment *s = w->s;
	struct memory *mem = s->what.mem;
	if (!fits(s, &m->tickets)) {
		target_fail(w, -EPROTO, "it opened memory of another size");
		return;
	}
	if (m->tickets.table.size && !s->table.len && memory_table(mem, &s->table)) {
		target_fail(w, -ENOMEM, "no memory for the table");
		return;
	}
	const struct peer_tickets *t = &m->tickets;
	w->transfer = (struct transfer){
		.net = r->config.net,
		.node = node,
		.kind = NET_WRITE,
		.parts = {{s->table.data, t->table.size, to_net(&t->table)},
			  {s->leaves, mem->layout.nleaves * sizeof(uint64_t), to_net(&t->leaves)},
			  {memory_slot(mem, s->what.slot), mem->slot_size, to_net(&t->slot)}},
		.patience_ns = r->config.patience_ns,
		.throttle = &r->throttle,
		.bucket = &r->bucket,
		.done = copied,
	};
	target_set_state(w, TARGET_COPYING);
	if (!transfer_start(&w->transfer))
		seal(w);
}

void send_held(struct copied *job, unsigned node, const struct peer_head *m)
{
	struct target *w = find_target(job, node, m->token);
	if (!w || (w->state != TARGET_SEALED && w->state != TARGET_OFFERED))
		return;
	target_set_state(w, TARGET_HELD);
	job->replica->counts.sent++;
}

bool send_refused(struct copied *job, unsigned node, const struct peer_refused *m)
{
	struct target *w = find_target(job, node, m->head.token);
	if (w && w->state != TARGET_HELD)
		target_fail(w, m->rc, m->text);
	return w != NULL;
}
