/* A rank of the simulator: what libckpt and a device do to an arena, in small steps. */
#include "base/cleanup.h"
#include "format/tensor/digest.h"
#include "intact.h"
#include "node.h"
#include "rng.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REPLICATED = 6000, SHARDED = 5003, FROZEN = 3000, FROZEN_STEPS = 16 };

/* What is frozen changes now and then, and in no step of its own. Half of each element is worth packing. */
uint32_t content(uint32_t entry, uint64_t element, struct step_id id)
{
	if (entry == ENTRY_FROZEN)
		return (uint16_t)mix64(element ^ id.step / FROZEN_STEPS << 20);
	return (uint16_t)mix64(element ^ (uint64_t)entry << 40 ^ id.step << 20 ^ (uint64_t)id.epoch << 56);
}

static int encode_table(const struct sim_rank *r, uint32_t world, struct wbuf *out)
{
	struct shape replicated = {.ndim = 2, .dim = {60, REPLICATED / 60}};
	struct shape sharded = {.ndim = 1, .dim = {SHARDED}};
	struct region whole = region_whole(&replicated);
	uint64_t from = (uint64_t)SHARDED * r->id / world, to = (uint64_t)SHARDED * (r->id + 1) / world;
	struct region mine = region_flat(from, to - from);
	struct shape frozen = {.ndim = 1, .dim = {FROZEN}};
	struct region all = region_whole(&frozen);
	struct entry entries[3] = {
		{.name = (char *)"weights",
		 .kind = ENTRY_TENSOR,
		 .dtype = DTYPE_U32,
		 .shape = replicated,
		 .group = "params",
		 .replica = "dp",
		 .npieces = 1,
		 .pieces = &whole},
		{.name = (char *)"moments",
		 .kind = ENTRY_TENSOR,
		 .dtype = DTYPE_U32,
		 .shape = sharded,
		 .group = "optimizer",
		 .npieces = 1,
		 .pieces = &mine},
		{.name = (char *)"embedding",
		 .kind = ENTRY_TENSOR,
		 .dtype = DTYPE_U32,
		 .shape = frozen,
		 .group = "frozen",
		 .replica = "dp",
		 .npieces = 1,
		 .pieces = &all},
	};
	struct registration reg = {.rank = r->id, .world = world, .nentries = 3, .entries = entries};
	wbuf_u32(out, 0); /* the daemon's own deadline */
	return registration_encode(&reg, out);
}

/* ---- joining --------------------------------------------------------------------------------------------------- */

static void drop_arena(struct sim_rank *r)
{
	memory_put(r->mem);
	r->mem = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->slot = -1;
}

/* The rank's own mapping of the arena that the daemon has for it now. */
static void take_arena(struct sim_rank *r)
{
	struct err err = {{0}};
	drop_arena(r);
	r->fd = dup(r->rank->mem->fd);
	int rc = memory_adopt(dup(r->fd), SIM_JOB, &r->mem, &err);
	SIM_CHECK(!rc, "a rank cannot map its arena: %s", err.text);
}

void rank_connect(struct node *node, struct sim_rank *r)
{
	struct err err = {{0}};
	struct wire_hello hello = {.protocol_min = 1,
				   .protocol_max = 1,
				   .role = ROLE_RANK,
				   .rank = r->id,
				   .world = node->world,
				   .local_world = node->world,
				   .slots = node->slots,
				   .epoch = r->joined ? r->epoch : 0,
				   .job = SIM_JOB};
	if (!r->client)
		r->client = client_new();
	client_clear(r->client);
	r->alive = true;
	r->registering = r->joining = r->restoring = false;
	int rc = job_hello(&node->daemon.jobs, r->client, &hello, getpid(), &node->job, &r->rank, &err);
	if (rc == -EIO) { /* the store cannot be read just now: the process ends and is started again */
		r->alive = false;
		return;
	}
	SIM_CHECK(!rc, "HELLO of rank %u: %s", r->id, err.text);
	if (r->fd >= 0)
		job_return(node->job, r->id, dup(r->fd), &err);
	AUTO_WBUF struct wbuf table = {0};
	SIM_CHECK(!encode_table(r, node->world, &table), "memory");
	r->registering = true;
	job_register(r->rank, ++r->seq, table.data, table.len);
}

