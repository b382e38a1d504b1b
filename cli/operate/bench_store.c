/* What the store's file system does here: a large file the way ckptd writes one and a restore reads it (direct, DISK_DEPTH transfers of
 * DISK_CHUNK at a time, from memory like an arena's), and the small steps of a commit. */
#include "operate/bench.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "store/disk/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 32, SMALL = 4096, NAME_SIZE = 64, POLL_MS = 100 };
#define STREAM_MAX (20 * CLOCK_NS_PER_S)
#define TRIES_MAX (3 * CLOCK_NS_PER_S)

struct store {
	struct disk *disk;
	int root;
	const struct bench_memory *memory;
	struct progress *progress;
	struct bench_figures *f;
	char name[NAME_SIZE], other[NAME_SIZE];
	struct err *err;
};

/* ---- single steps -------------------------------------------------------------------------------------------------- */

static int step(struct store *s, struct disk_op op, const char *what, uint64_t *ns)
{
	uint64_t begin = clock_now();
	int rc = disk_do(s->disk, &op);
	if (ns)
		*ns = clock_now() - begin;
	return rc < 0 ? err_set(s->err, rc, "cannot %s a file of the store: %s", what, err_name(rc)) : rc;
}

static int open_name(struct store *s, unsigned flags)
{
	bool creates = flags & DISK_CREATE;
	return step(s, (struct disk_op){.kind = DISK_OPEN, .dir = s->root, .name = s->name, .flags = flags},
		    creates ? "create" : "open", NULL);
}

static void drop(struct store *s, const char *name)
{
	struct disk_op op = {.kind = DISK_UNLINK, .dir = s->root, .name = name};
	disk_do(s->disk, &op);
}

/* ---- a large file -------------------------------------------------------------------------------------------------- */

struct stream {
	struct store *store;
	enum disk_kind kind;
	int file, rc;
	uint64_t size, next, done, until;
	unsigned in_flight;
	struct disk_op lanes[DISK_DEPTH];
};

/* Storage that finds equal blocks, or compresses, shall find none. */
static void stamp(uint8_t *data, uint64_t len, uint64_t offset)
{
	for (uint64_t at = 0; at < len; at += DISK_ALIGN) {
		uint64_t place = offset + at;
		memcpy(data + at, &place, sizeof(place));
	}
}

static void lane_done(struct disk_op *op);

static void lane_next(struct stream *s, struct disk_op *op)
{
	if (s->rc || s->next >= s->size || clock_now() >= s->until)
		return;
	uint8_t *data = s->store->memory->arena + (op - s->lanes) * DISK_CHUNK;
	uint64_t len = min_u64(DISK_CHUNK, s->size - s->next);
	if (s->kind == DISK_WRITE)
		stamp(data, len, s->next);
	*op = (struct disk_op){.kind = s->kind,
			       .file = s->file,
			       .buf = data,
			       .offset = s->next,
			       .len = len,
			       .done = lane_done,
			       .arg = s};
	s->next += len;
	s->in_flight++;
	disk_submit(s->store->disk, op);
}

static void lane_done(struct disk_op *op)
{
	struct stream *s = op->arg;
	s->in_flight--;
	if (!s->rc && op->result < (int64_t)op->len)
		s->rc = op->result < 0 ? (int)op->result : -EIO;
	s->done += op->len;
	lane_next(s, op);
}

/* Moves s->size bytes, or as many as there is time for: s->done. */
static int stream(struct stream *s, const char *what)
{
	struct store *store = s->store;
	s->until = clock_deadline(STREAM_MAX);
	for (unsigned i = 0; i < DISK_DEPTH; i++)
		lane_next(s, &s->lanes[i]);
	while (s->in_flight) {
		disk_poll(store->disk, clock_deadline(POLL_MS * CLOCK_NS_PER_MS));
		if (progress_step(store->progress, s->done, s->size) && !s->rc)
			s->rc = -ECANCELED;
	}
	if (s->rc == -ECANCELED)
		return err_set(store->err, s->rc, "interrupted");
	return s->rc ? err_set(store->err, s->rc, "cannot %s a file of the store: %s", what, err_name(s->rc)) : 0;
}

static double rate(uint64_t bytes, uint64_t begin)
{
	return (double)bytes * (double)CLOCK_NS_PER_S / (double)max_u64(clock_now() - begin, 1);
}

