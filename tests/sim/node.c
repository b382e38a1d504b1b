#include "node.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "config/file.h"
#include "control/host/coordinator_host.h"
#include "control/host/outbox.h"
#include "job/rank/prefault.h"
#include "rng.h"
#include "runtime/loop.h"
#include "runtime/workers.h"
#include "startup.h"
#include "store/check/verify.h"
#include "store/read/chunk.h"
#include "upkeep/gc.h"
#include "upkeep/scrub.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void node_init(struct node *node, uint32_t world)
{
	memset(node, 0, sizeof(*node));
	node->world = world;
	node->slots = ARENA_SLOTS_MIN;
	for (uint32_t r = 0; r < world; r++)
		node->ranks[r] = (struct sim_rank){.id = r, .fd = -1, .slot = -1, .next_step = 1};
}

static void configure(struct node *node)
{
	static const char always[] = "[node]\nname = sim\nstore = " SIM_STORE "\n"
				     /* A schedule must not depend on the machine's pool. */
				     "huge-pages = never\n[job sim]\nsave-timeout = 2s\n";
	struct daemon *d = &node->daemon;
	struct err err = {{0}};
	const char *more = node->policies ? node->policies : "";
	int rc = sources_new(&d->runtime.sources, &err);
	if (!rc)
		rc = file_parse(d->runtime.sources, "sim", always, strlen(always), &err);
	if (!rc)
		rc = file_parse(d->runtime.sources, "policies", more, strlen(more), &err);
	SIM_CHECK(!rc, "the configuration: %s", err.text);
	d->runtime.first_sources = d->runtime.sources;
	sources_fill(d->runtime.sources, SCOPE_NODE, NULL, &d->runtime.config);
	throttle_init(&d->storage.writes, &d->runtime.config.write_bandwidth);
	meter_init(&d->storage.reads, d->runtime.config.read_bandwidth);
}

void node_start(struct node *node)
{
	struct err err = {{0}};
	struct disk_faults none = {0};
	daemon_init(&node->daemon);
	node->daemon.runtime.started_ns = clock_now();
	list_init(&node->daemon.jobs.list);
	list_init(&node->daemon.control.hosts);
	outbox_init(&node->daemon.control.outbox);
	configure(node);
	disk_sim_faults(&none); /* a daemon that cannot start is restarted: not what is looked at here */
	int rc = loop_new(&node->daemon.runtime.loop, &err);
	if (!rc)
		rc = pool_new(1, &node->daemon.runtime.pool, &err);
	node->daemon.runtime.reader = node->daemon.runtime.pool;
	packing_init(&node->daemon.storage.packing, node->daemon.runtime.pool);
	if (!rc)
		rc = startup_store(&node->daemon, &err);
	SIM_CHECK(!rc, "the daemon cannot start: %s", err.text);
	node->up = true;
	node->job = NULL;
	for (uint32_t r = 0; r < node->world; r++)
		if (node->ranks[r].alive)
			rank_connect(node, &node->ranks[r]);
}

/* The order of a crash: the disk first, so that nothing of the tear-down reaches it. */
static void tear_down(struct node *node)
{
	struct daemon *d = &node->daemon;
	d->runtime.stopping = true;
	pool_free(d->runtime.pool);
	prefaults_free(&d->jobs);
	gc_free(d->storage.gc);
	scrub_free(d->storage.scrub);
	list_for_safe(it, &d->jobs.list)
		job_free(list_entry(it, struct job, link));
	hosts_free(&d->control);
	packing_free(&d->storage.packing);
	disk_free(d->storage.disk);
	loop_free(d->runtime.loop);
	sources_free(d->runtime.sources);
	node->up = false;
	node->job = NULL;
	for (uint32_t r = 0; r < node->world; r++)
		node->ranks[r].rank = NULL;
}

void node_kill_daemon(struct node *node)
{
	disk_sim_kill();
	tear_down(node);
	node->restarts++;
}

static void forget_rank(struct sim_rank *r)
{
	memory_put(r->mem);
	if (r->fd >= 0)
		close(r->fd);
	client_free(r->client);
	*r = (struct sim_rank){.id = r->id, .fd = -1, .slot = -1, .seq = r->seq, .next_step = r->next_step};
}

void node_power_cut(struct node *node)
{
	disk_sim_power_cut();
	if (node->up)
		tear_down(node);
	for (uint32_t r = 0; r < node->world; r++)
		forget_rank(&node->ranks[r]);
	node->power_cuts++;
}