static bool answered(struct sim_rank *r, uint16_t type, int *rc, const void **body, uint64_t *len)
{
	uint32_t seq;
	*rc = 0;
	if (client_take(r->client, type, &seq, body, len) && seq == r->seq)
		return true;
	if (!client_take(r->client, WIRE_ERROR, &seq, body, len) || seq != r->seq)
		return false;
	struct wire_error e;
	SIM_CHECK(!wire_error_decode(*body, *len, &e, NULL), "ERROR cannot be decoded");
	*rc = e.rc;
	return true;
}

static void ask_join(struct sim_rank *r)
{
	struct wire_join join = {.epoch = r->epoch, .address_len = 4, .address = "addr"};
	r->joining = true;
	r->joined = r->restored = false;
	r->slot = -1;
	job_join(r->rank, ++r->seq, &join);
}

static void check_restored(struct node *node, struct sim_rank *r, const struct wire_restored *m)
{
	const struct memory *mem = r->mem;
	struct step_id id = {.step = m->step, .epoch = m->epoch};
	const uint64_t *leaves = memory_leaves(mem, m->slots[r->id]);
	for (uint32_t p = 0; p < mem->layout.npieces; p++) {
		const struct layout_piece *piece = &mem->layout.pieces[p];
		const uint32_t *data = (const uint32_t *)(memory_slot(mem, m->slots[r->id]) + piece->slot_at);
		const struct shape *shape = &mem->table->reg.entries[piece->entry].shape;
		uint64_t start = 0, count = 0;
		SIM_CHECK(region_contiguous(shape, &piece->region, &start, &count), "the pieces here are contiguous");
		for (uint64_t i = 0; i < count; i++)
			SIM_CHECK(data[i] == content(piece->entry, start + i, id),
				  "restored step %lu epoch %u: rank %u entry %u element %lu is wrong",
				  (unsigned long)id.step, id.epoch, r->id, piece->entry, (unsigned long)(start + i));
		for (uint64_t l = 0; l < leaf_count(piece->bytes); l++)
			SIM_CHECK(leaves[piece->first_leaf + l] ==
					  digest_leaf((const uint8_t *)data + l * LEAF_SIZE,
						      min_u64(LEAF_SIZE, piece->bytes - l * LEAF_SIZE)),
				  "leaf %lu of the restored slot", (unsigned long)l);
	}
	node->restores++;
}

static void listen_restore(struct node *node, struct sim_rank *r)
{
	const void *body;
	uint64_t len;
	int rc;
	if (!answered(r, WIRE_RESTORED, &rc, &body, &len))
		return;
	r->restoring = false;
	if (rc == -ESTALE || rc == -ETIMEDOUT)
		return; /* asks again, in the epoch that is then */
	if (rc) {
		/* Nothing there, or nothing readable with the faults of this run: a fresh start. What was acknowledged is checked
		 * against the store at the end, without faults. */
		r->restored = true;
		r->next_step = node->last_step + 1;
		return;
	}
	struct wire_restored m;
	SIM_CHECK(!wire_restored_decode(body, len, &m, NULL), "RESTORED cannot be decoded");
	check_restored(node, r, &m);
	r->restored = true;
	r->next_step = m.step + 1;
}

void rank_listen(struct node *node, struct sim_rank *r)
{
	const void *body;
	uint64_t len;
	int rc;
	if (r->registering && answered(r, WIRE_ARENA, &rc, &body, &len)) {
		SIM_CHECK(rc == 0 || rc == -ETIMEDOUT, "REGISTER was refused: %d", rc);
		r->registering = rc != 0;
		if (!rc)
			take_arena(r);
	}
	if (r->joining && answered(r, WIRE_JOINED, &rc, &body, &len)) {
		struct wire_joined m;
		r->joining = false;
		if (rc)
			return;
		SIM_CHECK(!wire_joined_decode(body, len, &m, NULL), "JOINED cannot be decoded");
		r->joined = true;
		r->epoch = m.epoch;
		wire_joined_free(&m);
	}
	if (r->restoring)
		listen_restore(node, r);
}

