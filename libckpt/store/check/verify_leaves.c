/* The leaves of all files, through a ring of slots: each holds one read of neighbouring leaves, goes to a digest worker when the bytes
 * are there, and is retired in the order of the files. So findings come in order, and memory is bounded.
 *
 *	FREE → READING (the disk) → READ (in the queue or with a worker) → CHECKED → FREE
 *
 * Only READ → CHECKED happens on a worker; everything else on the caller's thread. */
#include "store/check/verify_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "store/read/chunk.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { THREADS_MAX = 8, SLOTS_MAX = DISK_DEPTH + THREADS_MAX + 1, SLOT_LEAVES = 1024, TURN_MS = 200 };

_Static_assert(DISK_CHUNK_MIN >= PACKED_CHUNK + DISK_ALIGN && DISK_CHUNK_MIN >= LEAF_SIZE + 2 * DISK_ALIGN,
	       "every buffer holds what is read at once");

/* The next leaf of a file: its piece, its number in the piece and in the file. */
struct cursor {
	uint64_t piece, in_piece, leaf;
};

enum stage { STAGE_FREE, STAGE_READING, STAGE_READ, STAGE_CHECKED };

struct slot {
	enum stage stage;
	struct leaf_reader *reader;
	struct verify_file *file;
	struct cursor first;
	unsigned nleaves;
	uint64_t bytes;     /* of the leaves */
	uint64_t window_at; /* where the read begins in the file: aligned */
	uint8_t *buf;       /* reader.chunk bytes */
	bool bad[SLOT_LEAVES];
	struct disk_op op;
	struct list link;
};

/* Damage that may go on in the next leaf. */
struct damage {
	const struct manifest_file *file; /* NULL: none */
	const char *tensor;
	uint64_t from, to, leaves;
	int rc; /* of the read */
};

struct leaf_reader {
	struct verify_run *run;
	struct slot *slots; /* a ring: head is the oldest in use, tail the next to fill */
	unsigned nslots, head, tail, reading;
	struct damage damage;
	uint8_t *memory;
	uint64_t chunk; /* bytes of one read, at most */

	pthread_mutex_t lock; /* queue, closing, and READ → CHECKED of the slots */
	pthread_cond_t queued, checked;
	struct list queue;
	bool closing;
	unsigned nthreads;
	pthread_t threads[THREADS_MAX];
};

/* Place of the leaf in the data file; moves on. The caller knows that there is one. */
static void next_leaf(const struct sidecar *sc, struct cursor *c, uint64_t *at, uint64_t *len)
{
	while (c->in_piece >= leaf_count(sc->pieces[c->piece].bytes)) {
		c->piece++;
		c->in_piece = 0;
	}
	const struct sidecar_piece *p = &sc->pieces[c->piece];
	uint64_t in = c->in_piece * LEAF_SIZE;
	*at = sc->data_at + p->at + in;
	*len = min_u64(p->bytes - in, LEAF_SIZE);
	c->in_piece++;
	c->leaf++;
}

/* The chunk that holds a leaf; NULL: the file is not packed. */
static const struct packed_chunk *chunk_of(const struct verify_file *vf, uint64_t at, uint64_t len)
{
	return vf->index.nchunks ? packed_find(&vf->index, at - vf->file->data_at, len) : NULL;
}

/* What must be read for a leaf: itself, or its chunk. */
static void stored_range(const struct verify_file *vf, uint64_t at, uint64_t len, uint64_t *from, uint64_t *to)
{
	const struct packed_chunk *chunk = chunk_of(vf, at, len);
	*from = chunk ? chunk->at : at;
	*to = chunk ? chunk->at + chunk->bytes : at + len;
}

/* ---- workers */

/* The leaf in what was read, or NULL: it is not there whole, or its chunk is damaged. */
static const uint8_t *find_leaf(struct slot *s, struct chunk_unpacker **unpacker, uint64_t at, uint64_t len)
{
	const struct packed_chunk *chunk = chunk_of(s->file, at, len);
	uint64_t from, to, end = s->op.result < 0 ? 0 : s->window_at + (uint64_t)s->op.result;
	const uint8_t *plain;
	struct err ignored;
	stored_range(s->file, at, len, &from, &to);
	if (to > end)
		return NULL;
	if (!chunk)
		return s->buf + (at - s->window_at);
	if (!*unpacker && chunk_unpacker_new(unpacker) < 0) {
		s->op.result = -ENOMEM; /* which is no damage */
		return NULL;
	}
	if (chunk_unpack(*unpacker, chunk, s->buf + (from - s->window_at), &plain, &ignored) < 0)
		return NULL;
	return plain + (at - s->file->file->data_at - chunk->data_at);
}