void node_end(struct node *node)
{
	disk_sim_kill();
	if (node->up)
		tear_down(node);
	for (uint32_t r = 0; r < node->world; r++)
		forget_rank(&node->ranks[r]);
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

static void turn(struct node *node)
{
	if (!node->up)
		return;
	uint64_t what = rng_below(world_rng(), 10);
	if (what < 4)
		disk_poll(node->daemon.storage.disk, 0);
	else if (what < 6)
		pool_poll(node->daemon.runtime.pool);
	else if (what < 7) {
		gc_poll(node->daemon.storage.gc);
		gc_tick(node->daemon.storage.gc);
	} else {
		hosts_tick(&node->daemon.control, clock_now());
		prefaults_tick(&node->daemon.jobs);
		if (node->job && !job_tick(node->job))
			node->job = NULL;
	}
	outbox_deliver(&node->daemon.control);
	clock_advance(rng_below(world_rng(), 3 * CLOCK_NS_PER_MS));
}

static void some_rank(struct node *node)
{
	struct sim_rank *r = &node->ranks[rng_below(world_rng(), node->world)];
	if (r->alive)
		rank_step(node, r);
	else if (node->up)
		rank_connect(node, r);
}

void node_event(struct node *node)
{
	uint64_t what = rng_below(world_rng(), 1000);
	if (what < 2)
		rank_die(node, &node->ranks[rng_below(world_rng(), node->world)]);
	else if (what < 500)
		some_rank(node);
	else
		turn(node);
	if (node->job && rng_chance(world_rng(), 20))
		saves_follow(&node->job->saves); /* a doorbell */
	node_check_levels(node);
}

void node_settle(struct node *node)
{
	for (int i = 0; i < 20000 && node->job; i++) {
		turn(node);
		for (uint32_t r = 0; r < node->world; r++)
			if (node->ranks[r].alive && node->ranks[r].slot >= 0)
				rank_step(node, &node->ranks[r]);
		if (i > 200 && node->job && job_idle(node->job) && !saves_busy(&node->job->saves))
			break;
	}
	node_check_levels(node);
}

/* ---- invariants ------------------------------------------------------------------------------------------------ */

struct ack *node_ack(struct node *node, struct step_id id)
{
	for (unsigned i = node->nacks; i-- > 0;)
		if (!step_compare(node->acks[i].id, id))
			return &node->acks[i];
	if (node->nacks == SIM_ACKS_MAX)
		return NULL;
	node->acks[node->nacks] = (struct ack){.id = id};
	return &node->acks[node->nacks++];
}

static void check_status(struct node *node, const struct arena_status *s)
{
	struct step_id id = {.step = s->step, .epoch = s->epoch};
	int level = s->level;
	struct ack *ack = id.epoch && level > LEVEL_PENDING ? node_ack(node, id) : NULL;
	if (!ack || level <= ack->level)
		return;
	/* A restart of the daemon starts from pending again: only what is shown counts, and that only rises. */
	if (ack->level < LEVEL_CAPTURED)
		SIM_CHECK(ack->fenced == (1u << node->world) - 1,
			  "step %lu epoch %u promoted without the fence of every rank (%x)", (unsigned long)id.step,
			  id.epoch, ack->fenced);
	node->captured += ack->level < LEVEL_CAPTURED;
	node->durable += ack->level < LEVEL_DURABLE && level >= LEVEL_DURABLE;
	ack->level = level;
}

void node_check_levels(struct node *node)
{
	for (uint32_t r = 0; r < node->world; r++)
		for (int i = 0; node->ranks[r].mem && i < ARENA_STATUS; i++)
			check_status(node, &node->ranks[r].mem->head->status[i]);
}

static void show_finding(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	(void)arg;
	printf("%s %s %lu-%lu: %s\n", file, tensor, (unsigned long)from, (unsigned long)to, text);
}

/* What it holds is what the safetensors file would. */
static void *read_data(struct checkpoint *ck, const struct manifest_file *file)
{
	struct packed_index index;
	struct chunk_unpacker *unpacker = NULL;
	struct err err = {{0}};
	AUTO_FREE void *text = NULL;
	size_t len;
	int rc = disk_read_file(ck->repo->disk, ck->dir, file->name, 1 << 20, &text, &len, &err);
	SIM_CHECK(!rc, "%s", err.text);
	if (!file->packed.index_size)
		return steal_ptr(&text);
	rc = checkpoint_load_index(ck, file, &index, &err);
	SIM_CHECK(!rc, "%s", err.text);
	uint8_t *whole = calloc(1, file->size);
	SIM_CHECK(whole && !chunk_unpacker_new(&unpacker), "memory");
	for (uint32_t i = 0; i < index.nchunks; i++) {
		const struct packed_chunk *c = &index.chunks[i];
		const uint8_t *plain;
		rc = chunk_unpack(unpacker, c, (uint8_t *)text + c->at, &plain, &err);
		SIM_CHECK(!rc, "%s: chunk %u: %s", file->name, i, err.text);
		memcpy(whole + file->data_at + c->data_at, plain, c->plain);
	}
	chunk_unpacker_free(unpacker);
	packed_index_free(&index);
	return whole;
}

static void check_content(struct node *node, struct checkpoint *ck)
{
	const struct node_manifest *m = &ck->nodes[0];
	for (uint32_t f = 0; f < m->nfiles; f++) {
		const struct manifest_file *file = &m->files[f];
		AUTO_FREE void *text = read_data(ck, file);
		node->packed += file->packed.index_size != 0;
		for (uint32_t p = 0; p < file->npieces; p++) {
			const struct manifest_piece *piece = &file->pieces[p];
			const char *name = m->tensors[piece->tensor].name;
			uint32_t entry = !strcmp(name, "moments")     ? ENTRY_MOMENTS
					 : !strcmp(name, "embedding") ? ENTRY_FROZEN
								      : 0;
			const uint32_t *data = (const uint32_t *)((uint8_t *)text + file->data_at + piece->at);
			uint64_t start = 0, count = 0;
			region_contiguous(&m->tensors[piece->tensor].shape, &piece->region, &start, &count);
			for (uint64_t i = 0; i < count; i++)
				SIM_CHECK(data[i] == content(entry, start + i, ck->ref.id), "%s holds another step",
					  file->name);
		}
	}
}

static void check_checkpoint(struct node *node, struct repo *repo, struct step_id id)
{
	struct err err = {{0}};
	struct checkpoint ck;
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .threads = 1, .finding = show_finding};
	int rc = verify_checkpoint(repo, SIM_JOB, id, &options, &result, &err);
	SIM_CHECK(!rc, "step %lu epoch %u is committed but damaged: %s", (unsigned long)id.step, id.epoch, err.text);
	rc = checkpoint_open(repo, SIM_JOB, id, &ck, &err);
	SIM_CHECK(!rc, "%s", err.text);
	check_content(node, &ck);
	checkpoint_close(&ck);
}

