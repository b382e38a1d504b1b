/* The reads of a restore. The caller's thread drives the disk: it keeps DISK_DEPTH reads in flight, in the order of the files,
 * and hands what has arrived to the checkers. Bounds: memory is nslots × chunk, open files are at most one more than slots.
 *
 * A read that the kernel holds can not be taken back, and its buffer can not be freed. So a storage that stops answering is an
 * error after STALL_MAX, but the return still waits until the kernel has given every buffer back. */
#include "store/read/restore.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/threads.h"
#include "store/read/checkers.h"
#include "store/read/chunk.h"

#include <stdlib.h>

enum { THREADS_DEFAULT_MAX = 8, WAIT_MS = 200 };
#define STALL_MAX (60 * CLOCK_NS_PER_S)

struct source {
	int file;       /* handle, -1: this entry is unused */
	uint32_t index; /* of the file in the plan */
	unsigned slots; /* that are read from it */
};

struct reader {
	struct restore_plan *plan;
	struct disk *disk;
	struct checkers checkers;
	struct extent_at at;
	struct extent next;
	bool more; /* `next` is to be read */
	struct source *sources;
	unsigned nsources;
	struct source *current;
	unsigned in_flight;
	uint64_t answered; /* when the disk last did */
};

static const char *file_name(const struct reader *r, const struct source *s)
{
	return plan_file(r->plan, s->index)->name;
}

static void read_done(struct disk_op *op)
{
	struct restore_slot *slot = list_entry(op, struct restore_slot, op);
	struct reader *r = op->arg;
	const struct manifest_file *file = plan_file(r->plan, slot->source->index);
	uint64_t end = slot->extent.offset + op->len, size = manifest_stored(file);
	uint64_t due = min_u64(end, size) - slot->extent.offset;
	struct err err;
	r->in_flight--;
	r->answered = clock_now();
	slot->source->slots--;
	slot->source = NULL;
	if (op->result >= (int64_t)due)
		return checkers_check(&r->checkers, slot);
	if (op->result < 0)
		err_set(&err, (int)op->result, "reading %s at byte %llu: %s", file->name,
			(unsigned long long)op->offset, err_name((int)op->result));
	else
		err_set(&err, -EBADMSG, "%s was cut short: there is nothing at byte %llu, of %llu", file->name,
			(unsigned long long)(op->offset + (uint64_t)op->result), (unsigned long long)size);
	checkers_fail(&r->checkers, op->result < 0 ? (int)op->result : -EBADMSG, &err);
	checkers_put(&r->checkers, slot);
}

static void close_idle(struct reader *r)
{
	for (unsigned i = 0; i < r->nsources; i++) {
		struct source *s = &r->sources[i];
		if (s->file < 0 || s->slots || s == r->current)
			continue;
		disk_close_file(r->disk, s->file);
		s->file = -1;
	}
}

/* Makes the file of the next extent the current one. */
static int open_next(struct reader *r, struct err *err)
{
	if (r->current && r->current->index == r->next.file)
		return 0;
	r->current = NULL;
	close_idle(r);
	struct source *s = r->sources;
	while (s->file >= 0) /* there is one more than slots */
		s++;
	*s = (struct source){.file = -1, .index = r->next.file};
	int file = disk_open_at(r->disk, r->plan->ck->dir, file_name(r, s), DISK_RDONLY | DISK_DIRECT);
	if (file < 0)
		return err_set(err, file, "opening %s: %s", file_name(r, s), err_name(file));
	s->file = file;
	r->current = s;
	return 0;
}

static void submit(struct reader *r, struct restore_slot *slot)
{
	slot->extent = r->next;
	slot->source = r->current;
	slot->source->slots++;
	slot->op = (struct disk_op){.kind = DISK_READ,
				    .file = r->current->file,
				    .buf = slot->data,
				    .offset = r->next.offset,
				    .len = r->next.len,
				    .done = read_done,
				    .arg = r};
	r->in_flight++;
	disk_submit(r->disk, &slot->op);
	r->more = extent_next(r->plan, r->checkers.chunk, &r->at, &r->next);
}

/* Submits as much as there are buffers for. */
static int fill(struct reader *r, struct err *err)
{
	if (!r->in_flight)
		r->answered = clock_now();
	while (r->more && r->in_flight < DISK_DEPTH) {
		int rc = open_next(r, err);
		if (rc < 0)
			return rc;
		struct restore_slot *slot = checkers_take(&r->checkers);
		if (!slot)
			return 0;
		submit(r, slot);
	}
	return 0;
}

