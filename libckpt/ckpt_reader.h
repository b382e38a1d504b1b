/* libckptreader: reads checkpoints out of a store.
 *
 * It needs no daemon, no session and no rank of the job. It reads what ckptd has written to
 * storage, and checks each byte against its digest before it says that it is there:
 *
 *	ckpt_reader_open → ckpt_reader_find, ckpt_reader_tensor_at … → ckpt_reader_read … →
 *	   ckpt_reader_close
 *
 * Errors. A function returns 0, or a number if its comment says so, or a negative errno. One that
 * returns a pointer returns NULL. ckpt_reader_error() returns the sentence for the last failure of
 * the calling thread. Codes that most functions can return:
 *
 *	-EINVAL     an argument is wrong: the sentence names it. Also: the reader is NULL
 *	-ENOMEM     there is not enough memory
 *	-E2BIG      a struct has members that this library does not know: install the newer library
 *	-ECHILD     this process is a child of the one that opened the reader: open another one
 *	-EIO        storage cannot be read; other codes of the system stand for themselves
 *
 * Threads. Several threads may use a reader. One at a time may close it, when the others are done.
 * Callbacks run on the calling thread.
 *
 * Structs. Set a struct that begins with `size` with CKPT_INIT(type), as those of ckpt.h. A struct
 * that the library owns has its size set: members beyond it are not there. */
#ifndef CKPT_READER_H
#define CKPT_READER_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Returns the sentence for the last failure of the calling thread; "" if none. It is valid until
 * the next call of the thread. */
const char *ckpt_reader_error(void);
/* Returns the version of the library that is linked, as "0.1.0". */
const char *ckpt_reader_version(void);

/* ---- which checkpoints there are ------------------------------------------------------------- */

/* The checkpoints of a store, as they were when the list was made. */
typedef struct ckpt_reader_list ckpt_reader_list;

typedef enum ckpt_reader_state {
	CKPT_READER_COMMITTED = 1, /* complete; nobody has read it back yet */
	CKPT_READER_VERIFIED,      /* read back, and all digests matched */
	CKPT_READER_DAMAGED,       /* a read found damage, or its manifest does not hold */
	CKPT_READER_UNREADABLE,    /* its manifest cannot be read now */
} ckpt_reader_state;

/* One checkpoint. Members from `world` on are 0 if the manifest cannot be read. */
typedef struct ckpt_reader_checkpoint {
	size_t size;
	const char *job;
	const char *name; /* of its directory: which one ckpt_reader_open is to open */
	uint64_t step;
	uint32_t epoch;
	ckpt_reader_state state;
	ckpt_health health;    /* what the training said (ckpt_mark); 0: nothing */
	int pinned;            /* 1: it is not removed */
	uint64_t committed_ns; /* since 1970 */
	int world, nodes;
	uint64_t bytes, stored; /* of tensors and blobs; on storage */
} ckpt_reader_checkpoint;

/* Lists the checkpoints of a store.
 *
 *	store  its directory; NULL: CKPT_REPO
 *	job    NULL: all jobs
 *	out    receives the list; free it with ckpt_reader_list_free. NULL after a failure
 *
 * They are ordered by job, then by epoch and step: the newest of a job is its last. A directory
 * without a manifest is no checkpoint.
 *
 *	-ENOENT           there is no such directory, or it is no store
 *	-EPROTONOSUPPORT  a later version of ckpt made the store */
int ckpt_reader_list_make(const char *store, const char *job, ckpt_reader_list **out);
/* Returns the number of checkpoints; 0 for NULL. */
size_t ckpt_reader_list_count(const ckpt_reader_list *list);
/* Returns one of them; NULL if there is none of this index. The list owns it. */
const ckpt_reader_checkpoint *ckpt_reader_list_at(const ckpt_reader_list *list, size_t index);
/* Frees the list. `list` may be NULL. */
void ckpt_reader_list_free(ckpt_reader_list *list);

/* ---- one checkpoint -------------------------------------------------------------------------- */

/* A checkpoint that is open for reading. */
typedef struct ckpt_reader ckpt_reader;