static int write_file(struct store *s, int file, uint64_t size)
{
	struct disk_op allocate = {.kind = DISK_ALLOCATE, .file = file, .len = size};
	struct stream w = {.store = s, .kind = DISK_WRITE, .file = file, .size = size};
	uint64_t begin = clock_now();
	int rc = disk_do(s->disk, &allocate);
	if (rc < 0 && rc != -EOPNOTSUPP && rc != -ENOSYS)
		return err_set(s->err, rc, "cannot allocate a file of the store: %s", err_name(rc));
	rc = stream(&w, "write");
	if (!rc)
		rc = step(s, (struct disk_op){.kind = DISK_FSYNC, .file = file}, "fsync", NULL);
	s->f->moved = w.done;
	s->f->rates[BENCH_WRITE] = rate(w.done, begin);
	return rc;
}

static int read_file(struct store *s, int file)
{
	struct stream r = {.store = s, .kind = DISK_READ, .file = file, .size = s->f->moved};
	uint64_t begin = clock_now();
	int rc = stream(&r, "read");
	s->f->rates[BENCH_READ] = rate(r.done, begin);
	return rc;
}

static int large_file(struct store *s, uint64_t size)
{
	int file = open_name(s, DISK_CREATE | DISK_DIRECT);
	if (file < 0)
		return file;
	int flags = fcntl(file, F_GETFL);
	s->f->direct = flags >= 0 && flags & O_DIRECT;
	int rc = write_file(s, file, size);
	disk_close_file(s->disk, file);
	if (rc)
		return rc;
	file = open_name(s, DISK_RDONLY | DISK_DIRECT);
	if (file < 0)
		return file;
	s->progress->verb = "read";
	progress_next(s->progress, 1, 1);
	rc = read_file(s, file);
	disk_close_file(s->disk, file);
	return rc;
}

/* ---- the steps of a commit ------------------------------------------------------------------------------------------- */

static bool no_links(int rc)
{
	return rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EMLINK;
}

/* A new file with something in it, as a sidecar or a manifest is. */
static int small_file(struct store *s, uint64_t *ns)
{
	int file = open_name(s, DISK_CREATE);
	if (file < 0)
		return file;
	struct disk_op write = {.kind = DISK_WRITE, .file = file, .buf = s->memory->arena, .len = SMALL};
	int rc = step(s, write, "write", NULL);
	if (rc >= 0)
		rc = step(s, (struct disk_op){.kind = DISK_FSYNC, .file = file}, "fsync", ns);
	disk_close_file(s->disk, file);
	return rc;
}

static int commit_once(struct store *s, uint64_t ns[BENCH_LATENCIES])
{
	struct disk_op link = {.kind = DISK_LINK, .dir = s->root, .name = s->name, .dir2 = s->root, .name2 = s->other};
	int rc = small_file(s, &ns[BENCH_FSYNC]);
	if (rc < 0)
		return rc;
	rc = step(s, link, "link", &ns[BENCH_LINK]);
	if (no_links(rc))
		ns[BENCH_LINK] = 0;
	if (rc >= 0 || no_links(rc))
		rc = step(s, (struct disk_op){.kind = DISK_FSYNC, .file = s->root}, "fsync the directory of",
			  &ns[BENCH_FSYNC_DIR]);
	drop(s, s->other);
	drop(s, s->name);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int latencies(struct store *s)
{
	uint64_t all[BENCH_LATENCIES][TRIES], until = clock_deadline(TRIES_MAX);
	unsigned n = 0;
	for (; n < TRIES && (!n || clock_now() < until); n++) {
		uint64_t ns[BENCH_LATENCIES] = {0};
		int rc = cli_interrupted() ? err_set(s->err, -ECANCELED, "interrupted") : commit_once(s, ns);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; i < BENCH_LATENCIES; i++)
			all[i][n] = ns[i];
	}
	for (unsigned i = 0; i < BENCH_LATENCIES; i++) {
		qsort(all[i], n, sizeof(all[i][0]), by_time);
		s->f->latencies[i] = (struct bench_times){.median_ns = all[i][n / 2], .worst_ns = all[i][n - 1]};
	}
	return 0;
}

int bench_store(struct disk *disk, int root, uint64_t size, const struct bench_memory *memory,
		struct progress *progress, struct bench_figures *figures, struct err *err)
{
	struct store s = {.disk = disk, .root = root, .memory = memory, .progress = progress, .f = figures, .err = err};
	unsigned long nonce = (unsigned long)clock_wall();
	snprintf(s.name, sizeof(s.name), ".tmp-bench-%lx", nonce);
	snprintf(s.other, sizeof(s.other), ".tmp-bench-%lx.linked", nonce);
	int token = disk_register(disk, memory->arena, memory->size);
	if (token >= 0)
		disk_pin(disk, token, memory->size);
	int rc = large_file(&s, size);
	drop(&s, s.name);
	if (!rc)
		rc = latencies(&s);
	drop(&s, s.name);
	if (token >= 0)
		disk_unregister(disk, token);
	return rc;
}
