#include "store/read/checkers.h"

#include "base/cleanup.h"
#include "format/tensor/digest.h"
#include "store/read/chunk.h"
#include "store/read/scatter.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static int tell_damage(const struct restore_plan *plan, struct extent_at at, struct err *err)
{
	const struct plan_piece *p = &plan->pieces[at.piece];
	char dir[NAME_DIR_MAX];
	uint64_t from, to;
	name_dir(plan->ck->ref.id, dir);
	leaf_range(plan, at, &from, &to);
	return err_set(err, -EBADMSG, "%s/%s: tensor %s: bytes %llu to %llu of the file do not match their digest", dir,
		       plan_file(plan, p->file)->name, plan->wants[plan->links[p->first_link].want].tensor,
		       (unsigned long long)from, (unsigned long long)to);
}

/* Copies a leaf that was found right to all who want something of it; returns the bytes that they got. */
static uint64_t scatter_leaf(const struct checkers *c, struct extent_at at, const void *leaf, uint64_t len,
			     uint64_t digest)
{
	const struct restore_plan *plan = c->plan;
	const struct plan_piece *p = &plan->pieces[at.piece];
	const struct region *region = &plan_saved(plan, p)->region;
	uint64_t copied = 0;
	for (uint32_t i = 0; i < p->nlinks; i++) {
		const struct plan_link *link = &plan->links[p->first_link + i];
		if (at.leaf < link->first || at.leaf >= link->end)
			continue;
		const struct want *want = &plan->wants[link->want];
		unsigned size = dtype_size(want->dtype);
		uint64_t from = (uint64_t)at.leaf * (LEAF_SIZE / size);
		struct overlap o;
		overlap_init(&o, &want->shape, region, &want->region);
		copied += scatter(&o, from, from + len / size, size, leaf, want->data);
		if (!want->leaves)
			continue;
		if (!plan->whole[link->want]) {
			want_leaves_copied(plan, c->opts, link, at.leaf);
			continue;
		}
		want->leaves[at.leaf] = digest;
		if (c->opts->arrived)
			c->opts->arrived(c->opts->arg, link->want, at.leaf, 1);
	}
	return copied;
}

static bool before(struct extent_at a, struct extent_at b)
{
	return a.piece != b.piece ? a.piece < b.piece : a.leaf < b.leaf;
}

static int tell_chunk(const struct restore_plan *plan, struct extent_at at, const struct packed_chunk *chunk,
		      const struct err *why, struct err *err)
{
	const struct plan_piece *p = &plan->pieces[at.piece];
	char dir[NAME_DIR_MAX];
	name_dir(plan->ck->ref.id, dir);
	return err_set(err, -EBADMSG, "%s/%s: tensor %s: chunk at bytes %llu to %llu of the file: %.300s", dir,
		       plan_file(plan, p->file)->name, plan->wants[plan->links[p->first_link].want].tensor,
		       (unsigned long long)chunk->at, (unsigned long long)(chunk->at + chunk->bytes), why->text);
}

/* The plain bytes of a leaf that was read into the slot. */
static int find_leaf(struct chunk_unpacker **unpacker, const struct restore_plan *plan, const struct restore_slot *slot,
		     struct extent_at at, uint64_t from, const uint8_t **leaf, struct err *err)
{
	const struct packed_chunk *chunk = leaf_chunk(plan, at);
	if (!chunk) {
		*leaf = slot->data + (from - slot->extent.offset);
		return 0;
	}
	struct err why = {""};
	if (!*unpacker && chunk_unpacker_new(unpacker) < 0)
		return err_set(err, -ENOMEM, "no memory to unpack a file");
	int rc = chunk_unpack(*unpacker, chunk, slot->data + (chunk->at - slot->extent.offset), leaf, &why);
	if (rc < 0)
		return tell_chunk(plan, at, chunk, &why, err);
	*leaf += from - plan_file(plan, plan->pieces[at.piece].file)->data_at - chunk->data_at;
	return 0;
}

static int check_extent(struct chunk_unpacker **unpacker, const struct checkers *c, const struct restore_slot *slot,
			uint64_t *copied, struct err *err)
{
	const struct restore_plan *plan = c->plan;
	if (*unpacker)
		chunk_forget(*unpacker);
	struct extent_at at = slot->extent.first;
	for (; extent_seek(plan, &at) && before(at, slot->extent.end); at.leaf++) {
		const struct plan_piece *p = &plan->pieces[at.piece];
		uint64_t from, to;
		leaf_range(plan, at, &from, &to);
		const uint8_t *leaf;
		int rc = find_leaf(unpacker, plan, slot, at, from, &leaf, err);
		if (rc < 0)
			return rc;
		uint64_t digest = digest_leaf(leaf, to - from);
		if (digest != plan->digests[p->pool + at.leaf - p->first])
			return tell_damage(plan, at, err);
		*copied += scatter_leaf(c, at, leaf, to - from, digest);
	}
	return 0;
}

static void fail_locked(struct checkers *c, int rc, const struct err *err)
{
	if (c->rc)
		return;
	c->rc = rc;
	c->err = *err;
}

