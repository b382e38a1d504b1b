#include "arena/memory_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quoted.h"
#include "format/files/safetensors.h"
#include "store/disk/disk.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The layout is of the size of the registration. */
enum { TABLE_MAX = 2 * REGISTRATION_BYTES_MAX };

/* The table as it stands in the arena: u32 length of the registration, registration, layout. */
static int put_table(const struct table *table, const struct layout *layout, struct wbuf *out)
{
	wbuf_u32(out, table->bytes);
	int rc = registration_encode(&table->reg, out);
	return rc ? rc : layout_encode(layout, out);
}

int memory_table(const struct memory *mem, struct wbuf *out)
{
	int rc = put_table(mem->table, &mem->layout, out);
	return rc ? rc : wbuf_finish(out);
}

static int make_plan(const struct table *table, const struct layout *layout, uint32_t nslots, uint64_t *table_len,
		     struct arena_plan *plan)
{
	struct wbuf out = wbuf_counting();
	int rc = put_table(table, layout, &out);
	*table_len = out.len;
	return rc ? rc : arena_plan(out.len, layout->nleaves + layout->nwitnesses, layout->slot_size, nslots, plan);
}

uint64_t memory_cost(const struct table *table, const struct layout *layout, uint32_t nslots)
{
	struct arena_plan plan;
	uint64_t table_len;
	return make_plan(table, layout, nslots, &table_len, &plan) ? 0 : plan.size;
}

/* The tables are small next to the state: building the header blocks now keeps them off the save path. */
static int build_heads(struct memory *mem, struct err *err)
{
	return head_blocks_make(&mem->table->reg, &mem->layout, &mem->heads, err);
}

int memory_make_heads(struct memory *mem, struct err *err)
{
	return mem->heads ? 0 : build_heads(mem, err);
}

/* What else is derived from the table. */
static int derive(struct memory *mem, struct err *err)
{
	if (mem->table->reg.world > 1 && witnesses_make(&mem->table->reg, &mem->layout, &mem->witnesses))
		return err_set(err, -ENOMEM, "no memory to compare replicas");
	return build_heads(mem, err);
}

struct memory *memory_alloc(void)
{
	struct memory *mem = calloc(1, sizeof(*mem));
	if (mem) {
		mem->refs = 1;
		mem->fd = mem->fd_read = -1;
		mem->token = -1;
	}
	return mem;
}

static void memory_free(struct memory *mem)
{
	if (mem->disk && mem->token >= 0)
		disk_unregister(mem->disk, mem->token);
	head_blocks_free(mem->heads, mem->layout.nfiles);
	witnesses_free(&mem->witnesses);
	pages_free(mem);
	free(mem->bring.left);
	layout_free(&mem->layout);
	table_put(mem->table);
	free(mem);
}

struct memory *memory_get(struct memory *mem)
{
	mem->refs++;
	return mem;
}

void memory_put(struct memory *mem)
{
	if (mem && --mem->refs == 0)
		memory_free(mem);
}

/* ---- create -------------------------------------------------------------------------------------------------- */

/* Straight into the arena: it may be large. */
static int write_table(struct memory *mem, const struct arena_plan *plan, uint64_t len)
{
	struct wbuf out = wbuf_over(mem->base + plan->table_at, len);
	return put_table(mem->table, &mem->layout, &out);
}

static void write_head(struct memory *mem, const char *job, const struct arena_plan *plan, uint64_t table_len)
{
	struct arena_head *head = mem->head;
	head->version = ARENA_VERSION;
	head->nslots = mem->nslots;
	head->size = mem->size;
	head->table_at = plan->table_at;
	head->table_len = table_len;
	head->leaves_at = plan->leaves_at;
	head->slots_at = plan->slots_at;
	head->slot_size = mem->layout.slot_size;
	head->nleaves = mem->layout.nleaves;
	head->nwitnesses = mem->layout.nwitnesses;
	head->table_low = mem->sum.low;
	head->table_high = mem->sum.high;
	snprintf(head->job, sizeof(head->job), "%s", job);
	head->rank = mem->table->reg.rank;
	head->world = mem->table->reg.world;
	head->schedules_kept = 1;
	head->magic = ARENA_MAGIC;
}

