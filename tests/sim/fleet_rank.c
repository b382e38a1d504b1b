/* A rank of a fleet: what libckpt, a device and a training loop with collectives do, in small steps. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet.h"
#include "format/digest.h"
#include "intact.h"
#include "net.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WEIGHTS = 48, MOMENTS = 200, ENDS = 20 };

uint32_t fleet_content(uint32_t entry, uint64_t element, struct step_id id)
{
	return (uint32_t)mix64(element ^ (uint64_t)entry << 16 ^ id.step << 20 ^ (uint64_t)id.epoch << 44);
}

static int encode_table(const struct fleet_rank *r, struct wbuf *out)
{
	struct shape replicated = {.ndim = 1, .dim = {WEIGHTS}}, sharded = {.ndim = 1, .dim = {MOMENTS}};
	struct shape of_some = {.ndim = 1, .dim = {ENDS}};
	struct region whole = region_whole(&replicated), ends = region_whole(&of_some);
	bool is_end = r->id == 0 || r->id + 1 == fleet.world;
	uint64_t from = (uint64_t)MOMENTS * r->id / fleet.world, to = (uint64_t)MOMENTS * (r->id + 1) / fleet.world;
	struct region mine = region_flat(from, to - from);
	struct entry entries[] = {
		[FLEET_WEIGHTS] = {.name = (char *)"weights",
				   .kind = ENTRY_TENSOR,
				   .dtype = DTYPE_U32,
				   .shape = replicated,
				   .group = "params",
				   .replica = "dp",
				   .npieces = 1,
				   .pieces = &whole},
		[FLEET_MOMENTS] = {.name = (char *)"moments",
				   .kind = ENTRY_TENSOR,
				   .dtype = DTYPE_U32,
				   .shape = sharded,
				   .group = "params",
				   .npieces = 1,
				   .pieces = &mine},
		[FLEET_ENDS] = {.name = (char *)"ends",
				.kind = ENTRY_TENSOR,
				.dtype = DTYPE_U32,
				.shape = of_some,
				.group = "params",
				.replica = "ends",
				.npieces = 1,
				.pieces = &ends},
	};
	struct registration reg = {.rank = r->id, .world = fleet.world, .nentries = is_end ? 3 : 2, .entries = entries};
	wbuf_u32(out, 0); /* the daemon's own deadline */
	return registration_encode(&reg, out);
}

/* ---- its arena ------------------------------------------------------------------------------------------------------- */

static void drop_arena(struct fleet_rank *r)
{
	memory_put(r->mem);
	r->mem = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->slot = -1;
}

/* The rank's own mapping of the arena that the daemon has for it now. */
static void take_arena(struct fleet_rank *r)
{
	struct err err = {{0}};
	struct stat now, was = {0};
	SIM_CHECK(!fstat(r->rank->mem->fd, &now) && (r->fd < 0 || !fstat(r->fd, &was)), "fstat");
	bool same = r->fd >= 0 && was.st_ino == now.st_ino;
	int slot = same ? r->slot : -1; /* its device goes on */
	drop_arena(r);
	r->fd = dup(r->rank->mem->fd);
	int rc = memory_adopt(dup(r->fd), FLEET_JOB, &r->mem, &err);
	SIM_CHECK(!rc, "a rank cannot map its arena: %s", err.text);
	r->wake = atomic_load(&r->mem->head->wake) - 1;
	r->slot = slot;
	if (!same)
		r->born_ns = clock_now();
}

int fleet_slot(const struct fleet_rank *r, struct step_id id)
{
	for (uint32_t i = 0; r->mem && i < r->mem->nslots; i++) {
		const struct arena_slot *s = &r->mem->head->slots[i];
		if (atomic_load(&s->state) == SLOT_CAPTURING && s->step == id.step && s->epoch == id.epoch)
			return (int)i;
	}
	return -1;
}

/* ---- joining --------------------------------------------------------------------------------------------------------- */

