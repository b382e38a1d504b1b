/* A rank of a fleet: what libckpt, a device and a training loop with collectives do, in small steps. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "cluster/net.h"
#include "fleet.h"
#include "format/tensor/digest.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIDS = 10000000 /* that no process has */ };

uint32_t fleet_content(uint32_t tensor, uint64_t element, struct step_id id)
{
	return (uint32_t)mix64(element ^ (uint64_t)tensor << 16 ^ id.step << 20 ^ (uint64_t)id.epoch << 44);
}

/* By FLEET_WEIGHTS and so on. */
static const struct {
	const char *name, *replica;
	uint64_t elements;
} tensors[FLEET_TENSORS] = {
	{"weights", "dp", 48}, {"moments", "", 200}, {"ends", "ends", 20},
	{"third0", "dp", 10},  {"third1", "dp", 10}, {"third2", "dp", 10},
};

uint32_t fleet_tensor(const char *name)
{
	uint32_t t = 0;
	while (t + 1 < FLEET_TENSORS && strcmp(tensors[t].name, name) != 0)
		t++;
	return t;
}

/* In a world of one it has all there is. */
static bool has_tensor(const struct fleet_rank *r, uint32_t t)
{
	bool is_end = r->id == 0 || r->id + 1 == r->world;
	if (t == FLEET_ENDS)
		return is_end;
	return t < FLEET_THIRDS || r->world == 1 || r->id % 3 != t - FLEET_THIRDS;
}

static int encode_table(const struct fleet_rank *r, struct wbuf *out)
{
	struct entry entries[FLEET_TENSORS];
	struct region regions[FLEET_TENSORS];
	struct registration reg = {.rank = r->id, .world = r->world, .entries = entries};
	for (uint32_t t = 0; t < FLEET_TENSORS; t++) {
		uint64_t n = tensors[t].elements, from = n * r->id / r->world, to = n * (r->id + 1) / r->world;
		struct entry *e = &entries[reg.nentries];
		if (!has_tensor(r, t))
			continue;
		*e = (struct entry){.name = (char *)tensors[t].name, .kind = ENTRY_TENSOR, .dtype = DTYPE_U32};
		e->shape = (struct shape){.ndim = 1, .dim = {n}};
		regions[t] = t == FLEET_MOMENTS ? region_flat(from, to - from) : region_whole(&e->shape);
		memcpy(e->group, "params", sizeof("params"));
		memcpy(e->replica, tensors[t].replica, strlen(tensors[t].replica) + 1);
		e->npieces = 1;
		e->pieces = &regions[t];
		reg.nentries++;
	}
	wbuf_u32(out, 0); /* the daemon's own deadline */
	return registration_encode(&reg, out);
}

/* ---- its arena ------------------------------------------------------------------------------------------------------- */

void fleet_drop_arena(struct fleet_rank *r)
{
	memory_put(r->mem);
	r->mem = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->slot = -1;
	r->held = r->old = false;
	r->entered = 0;
}

/* Another process may have had it before. */
static uint64_t seen_first(uint64_t inode)
{
	const unsigned size = sizeof(fleet.arenas) / sizeof(fleet.arenas[0]);
	for (unsigned i = 0; i < size; i++)
		if (fleet.arenas[i].inode == inode)
			return fleet.arenas[i].born_ns;
	fleet.arenas[fleet.narenas % size].inode = inode;
	fleet.arenas[fleet.narenas++ % size].born_ns = clock_now();
	return clock_now();
}

/* The rank's own mapping of the arena that the daemon has for it now. */
static void take_arena(struct fleet_rank *r)
{
	struct err err = {{0}};
	struct stat now, was = {0};
	SIM_CHECK(!fstat(r->rank->mem->fd, &now) && (r->fd < 0 || !fstat(r->fd, &was)), "fstat");
	bool same = r->fd >= 0 && was.st_ino == now.st_ino;
	int slot = same ? r->slot : -1; /* its device goes on */
	uint32_t entered = same ? r->entered : 0;
	fleet_drop_arena(r);
	r->entered = entered;
	r->fd = dup(r->rank->mem->fd);
	int rc = memory_adopt(dup(r->fd), FLEET_JOB, &r->mem, &err);
	SIM_CHECK(!rc, "a rank cannot map its arena: %s", err.text);
	r->wake = atomic_load(&r->mem->head->wake) - 1;
	r->slot = slot;
	r->held = fleet.nodes[r->home].launcher;
	if (!same)
		r->born_ns = seen_first(now.st_ino);
}