int memory_renew(struct memory *mem, const char *job)
{
	struct arena_plan plan;
	uint64_t table_len;
	int rc = make_plan(mem->table, &mem->layout, mem->nslots, &table_len, &plan);
	if (!rc)
		rc = write_table(mem, &plan, table_len);
	if (!rc)
		write_head(mem, job, &plan, table_len);
	return rc;
}

static void take_view(struct memory *mem, const struct arena_plan *plan)
{
	mem->leaves_at = plan->leaves_at;
	mem->slots_at = plan->slots_at;
	mem->slot_size = mem->layout.slot_size;
	mem->slot_leaves = mem->layout.nleaves + mem->layout.nwitnesses;
}

static int create(struct memory *mem, const char *job, enum huge_pages policy, struct err *err)
{
	struct arena_plan plan;
	uint64_t table_len;
	int rc = make_plan(mem->table, &mem->layout, mem->nslots, &table_len, &plan);
	if (rc)
		return err_set(err, rc, "cannot plan the arena of rank %u: %s", mem->table->reg.rank, err_name(rc));
	mem->size = plan.size;
	rc = pages_make(mem, job, plan.leaves_at, policy, err);
	if (rc)
		return rc;
	take_view(mem, &plan);
	rc = write_table(mem, &plan, table_len);
	if (rc)
		return err_set(err, rc, "cannot write the table of rank %u: %s", mem->table->reg.rank, err_name(rc));
	mem->sum = digest_bytes(mem->base + plan.table_at, table_len); /* nobody else has the arena yet */
	mem->table_len = table_len;
	rc = derive(mem, err);
	if (!rc)
		write_head(mem, job, &plan, table_len);
	return rc;
}

int memory_create(const char *job, struct table *table, struct layout *layout, uint32_t nslots, enum huge_pages policy,
		  struct memory **out, struct err *err)
{
	struct memory *mem = memory_alloc();
	if (!mem) {
		layout_free(layout);
		return err_set(err, -ENOMEM, "no memory for an arena");
	}
	mem->nslots = nslots;
	mem->table = table_get(table);
	mem->layout = *layout;
	*layout = (struct layout){0};
	int rc = create(mem, job, policy, err);
	if (rc) {
		memory_free(mem);
		return rc;
	}
	*out = mem;
	return 0;
}

/* ---- adopt --------------------------------------------------------------------------------------------------- */

int memory_decode_table(struct memory *mem, const uint8_t *table, size_t len, struct err *err)
{
	if (!digest_equal(digest_bytes(table, len), mem->sum))
		return err_set(err, -EBADMSG, "the table does not match its digest");
	struct rbuf in = rbuf_of(table, len);
	uint32_t reg_len = rbuf_u32(&in);
	const void *reg = rbuf_take(&in, reg_len);
	if (!reg)
		return err_set(err, -EBADMSG, "the table is cut");
	int rc = table_decode(reg, reg_len, &mem->table, err);
	if (!rc)
		rc = layout_decode(&in, &mem->table->reg, &mem->layout, err);
	return rc;
}

static int adopt(struct memory *mem, const char *job, struct err *err)
{
	struct arena_plan plan;
	int rc = pages_adopt(mem, err);
	if (rc)
		return rc;
	AUTO_FREE struct arena_head *copy = aligned_alloc(64, align_up(sizeof(*copy), 64));
	if (!copy)
		return err_set(err, -ENOMEM, "no memory to check an arena");
	memcpy(copy, mem->base, sizeof(*copy));
	rc = arena_check(copy, mem->size, err);
	if (rc)
		return rc;
	if (strncmp(copy->job, job, sizeof(copy->job)) != 0)
		return err_set(err, -EBADMSG, "the arena belongs to job %s, not to %s",
			       quoted_part(copy->job, sizeof(copy->job)).text, quoted(job).text);
	if (copy->table_len > TABLE_MAX)
		return err_set(err, -EBADMSG, "the arena's table of %lu bytes is larger than any can be",
			       (unsigned long)copy->table_len);
	mem->sum = (struct digest){.low = copy->table_low, .high = copy->table_high};
	AUTO_FREE uint8_t *table = malloc(copy->table_len ? copy->table_len : 1);
	if (!table)
		return err_set(err, -ENOMEM, "no memory to check an arena");
	memcpy(table, mem->base + copy->table_at, copy->table_len);
	rc = memory_decode_table(mem, table, copy->table_len, err);
	if (rc)
		return rc;
	rc = arena_plan(copy->table_len, mem->layout.nleaves + mem->layout.nwitnesses, mem->layout.slot_size,
			copy->nslots, &plan);
	if (rc || plan.size != mem->size || copy->slot_size != mem->layout.slot_size ||
	    copy->nleaves != mem->layout.nleaves || copy->nwitnesses != mem->layout.nwitnesses ||
	    mem->table->reg.rank != copy->rank || mem->table->reg.world != copy->world)
		return err_set(err, -EBADMSG, "the arena's head contradicts its table");
	mem->nslots = copy->nslots;
	mem->table_len = copy->table_len;
	take_view(mem, &plan);
	return derive(mem, err);
}