void fleet_connect(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct err err = {{0}};
	struct job *job;
	if (!r->alive) {
		*r = (struct fleet_rank){.id = r->id,
					 .home = r->home,
					 .client = r->client,
					 .fd = r->fd,
					 .mem = r->mem,
					 .wake = r->wake,
					 .born_ns = r->born_ns,
					 .seq = r->seq,
					 .slot = -1,
					 .next_step = 1,
					 .alive = true,
					 .life = ++fleet.lives};
		fleet_trace("rank %u begins on node %u", r->id, r->home);
	}
	struct wire_hello hello = {.protocol_min = 1,
				   .protocol_max = 1,
				   .role = ROLE_RANK,
				   .rank = r->id,
				   .world = fleet.world,
				   .local_world = n->nranks,
				   .slots = fleet.slots,
				   .epoch = r->epoch,
				   .job = FLEET_JOB};
	if (!r->client)
		r->client = client_new();
	client_clear(r->client);
	r->registering = r->joining = r->restoring = false;
	if (job_hello(&n->daemon, r->client, &hello, getpid(), &job, &r->rank, &err)) {
		fleet_trace("rank %u is refused: %s", r->id, err.text);
		r->rank = NULL; /* tries again */
		return;
	}
	if (r->fd >= 0)
		job_return(job, r->id, dup(r->fd), &err);
	AUTO_WBUF struct wbuf table = {0};
	SIM_CHECK(!encode_table(r, &table), "memory");
	r->registering = true;
	job_register(r->rank, ++r->seq, table.data, table.len);
}

static bool answered(struct fleet_rank *r, uint16_t type, int *rc, const void **body, uint64_t *len)
{
	uint32_t seq;
	*rc = 0;
	if (!r->client)
		return false;
	if (client_take(r->client, type, &seq, body, len) && seq == r->seq)
		return true;
	if (!client_take(r->client, WIRE_ERROR, &seq, body, len) || seq != r->seq)
		return false;
	struct wire_error e;
	SIM_CHECK(!wire_error_decode(*body, *len, &e, NULL), "ERROR cannot be decoded");
	fleet_trace("rank %u is told: %d, %s", r->id, e.rc, e.text);
	*rc = e.rc;
	return true;
}

static void ask_join(struct fleet_rank *r)
{
	struct wire_join join = {.epoch = r->epoch, .address_len = FLEET_ADDRESS};
	memcpy(join.address, &r->id, 4);
	memcpy(join.address + 4, &r->life, 4);
	fleet_trace("rank %u asks to join, after epoch %u", r->id, r->epoch);
	r->joining = true;
	r->joined = r->restored = false;
	job_join(r->rank, ++r->seq, &join);
}

static void check_bytes(struct fleet_rank *r, uint32_t slot, struct step_id id)
{
	const struct memory *mem = r->mem;
	const uint64_t *leaves = memory_leaves(mem, slot);
	for (uint32_t p = 0; p < mem->layout.npieces; p++) {
		const struct layout_piece *piece = &mem->layout.pieces[p];
		const uint32_t *data = (const uint32_t *)(memory_slot(mem, slot) + piece->slot_at);
		uint64_t start = 0, count = 0;
		SIM_CHECK(
			region_contiguous(&mem->table->reg.entries[piece->entry].shape, &piece->region, &start, &count),
			"the pieces here are contiguous");
		for (uint64_t i = 0; i < count; i++)
			SIM_CHECK(data[i] == fleet_content(piece->entry, start + i, id),
				  "restored step %lu epoch %u: rank %u entry %u element %lu is wrong",
				  (unsigned long)id.step, id.epoch, r->id, piece->entry, (unsigned long)(start + i));
		SIM_CHECK(leaves[piece->first_leaf] == digest_leaf((const uint8_t *)data, piece->bytes),
			  "the digest of the restored slot");
	}
}

static void take_restored(struct fleet_rank *r, const struct wire_restored *m)
{
	struct step_id id = {.step = m->step, .epoch = m->epoch};
	for (uint32_t i = 0; i < m->nlocal; i++)
		if (m->ranks[i] == r->id)
			check_bytes(r, m->slots[i], id);
	fleet_trace("rank %u restores step %lu epoch %u from %u; %s", r->id, (unsigned long)id.step, id.epoch,
		    m->source, m->why);
	fleet_sum.from_memory += m->source == WIRE_FROM_MEMORY;
	fleet_sum.from_peer += m->source == WIRE_FROM_PEER;
	fleet_sum.from_storage += m->source == WIRE_FROM_STORAGE;
	fleet_restored(r, &id);
	r->restored = true;
	r->next_step = id.step + 1;
}