/* Which checkpoint is meant, and how it is read. */
typedef struct ckpt_reader_options {
	size_t size;
	const char *store; /* directory; NULL: CKPT_REPO */
	const char *job;   /* NULL: CKPT_JOB, else the only job of the store */
	/* NULL or "latest"; "healthy": the newest one that is marked so, without known damage;
	 * "1000": the newest epoch of that step; "1000.e0003"; the name of its directory; a tag */
	const char *which;
	int threads;     /* that check what was read; 0: one for each processor, at most 8 */
	uint64_t memory; /* bytes for reading, at most; 0: as much as is fastest */
	/* Called several times a second during a read; not 0: the read ends with -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
} ckpt_reader_options;

/* Opens a checkpoint.
 *
 *	opts  NULL: all comes from the environment
 *	out   receives the reader; end it with ckpt_reader_close. NULL after a failure
 *
 * Reads the manifests, which have digests, and no data. "latest" is the newest one that is
 * complete: whether its data are intact is found out when they are read.
 *
 *	-ENOENT           no such store, job, checkpoint or tag
 *	-ENODATA          "latest" or "healthy", and the job has none
 *	-EBADMSG          a manifest or a tag is damaged
 *	-EPROTONOSUPPORT  a later version of ckpt wrote it
 *	-ENOTUNIQ         no job was named, and the store has several: they are named */
int ckpt_reader_open(const ckpt_reader_options *opts, ckpt_reader **out);
/* Ends the reader, and all that it owns. `r` may be NULL. */
void ckpt_reader_close(ckpt_reader *r);

/* Returns what the list says of this checkpoint. The reader owns it. */
const ckpt_reader_checkpoint *ckpt_reader_info(const ckpt_reader *r);
/* Returns the directory of the checkpoint. The reader owns it. */
const char *ckpt_reader_path(const ckpt_reader *r);

/* ---- what is in it --------------------------------------------------------------------------- */

/* A tensor or blob. A blob is a tensor of CKPT_U8 with one dimension. */
typedef struct ckpt_reader_tensor {
	size_t size;
	const char *name;  /* that of a blob of a rank ends in "@" and the rank in five digits */
	ckpt_scope scope;  /* of a blob; 0: a tensor */
	int rank;          /* of a blob of a rank; else -1 */
	const char *group; /* tensor group; NULL: no piece was saved */
	ckpt_dtype dtype;
	int ndim;
	const uint64_t *shape; /* ndim entries */
	int element;           /* bytes of an element */
	uint64_t bytes;        /* of the whole */
	int npieces;
	/* 1: a blob of changing size (ckpt_register_sized_blob). "bytes" is what it takes;
	 * ckpt_reader_blob reads what is in it. */
	int sized;
} ckpt_reader_tensor;

/* Returns the number of tensors and blobs; 0 for NULL. */
size_t ckpt_reader_count(const ckpt_reader *r);
/* Returns one of them, by its place in the order of names; NULL if there is none. The reader owns
 * it. */
const ckpt_reader_tensor *ckpt_reader_tensor_at(const ckpt_reader *r, size_t index);
/* Returns the one of this name; NULL if there is none. The reader owns it. */
const ckpt_reader_tensor *ckpt_reader_find(const ckpt_reader *r, const char *name);

/* A piece of a tensor as a rank saved it: a box, or (count > 0) a flat range in row-major order. */
typedef struct ckpt_reader_piece {
	size_t size;
	uint64_t offset[CKPT_NDIM_MAX], extent[CKPT_NDIM_MAX]; /* elements */
	uint64_t start, count;                                 /* elements */
	int rank;                                              /* that wrote it */
	const char *file;                                      /* in ckpt_reader_path. The reader owns it */
	uint64_t at; /* where its bytes begin in the file. They stand there packed */
	uint64_t bytes;
	int compressed; /* 1: the file is compressed, and "at" is a place in what it holds */
} ckpt_reader_piece;

/* Describes a piece, for example to map its file. What is read so is not checked.
 *
 *	tensor  of this reader
 *	index   0 to npieces - 1
 *	out     receives it, with its size set
 *
 *	-ERANGE  there is no such piece */
int ckpt_reader_piece_at(const ckpt_reader *r, const ckpt_reader_tensor *tensor, int index, ckpt_reader_piece *out);

/* ---- reading --------------------------------------------------------------------------------- */

/* A box of a tensor, and where it goes. */
typedef struct ckpt_reader_box {
	size_t size;
	const char *name;
	const uint64_t *offset, *extent; /* elements, ndim entries; both NULL: the whole tensor */
	void *data;                      /* where the first element goes */
	/* Bytes per step of each dimension in memory, ndim entries, in any order and of any sign;
	 * NULL: packed. */
	const int64_t *stride;
} ckpt_reader_box;

/* Reads boxes into memory, and checks what it reads.
 *
 *	boxes  n of them, all of the same size; they may overlap in the tensor, but not in memory
 *
 * The cut does not matter: pieces of all ranks are put together, and each is read once. So it is
 * much faster to read many boxes in one call. A box that is not packed goes through 64 MiB of
 * memory. When it returns 0, everything is there and has matched its digest. After an error the
 * memory is undefined.
 *
 *	-ENOENT     there is no such tensor. Also: the checkpoint was removed meanwhile
 *	-ERANGE     a box leaves its tensor: both are named
 *	-EBADMSG    damage: file, tensor and bytes are named
 *	-ECANCELED  `progress` asked for it */
int ckpt_reader_read(ckpt_reader *r, const ckpt_reader_box *boxes, size_t n);

/* Reads what is in a blob, of fixed or changing size, and checks it. Returns how many bytes it has.
 *
 *	name  as in the list: that of a blob of a rank ends in "@" and the rank in five digits
 *	data  room for `room` bytes; NULL: only the size is asked for
 *
 *	-ENOENT   there is no such blob. Also: the checkpoint was removed meanwhile
 *	-ENOSPC   `room` is too small: both sizes are named
 *	-EBADMSG  damage */
int64_t ckpt_reader_blob(ckpt_reader *r, const char *name, void *data, size_t room);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