static bool in_a_slot(const struct memory *mem, struct step_id id)
{
	for (uint32_t i = 0; i < mem->nslots; i++) {
		const struct arena_slot *slot = &mem->head->slots[i];
		if (atomic_load(&slot->state) == SLOT_CAPTURING && slot->epoch == id.epoch && slot->step == id.step)
			return true;
	}
	return false;
}

/* Returns what makes the entry readable again: the number above that of the change. */
static uint32_t change_begin(struct memory *mem, struct arena_status *s)
{
	uint32_t seq = (arena_status_newest(mem->head) + 1) | 1;
	atomic_store(&s->seq, seq);
	return seq + 1;
}

/* True: the entry tells of a snapshot that is over, and of its level and error what is still true. */
static bool to_be_closed(const struct memory *mem, const struct arena_status *s, struct level *of)
{
	bool torn = atomic_load(&s->seq) &
		    1; /* the last daemon died in the middle of it: the level may be another snapshot's */
	*of = (struct level){.id = {.step = atomic_load(&s->step), .epoch = atomic_load(&s->epoch)},
			     .level = torn ? LEVEL_PENDING : atomic_load(&s->level),
			     .error = torn ? 0 : atomic_load(&s->error)};
	return torn || (of->id.epoch && !in_a_slot(mem, of->id));
}

void memory_close_levels(struct memory *mem, bool (*stands)(void *arg, struct step_id id), void *arg)
{
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		struct arena_status *s = &mem->head->status[i];
		struct level is;
		if (!to_be_closed(mem, s, &is))
			continue;
		if (is.level < LEVEL_DURABLE && !is.error && stands && stands(arg, is.id))
			is.level = LEVEL_DURABLE;
		uint32_t seq = change_begin(mem, s);
		atomic_store(&s->level, is.level);
		atomic_store(&s->error, is.error);
		atomic_store(&s->late_phase, LATE_GONE);
		atomic_store(&s->seq, seq);
	}
	memory_wake(mem);
}

int memory_adopt(int fd, const char *job, struct memory **out, struct err *err)
{
	struct memory *mem = memory_alloc();
	if (!mem) {
		close(fd);
		return err_set(err, -ENOMEM, "no memory for an arena");
	}
	mem->fd = fd;
	int rc = adopt(mem, job, err);
	if (rc) {
		memory_free(mem);
		return rc;
	}
	mem->adopted = mem->held = true;
	mem->bring.open = true; /* as the last daemon may have left it */
	memory_bring_end(mem);
	atomic_fetch_add(&mem->head->generation, 1);
	*out = mem;
	return 0;
}

/* ---- slots --------------------------------------------------------------------------------------------------- */

int memory_claim(struct memory *mem, struct step_id id)
{
	for (uint32_t i = 0; i < mem->nslots; i++) {
		uint32_t expected = SLOT_FREE;
		if (mem->slots[i].used)
			continue;
		if (!atomic_compare_exchange_strong(&mem->head->slots[i].state, &expected, SLOT_CAPTURING))
			continue;
		/* Should the daemon die before the slot is filled: no device writes to it, the next one may take it. */
		atomic_store(&mem->head->slots[i].done, (uint32_t)-ECANCELED);
		atomic_store(&mem->head->slots[i].intact, 0);
		mem->head->slots[i].began = 0;
		mem->head->slots[i].flags = 0;
		mem->slots[i] = (struct slot_view){.used = true, .id = id};
		return (int)i;
	}
	return -EBUSY;
}

void memory_complete(struct memory *mem, uint32_t slot, struct step_id id)
{
	struct arena_slot *s = &mem->head->slots[slot];
	s->step = id.step;
	s->epoch = id.epoch;
	s->target = SLOT_MEMORY;
	atomic_store(&s->progress, mem->layout.data_bytes);
	atomic_store(&s->done, 1);
	atomic_store(&s->fenced, 1);
}