static void check_leaves(struct slot *s, struct chunk_unpacker **unpacker)
{
	const struct sidecar *sc = &s->file->sidecar;
	struct cursor c = s->first;
	if (*unpacker)
		chunk_forget(*unpacker);
	for (unsigned i = 0; i < s->nleaves; i++) {
		uint64_t at, len, leaf = c.leaf;
		next_leaf(sc, &c, &at, &len);
		const uint8_t *bytes = find_leaf(s, unpacker, at, len);
		s->bad[i] = !bytes || digest_leaf(bytes, len) != sc->leaves[leaf];
	}
}

static void *work(void *arg)
{
	struct leaf_reader *r = arg;
	struct chunk_unpacker *unpacker = NULL; /* made when a packed file comes */
	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct list *link = list_pop(&r->queue);
		if (!link && r->closing)
			break;
		if (!link) {
			pthread_cond_wait(&r->queued, &r->lock);
			continue;
		}
		struct slot *s = list_entry(link, struct slot, link);
		pthread_mutex_unlock(&r->lock);
		check_leaves(s, &unpacker);
		pthread_mutex_lock(&r->lock);
		s->stage = STAGE_CHECKED;
		pthread_cond_signal(&r->checked);
	}
	pthread_mutex_unlock(&r->lock);
	chunk_unpacker_free(unpacker);
	return NULL;
}

/* ---- findings */

static void tell_damage(struct leaf_reader *r)
{
	struct damage *d = &r->damage;
	if (!d->file)
		return;
	if (d->rc < 0)
		verify_find(r->run, d->file->name, d->tensor, d->from, d->to, "cannot be read: %s (%" PRIu64 " leaves)",
			    err_name(d->rc), d->leaves);
	else
		verify_find(r->run, d->file->name, d->tensor, d->from, d->to,
			    "damaged: its bytes do not match their digests (%" PRIu64 " leaves)", d->leaves);
	*d = (struct damage){0};
}

static void add_damage(struct leaf_reader *r, const struct slot *s, uint64_t piece, uint64_t at, uint64_t len)
{
	const struct verify_file *vf = s->file;
	const char *tensor = vf->node->tensors[vf->file->pieces[piece].tensor].name;
	int rc = s->op.result < 0 ? (int)s->op.result : 0;
	struct damage *d = &r->damage;
	r->run->result->damaged_leaves++;
	if (d->file != vf->file || d->tensor != tensor || d->to != at || d->rc != rc) {
		tell_damage(r);
		*d = (struct damage){vf->file, tensor, at, at, 0, rc};
	}
	d->to = at + len;
	d->leaves++;
}

/* The oldest slot is checked: counts, tells, frees it. */
static int retire(struct leaf_reader *r)
{
	struct slot *s = &r->slots[r->head % r->nslots];
	struct cursor c = s->first;
	for (unsigned i = 0; i < s->nleaves; i++) {
		uint64_t at, len;
		next_leaf(&s->file->sidecar, &c, &at, &len);
		if (s->bad[i])
			add_damage(r, s, c.piece, at, len);
	}
	if (s->op.result < 0 && !r->run->trouble)
		r->run->trouble = (int)s->op.result;
	r->run->result->leaves += s->nleaves;
	verify_file_put(s->file);
	s->stage = STAGE_FREE;
	r->head++;
	return verify_advance(r->run, s->bytes);
}

/* ---- the ring */

static bool is_checked(struct leaf_reader *r, unsigned ms)
{
	struct slot *s = &r->slots[r->head % r->nslots];
	LOCK_SCOPE(&r->lock);
	if (s->stage == STAGE_READ && ms) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts); /* of the threads, not of the simulated world */
		uint64_t until = (uint64_t)ts.tv_nsec + ms * CLOCK_NS_PER_MS;
		ts.tv_sec += (time_t)(until / CLOCK_NS_PER_S);
		ts.tv_nsec = (long)(until % CLOCK_NS_PER_S);
		pthread_cond_clockwait(&r->checked, &r->lock, CLOCK_MONOTONIC, &ts);
	}
	return s->stage == STAGE_CHECKED;
}

/* Waits for something to happen and retires what is ready. While the disk works its next completion is near: the wait is for it;
 * workers are waited for when nothing is being read. */
static int turn(struct leaf_reader *r)
{
	struct disk *disk = r->run->ck.repo->disk;
	bool progress = false;
	int rc = 0;
	if (r->reading && !is_checked(r, 0))
		disk_poll(disk, clock_deadline(TURN_MS * CLOCK_NS_PER_MS));
	while (r->head != r->tail && is_checked(r, r->reading ? 0 : TURN_MS)) {
		int advanced = retire(r);
		rc = rc ? rc : advanced;
		progress = true;
		if (r->reading)
			disk_poll(disk, 0);
	}
	return progress ? rc : verify_advance(r->run, 0);
}

static void read_done(struct disk_op *op)
{
	struct slot *s = op->arg;
	struct leaf_reader *r = s->reader;
	r->reading--;
	LOCK_SCOPE(&r->lock);
	s->stage = STAGE_READ;
	list_push(&r->queue, &s->link);
	pthread_cond_signal(&r->queued);
}