static void listen_restore(struct fleet_rank *r)
{
	const void *body;
	uint64_t len;
	int rc;
	if (!answered(r, WIRE_RESTORED, &rc, &body, &len))
		return;
	r->restoring = false;
	if (rc == -ENOENT) {
		fleet_restored(r, NULL);
		r->restored = true;
		r->next_step = fleet.last_step + 1;
	} else if (rc == -ETIMEDOUT || rc == -EINVAL) {
		ask_join(r); /* others may have restored */
	} else if (!rc) {
		struct wire_restored m;
		SIM_CHECK(!wire_restored_decode(body, len, &m, NULL), "RESTORED cannot be decoded");
		take_restored(r, &m);
	}
}

static void listen_join(struct fleet_rank *r)
{
	struct wire_joined m;
	const void *body;
	uint64_t len;
	int rc;
	if (!answered(r, WIRE_JOINED, &rc, &body, &len))
		return;
	r->joining = false;
	if (rc)
		return;
	SIM_CHECK(!wire_joined_decode(body, len, &m, NULL), "JOINED cannot be decoded");
	fleet_trace("rank %u joins epoch %u", r->id, m.epoch);
	fleet_joined(r, &m);
	r->joined = true;
	r->epoch = m.epoch;
	wire_joined_free(&m);
}

static void listen(struct fleet_rank *r)
{
	const void *body;
	uint64_t len;
	int rc;
	if (r->registering && answered(r, WIRE_ARENA, &rc, &body, &len)) {
		r->registering = false;
		if (!rc)
			take_arena(r);
		else
			fleet_kill_rank(r); /* as a process does that cannot go on */
	}
	if (r->joining)
		listen_join(r);
	if (r->restoring)
		listen_restore(r);
}

/* ---- saving ---------------------------------------------------------------------------------------------------------- */

/* No rank takes a step that another one has not come to: they exchange gradients. */
static bool all_take_part(const struct fleet_rank *r)
{
	struct step_id next = {.step = r->next_step, .epoch = r->epoch};
	if (clock_now() < fleet.next_ns && !fleet_save_of(next)->begun)
		return false; /* it computes */
	for (uint32_t i = 0; i < fleet.world; i++) {
		const struct fleet_rank *o = &fleet.ranks[i];
		if (!o->alive || !o->joined || !o->restored || o->epoch != r->epoch || o->next_step < r->next_step)
			return false;
	}
	return true;
}

static void begin(struct fleet_rank *r)
{
	struct arena_head *head = r->mem->head;
	struct fleet_save *save = fleet_save_of((struct step_id){.step = r->next_step, .epoch = r->epoch});
	if (!save->begun) { /* every rank decides alike, as a training loop does */
		save->begun = true;
		fleet.next_ns = clock_now() + fleet.pace_ns;
		save->to_storage = fleet.stored && (fleet.settling || rng_chance(world_rng(), 70));
	}
	for (uint32_t i = 0; i < r->mem->nslots && r->slot < 0; i++) {
		uint32_t expected = SLOT_FREE;
		struct arena_slot *s = &head->slots[i];
		if (atomic_load(&s->state) != SLOT_FREE)
			continue;
		s->step = r->next_step;
		s->epoch = r->epoch;
		s->target = save->to_storage ? SLOT_STORAGE : SLOT_MEMORY;
		atomic_store(&s->fenced, 0);
		atomic_store(&s->done, 0);
		atomic_store(&s->progress, 0);
		if (!atomic_compare_exchange_strong(&s->state, &expected, SLOT_CAPTURING))
			continue;
		fleet_sum.intact += intact_take(r->mem, i);
		r->slot = (int)i;
		r->saves = save->id;
		r->piece = 0;
	}
	fleet_trace("rank %u begins step %lu: slot %d", r->id, (unsigned long)r->next_step, r->slot);
	fleet.last_step = r->next_step > fleet.last_step ? r->next_step : fleet.last_step;
	r->next_step++;
}

