/* File writer: one new file, from creation to the confirmed fsync, as a small state machine over the disk. */
#ifndef CKPTD_CHECKPOINT_FILE_FILE_WRITER_H
#define CKPTD_CHECKPOINT_FILE_FILE_WRITER_H

#include "format/tensor/names.h"
#include "runtime/room.h"
#include "store/disk/disk.h"

enum {
	WRITER_EXTENTS = 2,
	WRITER_OPS = 4, /* extents in flight */
};

/* Direct I/O that extends a file, or fills its holes, goes one request at a time; so its blocks are allocated first. */
enum writer_state {
	WRITER_OPEN = 1,
	WRITER_ALLOCATE, /* direct only; where the file system cannot, it is slower without */
	WRITER_WRITE,
	WRITER_TRUNCATE, /* direct only */
	WRITER_FSYNC,
	WRITER_CLOSE,
	WRITER_DONE
};

struct writer {
	/* set by the caller; extents, `more` and dir must live until done */
	struct disk *disk;
	int dir;
	char name[NAME_FILE_MAX];
	unsigned flags; /* DISK_DIRECT or 0 */
	struct writer_extent {
		const void *buf;
		uint64_t offset, len;
	} extents[WRITER_EXTENTS];        /* len 0: unused */
	const struct writer_extent *more; /* after those; NULL: none */
	uint32_t nmore;
	uint64_t size; /* of the file in the end: what direct I/O wrote beyond is cut */
	/* NULL: all of it is there. Else how many bytes of an extent may be written by now, from its start, fewer never
	 * again; the rest waits for writer_more. */
	uint64_t (*ready)(const struct writer *w, const struct writer_extent *e);
	/* Limits of the extents, or NULL. An extent that was begun while nothing was limited goes on so. */
	struct throttle *throttle;
	struct bucket *bucket;
	/* NULL, or what writes the file in place of the extents, to w->file: it calls writer_filled. `size` before is how
	 * much to allocate. */
	void (*fill)(struct writer *w);
	void (*moved)(struct writer *w); /* NULL, or called when a piece of an extent is written */
	void (*done)(struct writer *w);
	void *arg;

	/* the result */
	enum writer_state state;
	int rc;

	int file; /* in fill */

	/* private */
	unsigned pending;
	struct disk_op ops[WRITER_OPS];
	bool pieces; /* under a limit, or as they arrive: the extents in order, one piece at a time */
	bool starved;
	int cancelled;
	struct turn turn;
	uint32_t extent; /* the next to be written, or that is being written piece by piece */
	uint64_t at;
};

/* Starts; `done` is called once, from disk_poll, with rc 0 when the bytes are on storage, or the first error (the file may be
 * left in any state). An existing name is an error (-EEXIST). */
void writer_start(struct writer *w);
/* Everything is written, and the file is of this size; or rc. */
void writer_filled(struct writer *w, int rc, uint64_t size);
/* More of its extents is ready. */
void writer_more(struct writer *w);
/* All that is ready is written, and it waits for more. */
static inline bool writer_starved(const struct writer *w)
{
	return w->starved;
}
/* What waits for its turn under a limit, or to be ready, or has not begun, is not written any more: done comes soon, with
 * rc. No effect on what has ended. */
void writer_cancel(struct writer *w, int rc);

#endif