static void submit(struct leaf_reader *r, struct slot *s, uint64_t end)
{
	s->stage = STAGE_READING;
	s->file->refs++;
	s->op = (struct disk_op){
		.kind = DISK_READ,
		.file = s->file->handle,
		.buf = s->buf,
		.offset = s->window_at,
		.len = align_up(end, DISK_ALIGN) - s->window_at,
		.done = read_done,
		.arg = s,
	};
	r->tail++;
	r->reading++;
	disk_submit(r->run->ck.repo->disk, &s->op);
}

/* Gathers chosen neighbours from the cursor on into the slot, as many as fit, and moves the cursor past them. The end of
 * the last one, or 0 when there are none before the file's end. */
static uint64_t gather(struct slot *s, struct cursor *c)
{
	const struct verify_file *vf = s->file;
	const struct sidecar *sc = &vf->sidecar;
	uint64_t end = 0;
	s->nleaves = 0;
	s->bytes = 0;
	while (c->leaf < sc->nleaves && s->nleaves < SLOT_LEAVES) {
		struct cursor next = *c;
		uint64_t at, len, from, to;
		bool chosen = share_has(vf->run->opts, vf->number, c->leaf, sc->nleaves);
		if (!chosen && s->nleaves)
			break;
		next_leaf(sc, &next, &at, &len);
		stored_range(vf, at, len, &from, &to);
		if (!s->nleaves) {
			s->first = *c;
			s->window_at = from / DISK_ALIGN * DISK_ALIGN;
		}
		if (chosen && align_up(to, DISK_ALIGN) - s->window_at > s->reader->chunk)
			break;
		*c = next;
		if (!chosen)
			continue;
		s->nleaves++;
		s->bytes += len;
		end = to;
	}
	return end;
}

int reader_add(struct leaf_reader *r, struct verify_file *vf)
{
	struct cursor c = {0};
	int rc = 0;
	while (!rc && c.leaf < vf->sidecar.nleaves) {
		if (r->tail - r->head == r->nslots) {
			rc = turn(r);
			continue;
		}
		struct slot *s = &r->slots[r->tail % r->nslots];
		s->file = vf;
		uint64_t end = gather(s, &c);
		if (end)
			submit(r, s, end);
	}
	verify_file_put(vf);
	return rc;
}

int reader_drain(struct leaf_reader *r)
{
	int rc = 0;
	while (r->head != r->tail) {
		int one = turn(r);
		rc = rc ? rc : one;
	}
	tell_damage(r);
	return rc;
}

/* ---- begin, end */

/* No more than there are buffers to digest. */
static unsigned thread_count(const struct verify_options *opts, uint64_t total)
{
	int cores = get_nprocs();
	unsigned n = opts->threads ? opts->threads : cores < 1 ? 1 : (unsigned)cores;
	return (unsigned)min_u64(min_u64(n, THREADS_MAX), total / DISK_CHUNK_MIN + 1);
}

static int start_threads(struct leaf_reader *r, unsigned n)
{
	for (; r->nthreads < n; r->nthreads++) {
		int rc = pthread_create(&r->threads[r->nthreads], NULL, work, r);
		if (rc && !r->nthreads)
			return err_set(r->run->err, -rc, "cannot start a thread: %s", err_name(rc));
		if (rc)
			break; /* with fewer it takes longer */
	}
	return 0;
}

static int fill_reader(struct leaf_reader *r)
{
	unsigned threads = thread_count(r->run->opts, r->run->total);
	if (r->run->opts->depth != VERIFY_DATA)
		return 0;
	r->nslots = DISK_DEPTH + threads + 1;
	r->slots = calloc(r->nslots, sizeof(*r->slots));
	r->chunk = disk_chunk(r->run->opts->memory, r->nslots, r->run->total);
	r->memory = aligned_alloc(DISK_ALIGN, r->nslots * r->chunk);
	if (!r->slots || !r->memory)
		return err_set(r->run->err, -ENOMEM, "no memory for %u buffers of %lu bytes", r->nslots,
			       (unsigned long)r->chunk);
	for (unsigned i = 0; i < r->nslots; i++) {
		r->slots[i].reader = r;
		r->slots[i].buf = r->memory + i * r->chunk;
	}
	return start_threads(r, threads);
}

int reader_new(struct verify_run *run, struct leaf_reader **out)
{
	struct leaf_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(run->err, -ENOMEM, "out of memory");
	r->run = run;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->queued, NULL);
	pthread_cond_init(&r->checked, NULL);
	list_init(&r->queue);
	int rc = fill_reader(r);
	if (rc < 0) {
		reader_free(r);
		return rc;
	}
	*out = r;
	return 0;
}

void reader_free(struct leaf_reader *r)
{
	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_cond_broadcast(&r->queued);
	pthread_mutex_unlock(&r->lock);
	for (unsigned i = 0; i < r->nthreads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_cond_destroy(&r->checked);
	pthread_cond_destroy(&r->queued);
	pthread_mutex_destroy(&r->lock);
	free(r->memory);
	free(r->slots);
	free(r);
}