/* What is copied after somebody has been told to leave the collectives is garbage. */
static void copy_piece(struct fleet_rank *r, uint32_t p, struct step_id id)
{
	const struct layout_piece *piece = &r->mem->layout.pieces[p];
	uint8_t *base = memory_slot(r->mem, (uint32_t)r->slot) + piece->slot_at;
	uint32_t *data = (uint32_t *)base;
	uint64_t start = 0, count = 0;
	bool garbage = fleet.told > id.epoch;
	region_contiguous(&r->mem->table->reg.entries[piece->entry].shape, &piece->region, &start, &count);
	for (uint64_t i = 0; i < count; i++)
		data[i] = fleet_content(piece->entry, start + i, id) ^ (garbage ? 0xdead : 0);
	digest_leaves(base, piece->bytes, memory_leaves(r->mem, (uint32_t)r->slot) + piece->first_leaf);
	atomic_fetch_add(&r->mem->head->slots[r->slot].progress, piece->bytes);
}

static void fence(struct fleet_rank *r, struct arena_slot *s, struct step_id id)
{
	struct fleet_save *save = fleet_save_of(id);
	save->fenced |= 1u << r->id;
	if (fleet.told > id.epoch)
		save->late |= 1u << r->id;
	fleet_sum.late += fleet.told > id.epoch;
	save->losses = fleet.losses;
	fleet_trace("rank %u has copied step %lu epoch %u%s", r->id, (unsigned long)id.step, id.epoch,
		    fleet.told > id.epoch ? ", too late" : "");
	atomic_store(&s->fenced, 1);
	r->slot = -1;
}

static void capture(struct fleet_rank *r)
{
	struct arena_slot *s = &r->mem->head->slots[r->slot];
	struct step_id id = r->saves;
	if (r->piece < r->mem->layout.npieces)
		copy_piece(r, r->piece++, id);
	else if (!atomic_load(&s->done))
		atomic_store(&s->done, 1);
	else
		fence(r, s, id);
}

/* A device that has begun to copy goes on, also when the rank has been told to leave: only the fence may not come then. */
static void train(struct fleet_rank *r)
{
	bool left = atomic_load(&r->mem->head->epoch) != r->epoch;
	bool copied = r->slot >= 0 && atomic_load(&r->mem->head->slots[r->slot].done);
	if (r->slot >= 0 && (!left || !copied || rng_chance(world_rng(), 50))) {
		capture(r);
		return;
	}
	if (left) {
		r->slot = -1; /* never fenced */
		if (r->rank)
			ask_join(r);
	} else if (all_take_part(r)) {
		begin(r);
	}
}

void fleet_step(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct job *job;
	if (!r->rank && n->up) {
		fleet_connect(r);
		return;
	}
	if (r->client)
		listen(r);
	if (!r->alive || r->registering || r->joining || r->restoring || !r->mem)
		return;
	if (r->slot >= 0 && (!r->joined || !r->restored)) {
		if (atomic_load(&r->mem->head->slots[r->slot].done))
			r->slot = -1;
		else
			capture(r);
	} else if (r->joined && r->restored) {
		train(r);
	} else if (!r->rank) {
		return;
	} else if (!r->joined || atomic_load(&r->mem->head->epoch) != r->epoch) {
		ask_join(r);
	} else {
		struct wire_restore m = {.epoch = r->epoch, .step = UINT64_MAX};
		r->restoring = true;
		job_restore(r->rank, ++r->seq, &m);
	}
	job = fleet_job(n);
	if (job && rng_chance(world_rng(), 30))
		saves_follow(&job->saves); /* a doorbell */
}

/* ---- dying ----------------------------------------------------------------------------------------------------------- */

void fleet_kill_rank(struct fleet_rank *r)
{
	struct job *job = fleet_job(&fleet.nodes[r->home]);
	struct rank *rank = r->rank;
	if (!r->alive)
		return;
	fleet_trace("rank %u dies", r->id);
	r->alive = r->joined = r->restored = false;
	r->registering = r->joining = r->restoring = false;
	r->slot = -1;
	r->rank = NULL;
	fleet_sum.kills++;
	if (!job || !rank)
		return;
	job_disconnected(job, rank);
	job_exited(job, r->id, getpid(), 9);
}

void fleet_forget_rank(struct fleet_rank *r)
{
	drop_arena(r);
	client_free(r->client);
	*r = (struct fleet_rank){.id = r->id, .home = r->home, .fd = -1, .slot = -1, .seq = r->seq, .next_step = 1};
}