static void *work(void *arg)
{
	struct checkers *c = arg;
	struct chunk_unpacker *unpacker = NULL; /* made when a packed file comes */
	pthread_mutex_lock(&c->lock);
	for (;;) {
		struct list *node = list_pop(&c->read);
		if (!node && c->closing)
			break;
		if (!node) {
			pthread_cond_wait(&c->read_some, &c->lock);
			continue;
		}
		struct restore_slot *slot = list_entry(node, struct restore_slot, link);
		struct err err = {""};
		uint64_t copied = 0;
		int rc = c->rc;
		c->checking++;
		pthread_mutex_unlock(&c->lock);
		if (rc == 0)
			rc = check_extent(&unpacker, c, slot, &copied, &err);
		pthread_mutex_lock(&c->lock);
		c->checking--;
		c->done += copied;
		if (rc < 0)
			fail_locked(c, rc, &err);
		list_push(&c->free, &slot->link);
		pthread_cond_signal(&c->freed_some);
	}
	pthread_mutex_unlock(&c->lock);
	chunk_unpacker_free(unpacker);
	return NULL;
}

static int slots_new(struct checkers *c)
{
	size_t size = c->nslots * c->chunk;
	c->slots = calloc(c->nslots, sizeof(*c->slots));
	if (!c->slots)
		return -ENOMEM;
	c->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->memory == MAP_FAILED) {
		free(c->slots);
		return -ENOMEM;
	}
	madvise(c->memory, size, MADV_HUGEPAGE); /* first touch is ten times faster */
	for (unsigned i = 0; i < c->nslots; i++) {
		c->slots[i].data = c->memory + i * c->chunk;
		list_push(&c->free, &c->slots[i].link);
	}
	return 0;
}

static void slots_free(struct checkers *c)
{
	munmap(c->memory, c->nslots * c->chunk);
	free(c->slots);
}

static void threads_join(struct checkers *c)
{
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_cond_broadcast(&c->read_some);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->nthreads; i++)
		pthread_join(c->threads[i], NULL);
}

static void sync_init(struct checkers *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->read_some, NULL);
	pthread_cond_init(&c->freed_some, &attr);
	pthread_condattr_destroy(&attr);
}

static void sync_destroy(struct checkers *c)
{
	pthread_cond_destroy(&c->freed_some);
	pthread_cond_destroy(&c->read_some);
	pthread_mutex_destroy(&c->lock);
}

int checkers_start(struct checkers *c, const struct restore_plan *plan, const struct restore_options *opts,
		   unsigned nslots, uint64_t chunk, unsigned nthreads, struct err *err)
{
	*c = (struct checkers){.plan = plan, .opts = opts, .nslots = nslots, .chunk = chunk};
	list_init(&c->free);
	list_init(&c->read);
	if (slots_new(c) < 0)
		return err_set(err, -ENOMEM, "no memory for %u read buffers of %lu KiB", nslots,
			       (unsigned long)chunk >> 10);
	sync_init(c);
	int rc = 0;
	while (c->nthreads < nthreads && rc == 0) {
		rc = -pthread_create(&c->threads[c->nthreads], NULL, work, c);
		c->nthreads += rc == 0;
	}
	if (c->nthreads) /* fewer than wanted are slower, not wrong */
		return 0;
	sync_destroy(c);
	slots_free(c);
	return err_set(err, rc, "starting a thread: %s", err_name(rc));
}

void checkers_stop(struct checkers *c)
{
	threads_join(c);
	sync_destroy(c);
	slots_free(c);
}

struct restore_slot *checkers_take(struct checkers *c)
{
	LOCK_SCOPE(&c->lock);
	struct list *node = list_pop(&c->free);
	return node ? list_entry(node, struct restore_slot, link) : NULL;
}

void checkers_check(struct checkers *c, struct restore_slot *slot)
{
	LOCK_SCOPE(&c->lock);
	list_push(&c->read, &slot->link);
	pthread_cond_signal(&c->read_some);
}

void checkers_put(struct checkers *c, struct restore_slot *slot)
{
	LOCK_SCOPE(&c->lock);
	list_push(&c->free, &slot->link);
}

void checkers_wait(struct checkers *c, bool slot_wanted, unsigned ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until); /* of the threads, not of the simulated world */
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	LOCK_SCOPE(&c->lock);
	if (slot_wanted ? list_empty(&c->free) : c->checking || !list_empty(&c->read))
		pthread_cond_timedwait(&c->freed_some, &c->lock, &until);
}

bool checkers_busy(struct checkers *c)
{
	LOCK_SCOPE(&c->lock);
	return c->checking || !list_empty(&c->read);
}

int checkers_state(struct checkers *c, uint64_t *done)
{
	LOCK_SCOPE(&c->lock);
	*done = c->done;
	return c->rc;
}

void checkers_fail(struct checkers *c, int rc, const struct err *err)
{
	LOCK_SCOPE(&c->lock);
	fail_locked(c, rc, err);
}
