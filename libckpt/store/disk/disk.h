/* The disk, one of the three interfaces through which the state machines see the world (disk, net, clock). Asynchronous:
 * an operation is submitted and its `done` is called from disk_poll() with the result. Implementations: disk_real.c
 * (io_uring, or threads where that is forbidden) and tests/sim/disk_sim.c (a disk that tears, loses and reorders what was not
 * fsynced), chosen at link time.
 *
 * Order: operations are independent unless the caller waits for one before it submits the next; nothing is implied, not
 * even between two writes to the same file. Durability: only what DISK_FSYNC of the file (its bytes and size) and of the
 * directory (its names) has confirmed. Short transfers are continued inside; a result is the whole length or an error.
 * Threads: a struct disk belongs to one thread; each thread opens its own. */
#ifndef CKPT_STORE_DISK_H
#define CKPT_STORE_DISK_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum disk_kind {
	DISK_MKDIR = 1, /* dir, name, flags: DISK_PRIVATE or 0. Mode 0775 & ~umask */
	DISK_OPEN,      /* dir, name, flags → result: file handle */
	DISK_WRITE,     /* file, buf, offset, len → len */
	DISK_READ,      /* file, buf, offset, len → bytes read: less than len only at the end of the file */
	DISK_FSYNC,     /* file (or directory handle) */
	DISK_TRUNCATE,  /* file, offset = new size */
	DISK_ALLOCATE,  /* file, len: blocks for the first len bytes, which the file then has at least; -EOPNOTSUPP */
	DISK_LINK,      /* dir/name → dir2/name2, -EEXIST when that exists */
	DISK_RENAME,    /* dir/name → dir2/name2 */
	DISK_UNLINK,    /* dir, name */
	DISK_RMDIR,     /* dir, name */
	DISK_CLOSE,     /* file */
};

enum disk_open_flags {
	DISK_RDONLY = 0,
	DISK_CREATE = 1, /* write-only, must not exist (-EEXIST), mode 0664 & ~umask */
	DISK_DIRECT =
		2,    /* O_DIRECT where the file system has it; then buf, offset and len are multiples of DISK_ALIGN */
	DISK_DIR = 4, /* a directory */
	DISK_PRIVATE = 8, /* of DISK_MKDIR: mode 0700 */
	/* Symbolic links are not followed (-ELOOP), and what is neither a file nor a directory is not opened (-EINVAL): nothing in
	 * a store leads out of it. */
};

enum { DISK_ALIGN = 4096, DISK_CHUNK = 8 << 20, DISK_CHUNK_MIN = (1 << 20) + 2 * DISK_ALIGN, DISK_DEPTH = 8 };

/* The size of each of n buffers, when all may take `memory` (0: any) and `total` bytes are read: at least one that holds a leaf, or a chunk
 * of a packed file, wherever it lies. */
static inline uint64_t disk_chunk(uint64_t memory, unsigned n, uint64_t total)
{
	uint64_t each = min_u64(memory ? min_u64(memory / n, DISK_CHUNK) : DISK_CHUNK, total + 2 * DISK_ALIGN);
	return max_u64(each / DISK_ALIGN * DISK_ALIGN, DISK_CHUNK_MIN);
}

struct disk;

struct disk_op {
	enum disk_kind kind;
	int dir, dir2;            /* directory handles */
	const char *name, *name2; /* must live until done */
	int file;
	unsigned flags;
	void *buf; /* must live until done; a registered buffer is found by its address */
	uint64_t offset, len;
	void (*done)(struct disk_op *op); /* op may be submitted again or freed inside */
	void *arg;                        /* the caller's */
	int64_t result;                   /* >= 0, or -errno */
	struct list link;                 /* private, as what follows */
	uint64_t issued, end, first;
	uint32_t in_flight;
};

/* Opens an I/O context. The root directory must exist: its handle is *root, released by disk_free. NULL path: no root. Where
 * io_uring is forbidden threads with ordinary system calls take its place; CKPT_DISK_ENGINE (auto, uring, threads) decides otherwise:
 * then -ENOSYS or -EPERM where io_uring was demanded and is forbidden, -EINVAL for another word. */
int disk_new(const char *root_path, struct disk **out, int *root, struct err *err);
/* Which it became: "io_uring" or "threads" ("sim" in the simulator). */
const char *disk_engine(const struct disk *d);
void disk_free(struct disk *d); /* waits for what is in flight, calling done with the results */

/* Never fails: what cannot be started now waits in a queue inside, in order of submission; what cannot be started at all is
 * completed with an error at the next poll. Large transfers go in chunks of DISK_CHUNK, at most DISK_DEPTH in flight over all
 * operations, shared fairly among them. */
void disk_submit(struct disk *d, struct disk_op *op);
/* Runs completions, waiting for the first one until the deadline (0: does not wait). Number of operations done; 0 at once when
 * none is pending. May be called from inside `done`. */
int disk_poll(struct disk *d, uint64_t deadline);
/* Becomes readable when disk_poll has something to do. */
int disk_event_fd(struct disk *d);
/* Operations submitted and not yet done. */
unsigned disk_pending(const struct disk *d);

/* ---- faults on purpose, until a time of clock_now(); a new one takes the place of the one before */

enum { DISK_HIT_MAX = 256 };