int fleet_slot(const struct memory *mem, struct step_id id)
{
	for (uint32_t i = 0; mem && i < mem->nslots; i++) {
		const struct arena_slot *s = &mem->head->slots[i];
		if (atomic_load(&s->state) == SLOT_CAPTURING && s->step == id.step && s->epoch == id.epoch)
			return (int)i;
	}
	return -1;
}

/* ---- joining --------------------------------------------------------------------------------------------------------- */

void fleet_born(struct fleet_rank *r, uint32_t id, uint32_t world, uint32_t local_world)
{
	uint32_t life = ++fleet.lives;
	SIM_CHECK(!fleet.over, "rank %u of %u begins on node %u, and all have finished", id, world, r->home);
	*r = (struct fleet_rank){.id = id,
				 .world = world,
				 .local_world = local_world,
				 .home = r->home,
				 .pid = fleet.elastic ? PIDS + (int)life : getpid(),
				 .used = true,
				 .held = r->held,
				 .entered = r->entered,
				 .client = r->client,
				 .fd = r->fd,
				 .mem = r->mem,
				 .wake = r->wake,
				 .born_ns = r->born_ns,
				 .seq = r->seq,
				 .slot = -1,
				 .next_step = 1,
				 .alive = true,
				 .life = life,
				 .begun_ns = clock_now()};
	fleet_trace("rank %u of %u begins on node %u", r->id, r->world, r->home);
}

static void enlist(struct fleet_rank *r)
{
	AUTO_WBUF struct wbuf table = {0};
	SIM_CHECK(!encode_table(r, &table), "memory");
	r->registering = true;
	job_register(r->rank, ++r->seq, table.data, table.len);
}

void fleet_connect(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct err err = {{0}};
	struct job *job;
	if (!r->alive)
		fleet_born(r, r->id, fleet.world, n->nranks);
	struct wire_hello hello = {.protocol_min = 1,
				   .protocol_max = 1,
				   .role = ROLE_RANK,
				   .rank = r->id,
				   .world = r->world,
				   .local_world = fleet.elastic ? r->local_world : n->nranks,
				   .spread = fleet.elastic,
				   .slots = fleet.slots,
				   .epoch = r->epoch,
				   .job = FLEET_JOB};
	if (!r->client)
		r->client = client_new();
	client_clear(r->client);
	r->registering = r->joining = r->restoring = false;
	if (job_hello(&n->daemon.jobs, r->client, &hello, r->pid, &job, &r->rank, &err)) {
		fleet_trace("rank %u is refused: %s", r->id, err.text);
		r->rank = NULL; /* tries again */
		return;
	}
	if (r->fd >= 0)
		job_return(job, r->id, dup(r->fd), &err);
	enlist(r);
}

static bool answered(struct fleet_rank *r, uint16_t type, int *rc, const void **body, uint64_t *len)
{
	uint32_t seq;
	*rc = 0;
	if (!r->client)
		return false;
	if (client_take(r->client, type, &seq, body, len) && seq == r->seq)
		return true;
	if (type == WIRE_MOVED)
		return false; /* what else it may be is asked next */
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
		const struct entry *e = &mem->table->reg.entries[piece->entry];
		uint32_t tensor = fleet_tensor(e->name);
		uint64_t start = 0, count = 0;
		SIM_CHECK(region_contiguous(&e->shape, &piece->region, &start, &count),
			  "the pieces here are contiguous");
		if (count)
			id = fleet_origin(id, tensor, start, data[0])->id;
		for (uint64_t i = 0; i < count; i++)
			SIM_CHECK(data[i] == fleet_content(tensor, start + i, id),
				  "restored step %lu epoch %u: rank %u %s element %lu is wrong", (unsigned long)id.step,
				  id.epoch, r->id, e->name, (unsigned long)(start + i));
		SIM_CHECK(leaves[piece->first_leaf] == digest_leaf((const uint8_t *)data, piece->bytes),
			  "the digest of the restored slot");
	}
}