/* ---- saving ---------------------------------------------------------------------------------------------------- */

bool rank_begin(struct node *node, struct sim_rank *r, uint32_t target)
{
	struct arena_head *head = r->mem->head;
	r->slot = -1;
	for (uint32_t i = 0; i < r->mem->nslots; i++) {
		uint32_t expected = SLOT_FREE;
		struct arena_slot *s = &head->slots[i];
		if (atomic_load(&s->state) != SLOT_FREE)
			continue;
		s->step = r->next_step;
		s->epoch = r->epoch;
		s->target = target;
		atomic_store(&s->fenced, 0); /* a late fence of a snapshot that was given up may have left its mark */
		atomic_store(&s->done, 0);
		atomic_store(&s->progress, 0);
		if (!atomic_compare_exchange_strong(&s->state, &expected, SLOT_CAPTURING))
			continue;
		(void)intact_take(r->mem, i);
		r->slot = (int)i;
		r->piece = 0;
		r->fence_forgotten = false;
		break;
	}
	if (r->slot < 0)
		arena_leave_out(head, (struct step_id){.step = r->next_step, .epoch = r->epoch});
	if (r->next_step > node->last_step)
		node->last_step = r->next_step;
	r->next_step++;
	return r->slot >= 0;
}

static void copy_piece(struct sim_rank *r, uint32_t p, struct step_id id)
{
	const struct layout_piece *piece = &r->mem->layout.pieces[p];
	uint8_t *base = memory_slot(r->mem, (uint32_t)r->slot) + piece->slot_at;
	uint32_t *data = (uint32_t *)base;
	uint64_t start = 0, count = 0;
	region_contiguous(&r->mem->table->reg.entries[piece->entry].shape, &piece->region, &start, &count);
	for (uint64_t i = 0; i < count; i++)
		data[i] = content(piece->entry, start + i, id);
	digest_leaves(base, piece->bytes, memory_leaves(r->mem, (uint32_t)r->slot) + piece->first_leaf);
	atomic_fetch_add(&r->mem->head->slots[r->slot].progress, piece->bytes);
}

static void capture(struct node *node, struct sim_rank *r)
{
	struct arena_slot *s = &r->mem->head->slots[r->slot];
	struct step_id id = {.step = s->step, .epoch = s->epoch};
	if (r->piece < r->mem->layout.npieces) {
		copy_piece(r, r->piece++, id);
		return;
	}
	if (!atomic_load(&s->done)) {
		atomic_store(&s->done, 1);
		return;
	}
	if (r->fence_forgotten) {
		atomic_store(&s->fenced, 2);
	} else {
		struct ack *ack = node_ack(node, id);
		if (ack)
			ack->fenced |= 1u << r->id;
		atomic_store(&s->fenced, 1);
	}
	r->slot = -1;
}

void rank_step(struct node *node, struct sim_rank *r)
{
	rank_listen(node, r);
	if (r->registering || r->joining || r->restoring || !r->mem)
		return;
	if (atomic_load(&r->mem->head->epoch) != r->epoch || !r->joined) {
		if (node->up)
			ask_join(r);
		return;
	}
	if (!r->restored) {
		struct wire_restore m = {.epoch = r->epoch, .step = UINT64_MAX};
		if (!node->up)
			return;
		r->restoring = true;
		job_restore(r->rank, ++r->seq, &m);
	} else if (r->slot >= 0) {
		capture(node, r);
	} else {
		/* Every rank decides alike, as a training loop does. */
		bool begun = rank_begin(node, r, mix64(r->next_step) % 3 ? SLOT_STORAGE : SLOT_MEMORY);
		r->fence_forgotten = begun && rng_chance(world_rng(), 2);
	}
}

void rank_die(struct node *node, struct sim_rank *r)
{
	if (!r->alive)
		return;
	r->alive = r->joined = r->restored = false;
	r->registering = r->joining = r->restoring = false;
	r->slot = -1;
	node->lost_ranks++;
	if (!node->up || !r->rank)
		return;
	job_disconnected(node->job, r->rank);
	job_exited(node->job, r->id, getpid(), 9);
}