void memory_release(struct memory *mem, uint32_t slot, bool intact)
{
	struct arena_slot *s = &mem->head->slots[slot];
	if (mem->slots[slot].left)
		return;
	mem->slots[slot] = (struct slot_view){0};
	if (mem->bring.slot == slot)
		memory_bring_end(mem);
	/* In this order a daemon that dies in the middle of it leaves a slot that is nobody's save and that nothing writes to. */
	atomic_store(&s->epoch, 0);
	atomic_store(&s->done, (uint32_t)-ECANCELED);
	atomic_store(&s->fenced, 0);
	atomic_store(&s->progress, 0);
	atomic_store(&s->intact, intact);
	atomic_store_explicit(&s->state, SLOT_FREE, memory_order_release);
}

/* ---- what the rank sees -------------------------------------------------------------------------------------- */

void memory_wake(struct memory *mem)
{
	atomic_fetch_add(&mem->head->wake, 1);
	syscall(SYS_futex, &mem->head->wake, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* a is given to another snapshot before b. */
static bool yields(const struct arena_status *a, const struct arena_status *b)
{
	bool stays = arena_status_stays(a->late_phase);
	return stays != arena_status_stays(b->late_phase) ? !stays : arena_status_older(a->seq, b->seq);
}

/* Its entry, else that to be given up. Also after a restart, when entries of the last daemon stand there. */
static struct arena_status *status_of(struct memory *mem, struct step_id id)
{
	struct arena_status *oldest = &mem->head->status[0];
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		struct arena_status *s = &mem->head->status[i];
		if (s->epoch == id.epoch && s->step == id.step)
			return s;
		if (yields(s, oldest))
			oldest = s;
	}
	return oldest;
}

static const struct arena_status *shown_of(const struct memory *mem, struct step_id id)
{
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &mem->head->status[i];
		if (s->epoch == id.epoch && s->step == id.step)
			return s;
	}
	return NULL;
}

uint32_t memory_shown(const struct memory *mem, struct step_id id)
{
	const struct arena_status *s = shown_of(mem, id);
	return s ? s->level : LEVEL_PENDING;
}

struct step_id memory_deviated(const struct memory *mem, struct step_id id)
{
	struct step_id first = {0};
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		const struct arena_status *s = &mem->head->status[i];
		if (s->epoch == id.epoch && s->step < (first.epoch ? first.step : id.step) && s->error == -EUCLEAN)
			first = (struct step_id){s->step, s->epoch};
	}
	return first;
}

void memory_publish(struct memory *mem, const struct level *level)
{
	/* What a restore has brought is in memory again, as only captured: whoever waits for that save to be on storage would wait for ever. */
	const struct arena_status *shown = shown_of(mem, level->id);
	uint32_t was = shown ? shown->level : LEVEL_PENDING;
	if (was >= LEVEL_DURABLE && (uint32_t)level->level < was)
		return;
	/* One that a policy has passed over may still be written. */
	bool failed = shown && shown->error && shown->error != -EOPNOTSUPP && level->level < LEVEL_DURABLE;
	int error = failed ? shown->error : level->error;
	struct arena_status *s = status_of(mem, level->id);
	uint32_t seq = change_begin(mem, s);
	atomic_store(&s->epoch, level->id.epoch);
	atomic_store(&s->step, level->id.step);
	atomic_store(&s->level, level->level);
	atomic_store(&s->error, error);
	atomic_store(&s->late_rank, level->late_rank);
	atomic_store(&s->late_phase, level->late_phase);
	atomic_store(&s->seq, seq);
	memory_wake(mem);
}

void memory_set_epoch(struct memory *mem, uint32_t epoch)
{
	atomic_store(&mem->head->pause, 0);
	atomic_store(&mem->head->epoch, epoch);
	memory_wake(mem);
}

void memory_retire(struct memory *mem)
{
	memory_set_epoch(mem, ARENA_EPOCH_OVER);
}

void memory_set_pause(struct memory *mem, uint64_t step)
{
	atomic_store(&mem->head->pause, step);
	memory_wake(mem);
}

void memory_set_stop(struct memory *mem, bool stop)
{
	atomic_store(&mem->head->stop, stop);
	memory_wake(mem);
}