/* The world has changed, and this is another rank: it comes again as that, with another table. */
static bool listen_moved(struct fleet_rank *r)
{
	struct wire_moved m;
	const void *body;
	uint64_t len;
	int rc;
	if (!answered(r, WIRE_MOVED, &rc, &body, &len))
		return false;
	SIM_CHECK(!wire_moved_decode(body, len, &m, NULL), "MOVED cannot be decoded");
	fleet_trace("rank %u of %u is rank %u of %u", r->id, r->world, m.rank, m.world);
	fleet_drop_arena(r);
	r->id = m.rank;
	r->world = m.world;
	r->local_world = m.local_world;
	r->joining = r->joined = r->restored = false;
	enlist(r);
	return true;
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
	atomic_store(&r->mem->head->entry.loaded_ns, 0);
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
	r->entered = m.epoch;
	wire_joined_free(&m);
}

static void listen(struct fleet_rank *r)
{
	const void *body;
	uint64_t len;
	int rc;
	if ((r->registering || r->joining) && listen_moved(r))
		return;
	if (r->registering && answered(r, WIRE_ARENA, &rc, &body, &len)) {
		r->registering = false;
		if (!rc && !r->rank->mem)
			ask_join(r); /* it was that of a world that is over */
		else if (!rc)
			take_arena(r);
		else
			fleet_kill_rank(r); /* as a process does that cannot go on */
	}
	if (r->joining)
		listen_join(r);
	if (r->restoring)
		listen_restore(r);
}

/* ---- the next small step ---------------------------------------------------------------------------------------------- */

static void hear_of_session(struct fleet_rank *r)
{
	struct rank *rank;
	if (!r->client || !client_moved(r->client, &rank))
		return;
	if (!rank)
		fleet_trace("rank %u: the daemon has ended its session", r->id);
	r->rank = rank;
}

/* Told to end, it takes a moment. */
static bool ends(struct fleet_rank *r)
{
	struct job *job = fleet_job(&fleet.nodes[r->home]);
	if (!r->doomed || !(fleet.quiescing || rng_chance(world_rng(), 5)))
		return false;
	if (job && r->rank) {
		job_disconnected(job, r->rank); /* the launcher knew of another plan than the daemon */
		fleet.deaths++;
	}
	fleet_forget_rank(r);
	return true;
}

void fleet_step(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct job *job;
	hear_of_session(r);
	if (ends(r))
		return;
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
			fleet_capture(r);
	} else if (r->joined && r->restored) {
		fleet_ask(r);
		if (fleet_train(r) && r->rank)
			ask_join(r);
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
	if (job && rng_chance(world_rng(), 30)) { /* a doorbell */
		saves_follow(&job->saves);
		interval_look(job);
	}
}

/* ---- dying ----------------------------------------------------------------------------------------------------------- */

void fleet_kill_rank(struct fleet_rank *r)
{
	struct fleet_node *n = &fleet.nodes[r->home];
	struct job *job = fleet_job(n);
	if (!r->alive)
		return;
	hear_of_session(r);
	struct rank *rank = r->rank;
	fleet_trace("rank %u dies", r->id);
	r->alive = r->joined = r->restored = false;
	r->registering = r->joining = r->restoring = r->pauses = false;
	r->slot = -1;
	r->rank = NULL;
	fleet_sum.kills++;
	fleet.deaths++;
	if (job && rank)
		job_disconnected(job, rank);
	if (fleet.elastic)
		launcher_ended(r, rng_chance(world_rng(), 20));
	else if (job && rank)
		job_exited(job, r->id, r->pid, 9);
}

void fleet_forget_rank(struct fleet_rank *r)
{
	fleet_drop_arena(r);
	client_free(r->client);
	*r = (struct fleet_rank){.id = r->id,
				 .world = r->world,
				 .home = r->home,
				 .used = !fleet.elastic,
				 .fd = -1,
				 .slot = -1,
				 .seq = r->seq,
				 .next_step = 1};
}