static int wait_some(struct reader *r, struct err *err)
{
	if (!r->in_flight) {
		checkers_wait(&r->checkers, r->more, WAIT_MS);
		return 0;
	}
	disk_poll(r->disk, clock_deadline(WAIT_MS * CLOCK_NS_PER_MS));
	if (!r->in_flight || clock_now() - r->answered < STALL_MAX)
		return 0;
	return err_set(err, -ETIMEDOUT, "the storage has not answered %u reads for %llu s", r->in_flight,
		       (unsigned long long)(STALL_MAX / CLOCK_NS_PER_S));
}

static int run(struct reader *r, const struct restore_options *opts, struct err *err)
{
	for (;;) {
		uint64_t done;
		bool last = !r->more && !r->in_flight && !checkers_busy(&r->checkers);
		int rc = checkers_state(&r->checkers, &done);
		if (rc < 0)
			return rc;
		if (opts->progress && opts->progress(opts->arg, done, r->plan->useful) && !last)
			return err_set(err, -ECANCELED, "cancelled after %llu of %llu bytes", (unsigned long long)done,
				       (unsigned long long)r->plan->useful);
		if (last)
			return 0;
		rc = fill(r, err);
		if (rc == 0)
			rc = wait_some(r, err);
		if (rc < 0)
			return rc;
	}
}

static void drain(struct reader *r)
{
	r->answered = clock_now();
	while (r->in_flight) {
		disk_poll(r->disk, clock_deadline(CLOCK_NS_PER_S));
		if (!r->in_flight || clock_now() - r->answered < STALL_MAX)
			continue;
		log_warn("restore: still waiting for %u reads that the kernel does not give back", r->in_flight);
		r->answered = clock_now();
	}
}

static int sources_new(struct reader *r, unsigned nslots, struct err *err)
{
	r->nsources = nslots + 1;
	r->sources = malloc(r->nsources * sizeof(*r->sources));
	if (!r->sources)
		return err_set(err, -ENOMEM, "no memory for %u open files", r->nsources);
	for (unsigned i = 0; i < r->nsources; i++)
		r->sources[i] = (struct source){.file = -1};
	return 0;
}

/* What is left for read buffers when each thread has what it unpacks with. */
static uint64_t buffer_memory(const struct restore_plan *plan, uint64_t memory, unsigned threads)
{
	bool packed = false;
	for (uint32_t f = 0; f < plan->saved.nfiles; f++)
		packed |= plan->indexes[f].nchunks != 0;
	return packed ? memory - min_u64(memory / 2, (uint64_t)threads * CHUNK_UNPACKER) : memory;
}

static int read_all(struct restore_plan *plan, const struct restore_options *opts, unsigned threads, struct err *err)
{
	struct reader r = {.plan = plan, .disk = plan->ck->repo->disk};
	unsigned nslots = DISK_DEPTH + 2 * threads;
	uint64_t chunk = disk_chunk(buffer_memory(plan, opts->memory, threads), nslots, plan->read);
	r.more = extent_next(plan, chunk, &r.at, &r.next);
	if (!r.more)
		return 0;
	nslots = (unsigned)min_u64(nslots, div_up(plan->read, chunk) + 1);
	int rc = sources_new(&r, nslots, err);
	if (rc < 0)
		return rc;
	rc = checkers_start(&r.checkers, plan, opts, nslots, chunk, threads, err);
	if (rc < 0) {
		free(r.sources);
		return rc;
	}
	struct err why = {""};
	rc = run(&r, opts, &why);
	if (rc < 0)
		checkers_fail(&r.checkers, rc, &why); /* the threads skip what they still have */
	drain(&r);
	r.current = NULL;
	close_idle(&r);
	checkers_stop(&r.checkers);
	if (r.checkers.rc < 0)
		err_set(err, r.checkers.rc, "%s", r.checkers.err.text);
	free(r.sources);
	return r.checkers.rc;
}

int restore_execute(struct restore_plan *plan, const struct restore_options *opts, struct err *err)
{
	unsigned threads = opts->threads ? opts->threads : threads_default(THREADS_DEFAULT_MAX);
	threads = threads < CHECKERS_MAX ? threads : CHECKERS_MAX;
	int rc = want_leaves_begin(plan, opts);
	rc = rc ? err_set(err, rc, "no memory to restore %zu destinations", plan->nwants)
		: read_all(plan, opts, threads, err);
	want_leaves_end(plan);
	return rc;
}