static bool is_there(const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED && !step_compare(refs[i].id, id))
			return true;
	return false;
}

static unsigned newer(const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	unsigned count = 0;
	for (size_t i = 0; i < n; i++)
		count += refs[i].state == CHECKPOINT_COMMITTED && step_compare(refs[i].id, id) > 0;
	return count;
}

/* What was read back says so itself: its daemon may have died before it told anybody. */
static bool newer_is_verified(struct repo *repo, const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	for (size_t i = n; i-- > 0 && step_compare(refs[i].id, id) > 0;) {
		struct checkpoint ck;
		struct health health = {.damaged = true};
		if (checkpoint_open_root(repo, SIM_JOB, refs[i].id, &ck, NULL) < 0)
			continue;
		int rc = checkpoint_health(&ck, &health, NULL);
		checkpoint_close(&ck);
		if (!rc && !health.damaged)
			return true;
	}
	return false;
}

static void check_ack(struct node *node, const struct ack *ack, struct repo *repo, const struct checkpoint_ref *refs,
		      size_t n)
{
	if (ack->level < LEVEL_DURABLE || is_there(refs, n, ack->id))
		return;
	SIM_CHECK(node->keep_last && newer(refs, n, ack->id) >= node->keep_last,
		  "step %lu epoch %u was acknowledged as durable and is lost", (unsigned long)ack->id.step,
		  ack->id.epoch);
	SIM_CHECK(ack->level < LEVEL_VERIFIED || newer_is_verified(repo, refs, n, ack->id),
		  "step %lu epoch %u was the newest verified one and is lost", (unsigned long)ack->id.step,
		  ack->id.epoch);
	node->removed++;
}

void node_check_store(struct node *node)
{
	struct err err = {{0}};
	struct repo repo;
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	world_enter_threads();
	int rc = repo_open(SIM_STORE, &repo, &err);
	if (!rc)
		rc = repo_scan(&repo, SIM_JOB, &refs, &n, &err);
	SIM_CHECK(!rc || rc == -ENOENT, "the store cannot be read: %s", err.text);
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED)
			check_checkpoint(node, &repo, refs[i].id);
	for (unsigned a = 0; a < node->nacks; a++)
		check_ack(node, &node->acks[a], &repo, refs, n);
	if (rc != -ENOENT)
		repo_close(&repo);
	world_leave_threads();
}