/* What writes is refused with this code, as by a broken or a full disk. */
void disk_break(struct disk *d, int rc, uint64_t until);
/* What is submitted begins so much later, but not after `until`; UINT64_MAX: not before it. */
void disk_hold(struct disk *d, uint64_t delay_ns, uint64_t until);
/* Begins what has been held for long enough: for whoever waits for disk_event_fd() alone, now and then. */
void disk_let_go(struct disk *d);
/* One bit of the next write to a checkpoint changes on its way; the write succeeds. */
void disk_corrupt(struct disk *d, uint64_t until);
/* Operations that the last fault has hit. */
uint64_t disk_hits(const struct disk *d);
/* The file of which a bit has changed, and where. "": of none. */
const char *disk_hit_file(const struct disk *d, uint64_t *at);

/* What implementations keep of it. */
struct disk_fault {
	int rc;
	uint64_t delay, until, hits;
	bool corrupts;
	char file[DISK_HIT_MAX];
	uint64_t at;
};
/* 0, or the code: the operation is not begun. */
int disk_fault_of(struct disk_fault *fault, const struct disk_op *op, uint64_t now);
/* When the operation may begin; 0: at once. */
uint64_t disk_fault_due(struct disk_fault *fault, uint64_t now);
/* The byte of a write to this file that changes; false: none. */
bool disk_fault_byte(const struct disk_fault *fault, const struct disk_op *op, const char *file, uint64_t now,
		     uint64_t *at);

/* Announces memory for fixed-buffer I/O. Returns a token, or -errno, which is not fatal: I/O from memory that is not pinned costs more
 * processor time. */
int disk_register(struct disk *d, void *base, uint64_t size);
/* Pins the announced memory up to `end` bytes from its base (in whole units inside; the rest when end is its size). Takes 0.1 s per
 * GiB that has been touched and ten times as long where it has not: do it in steps, behind whoever touches it. -ENOMEM: memlock. */
int disk_pin(struct disk *d, int token, uint64_t end);
void disk_unregister(struct disk *d, int token);

/* ---- synchronous, built on the above (store/disk/disk_sync.c): for readers, tools and start-up. They run disk_poll inside. */

/* Submits, waits, returns the result, at most INT_MAX (op->result has all of it); `done` is not used. */
int disk_do(struct disk *d, struct disk_op *op);
int disk_open_at(struct disk *d, int dir, const char *name, unsigned flags);
int disk_close_file(struct disk *d, int file);
int disk_fsync(struct disk *d, int file);
/* A second name, and a new name in the same directory, durable when the directory is fsynced. A server whose answer was lost is asked
 * again, and may say of what it has done that the name exists, or that it does not (NFS): that counts as done. */
int disk_link_at(struct disk *d, int dir, const char *name, int dir2, const char *name2);
int disk_rename_at(struct disk *d, int dir, const char *name, const char *name2);
/* Reads a whole file of at most `max` bytes; *out is malloc'ed with one NUL behind the data. -EFBIG names both sizes. */
int disk_read_file(struct disk *d, int dir, const char *name, uint64_t max, void **out, size_t *len, struct err *err);
/* Writes name atomically: temporary (".tmp-<name>.<n>"), fsync, then link without overwrite (replace: rename), fsync of the directory.
 * -EEXIST: it was there (not with replace). Where the file system has no hard links: -EEXIST if it is there, else rename, which is as
 * good as long as one process at a time writes to the directory (REPO_LOCK). On failure the temporary is removed. */
int disk_put_file(struct disk *d, int dir, const char *name, const void *data, size_t len, bool replace,
		  struct err *err);
/* Removes a name, durably: unlink, fsync of the directory. -ENOENT: it was not there (that is durable, too). */
int disk_remove_file(struct disk *d, int dir, const char *name, struct err *err);

/* ---- implemented with the disk, synchronous by nature */

struct disk_stat {
	bool is_dir;
	uint64_t size, blocks512, links;
	uint64_t dev, ino; /* the same for all names of a file */
	uint64_t mtime_ns;
	uint64_t changed_ns; /* of a directory: a name in it was made, replaced or removed; nobody can set it back */
	uint32_t uid, mode;  /* the mode's permissions alone */
};
int disk_stat_at(struct disk *d, int dir, const char *name, struct disk_stat *st);
/* Of a path; links are followed. */
int disk_stat_path(const char *path, struct disk_stat *st);
/* Of an open directory: permissions, and the bit by which what is made in it has its group. */
int disk_chmod(struct disk *d, int dir, uint32_t mode);
/* Calls fn for every name but . and .., until it returns non-zero, which is returned. */
int disk_list(struct disk *d, int dir, int (*fn)(void *arg, const char *name), void *arg);
/* An exclusive advisory lock on a file (created when missing); the handle holds it until closed. -EWOULDBLOCK: held by another. Who may not
 * write the file cannot read it either, since that would be enough to lock it; what root makes is the directory's owner's. */
int disk_lock(struct disk *d, int dir, const char *name);
/* Whether the name is still that of the file that is locked: whoever deletes it lets others in. True also when that cannot be told. */
bool disk_lock_stands(struct disk *d, int dir, const char *name, int lock);
/* A lock that others may share, and that no process has for itself alone. */
int disk_share(struct disk *d, int dir, const char *name);
/* Free and total bytes of the file system. */
int disk_space(struct disk *d, int dir, uint64_t *free_bytes, uint64_t *total_bytes);

#endif
