/* libckpt: fault-tolerant asynchronous checkpoints of sharded training state.
 *
 * Each rank of a training job opens a session with ckptd, the daemon on its node. It registers the
 * tensors that it holds, joins the job, and can then save its state at any step. Training goes on
 * while the state is copied:
 *
 *	ckpt_open → ckpt_register_tensor … → ckpt_join → [ckpt_restore] →
 *	   loop { ckpt_begin(step); forward; backward; ckpt_fence; optimizer } → ckpt_close
 *
 * Errors. A function returns 0, or a number if its comment says so, or a negative errno. Do not
 * look at errno itself. ckpt_error() returns the sentence for the last failure of the calling
 * thread. Codes that most functions can return:
 *
 *	-EINVAL     an argument is wrong: the sentence names it. Also: session or snapshot is NULL
 *	-ESTALE     the epoch is over, a rank was lost or joined: leave the step, join again
 *	-ETIMEDOUT  the deadline passed: the sentence says who is late
 *	-ENOTCONN   the daemon is away, or waits for other ranks of this node to return to it: go on
 *	            training without saves, the library connects again by itself
 *	-ENOMEM     there is not enough memory
 *	-E2BIG      a struct has members that this library does not know: install the newer library
 *	-ECHILD     this process is a child of the one that opened the session (see Fork)
 *
 * Names. What names may look like; others are -EINVAL:
 *
 *	job            1 to 63 letters, digits, "_", "." and "-"; the first is not "." or "-"
 *	replica group  the same, 1 to 47 of them
 *	tensor group   as a replica group, but it does not end in ".part-" and four digits
 *	tensor         1 to 511 bytes of UTF-8 without control characters, but not "__metadata__"
 *	blob           as a tensor; with scope rank 1 to 504 bytes
 *
 * Threads. Several threads may use a session. One thread at a time may register, rebind, join,
 * restore or close. Callbacks run on the one service thread of the library, never on a thread of
 * the caller.
 *
 * Fork. A session belongs to the process that opened it. It may fork, for example for data loaders:
 * the arena is not mapped in the child, and the threads of the library do not run there. In the
 * child, calls return -ECHILD, ckpt_rank, ckpt_world and ckpt_epoch answer as before, and
 * ckpt_beat, the ckpt_collective calls and ckpt_snapshot_free do nothing.
 *
 * Time. Timeouts are in milliseconds. A negative one is the default of the session
 * (CKPT_TIMEOUT_MS, else 120000). 0 does not wait.
 *
 * Structs. Set a struct that begins with `size` with CKPT_INIT(type). Later versions may add
 * members at its end. A program that was built with an older header works with a newer library. */
#ifndef CKPT_H
#define CKPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_VERSION_MAJOR 0
#define CKPT_VERSION_MINOR 1
#define CKPT_VERSION_PATCH 0

/* A struct of this header with its size set and all else zero. */
#ifdef __cplusplus
#define CKPT_INIT(type)                                                                                                \
	([] {                                                                                                          \
		type ckpt_initial = type();                                                                            \
		ckpt_initial.size = sizeof(type);                                                                      \
		return ckpt_initial;                                                                                   \
	}())
#else
#define CKPT_INIT(type) ((type){.size = sizeof(type)})
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Returns the version of the library that is linked, as "0.1.0". */
const char *ckpt_version(void);

/* ---- session --------------------------------------------------------------------------------- */

typedef struct ckpt ckpt;

/* Called on the service thread when the epoch is over: a rank died, hung or joined, and the current
 * step cannot complete. Wake what the training thread may be blocked in (abort a communicator,
 * write to an eventfd) and return at once. Call no function of this library. `reason` is valid
 * during the call. */
typedef void ckpt_epoch_fn(void *arg, uint32_t epoch, const char *reason);

/* Options of a session. A member that is NULL or 0 takes its value from the environment. The first
 * variable that is set and not empty counts:
 *
 *	job          CKPT_JOB, SLURM_JOB_ID ("slurm-<id>"), TORCHELASTIC_RUN_ID ("torch-<id>"), else
 *	             "default"
 *	socket       CKPT_SOCKET, else $XDG_RUNTIME_DIR/ckptd.sock if it exists, else
 *	             /run/ckptd.sock
 *	rank         CKPT_RANK, RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, else 0
 *	world        CKPT_WORLD, WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_STEP_NUM_TASKS,
 *	             else 1
 *	local_world  CKPT_LOCAL_WORLD, LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE,
 *	             MPI_LOCALNRANKS, else the place SLURM_NODEID of SLURM_STEP_TASKS_PER_NODE if
 *	             SLURM_STEP_NUM_TASKS is the world, else the world
 *
 * A variable that is not a number in its range is -EINVAL; the sentence names it. */
typedef struct ckpt_options {
	size_t size;
	const char *job;
	const char *socket;
	int rank;        /* counts only if world > 0 */
	int world;       /* ranks of the job; 0: rank and world come from the environment */
	int local_world; /* ranks of the job on this node, at most 64 */
	/* 1: a change of the state during a capture is caught. On the host, the state is digested
	 * in ckpt_begin and again before the capture completes: one more read on the caller's
	 * thread, and one more on the worker. Also CKPT_STRICT=1. */
	int strict;
	ckpt_epoch_fn *on_epoch;
	void *on_epoch_arg;
	int timeout_ms; /* default of the session's waits; 0: CKPT_TIMEOUT_MS, else 120000 */
	int slots;      /* snapshots in memory per rank, 3 to 8; 0: CKPT_SLOTS, else 3 */
	/* 1: state on a GPU is first copied within the GPU, and from there to the arena. The stream
	 * waits at the fence for the first copy only. It takes as much GPU memory as the state. If
	 * that is not free at ckpt_join, the state is copied to the arena directly. Also
	 * CKPT_STAGING=1. */
	int staging;
	/* 1: compare replicas; -1: do not; 0: CKPT_VOTE (0 or 1), else 1 if a replicated tensor
	 * lives on a GPU. With each save, this rank also digests the replicated tensors that other
	 * ranks capture, and the daemons compare the ranks that do so. A save fails with -EUCLEAN
	 * where replicas differ (ckpt_wait). */
	int vote;
} ckpt_options;

/* Opens a session: connects to the daemon of this node and learns the epoch.
 *
 *	opts  NULL: all comes from the environment
 *	out   receives the session; end it with ckpt_close. NULL after a failure
 *	why   NULL, or why_size bytes for the sentence of a failure
 *
 * Waits up to the session timeout for a daemon that is starting, and for an earlier process of this
 * rank that is ending.
 *
 *	-ENOTCONN         no daemon listens or answers at the socket
 *	-EPROTONOSUPPORT  library and daemon have different protocol versions: both are named
 *	-EBUSY            a living process holds the rank (its pid is named), or all ranks of this
 *	                  node are there. Also: the job still runs with another world size, what it
 *	                  left in memory is in the way, or the daemon has 64 jobs
 *	-EACCES           the daemon belongs to another user
 *	-EOPNOTSUPP       the job has ranks on other nodes, and the daemon is in no cluster
 *	-EINVAL           `out` is NULL, or an option or a variable of the environment is wrong
 *	-EMFILE, -ENFILE  no file descriptor is left */
int ckpt_open(const ckpt_options *opts, ckpt **out, char *why, size_t why_size);

/* Ends the session: the rank has finished, and no recovery starts.
 *
 * Gives up a snapshot that had no fence. Waits up to the session timeout until saves to storage are
 * durable or have failed. Returns the first failure, whose sentence goes to stderr. No failure is:
 *
 * - a save that a later, durable save has superseded (-ECANCELED);
 * - a save that is on storage as one of a later epoch (-EALREADY);
 * - a save of an epoch that this process has left by joining another (-ESTALE, -ECANCELED), unless
 *   this process restored from it last;
 * - a save that persist-every has passed over (-EOPNOTSUPP).
 *
 * The session is freed, except with -ECHILD. Its snapshots may then only be given to
 * ckpt_snapshot_free. `s` may be NULL. Returns the errors of ckpt_wait, and:
 *
 *	-ESTALE     a save failed because others began an epoch that this rank has not joined
 *	-ETIMEDOUT  a save is not durable yet, or a GPU still reads what is registered
 *	-ECHILD     nothing is freed: the session belongs to the parent process */
int ckpt_close(ckpt *s);

/* Returns the sentence for the last failure of the calling thread on this session; "" if none.
 *
 * It is valid until the next call of the thread. A thread keeps the sentences of the 4 sessions on
 * which it has failed last. A call that failed without a session counts for each session that was
 * open then: a NULL session or snapshot, ckpt_range_boxes. `s` may be NULL: the last such
 * failure. */
const char *ckpt_error(const ckpt *s);

/* Returns the rank of this process. It changes only when ckpt_join returns -EREMCHG. */
int ckpt_rank(const ckpt *s);
/* Returns the number of ranks of the job. It changes only when ckpt_join returns -EREMCHG. */
int ckpt_world(const ckpt *s);
/* Returns the epoch that this session has joined; 0 before ckpt_join, and for NULL. */
uint32_t ckpt_epoch(const ckpt *s);
/* Returns a descriptor that is readable while the epoch that this session has joined is over.
 *
 * It says what on_epoch says, to a loop that waits in poll. It becomes readable when on_epoch is
 * called. A ckpt_join that enters the newest epoch makes it unreadable. Only wait for it: do not
 * read, write or close it. The session owns it, and ckpt_close closes it. */
int ckpt_epoch_fd(const ckpt *s);
/* Returns 1 if the daemon has a store, and 0 if it has none: then only CKPT_MEMORY is possible.
 * While the daemon is away, the last answer holds. */
int ckpt_has_storage(const ckpt *s);

/* ---- registration ---------------------------------------------------------------------------- */

/* Element types: those of safetensors, except types below a byte (F4, F6). Register such state as
 * the U8 that it is packed in. */
typedef enum ckpt_dtype {
	CKPT_BOOL = 1,
	CKPT_U8,
	CKPT_I8,
	CKPT_F8_E5M2,
	CKPT_F8_E4M3,
	CKPT_I16,
	CKPT_U16,
	CKPT_F16,
	CKPT_BF16,
	CKPT_I32,
	CKPT_U32,
	CKPT_F32,
	CKPT_C64,
	CKPT_F64,
	CKPT_I64,
	CKPT_U64,
	CKPT_F8_E8M0, /* scales of MX formats */
	CKPT_F8_E4M3FNUZ,
	CKPT_F8_E5M2FNUZ
} ckpt_dtype;

enum { CKPT_NDIM_MAX = 8 };

/* Where memory lives. */
enum { CKPT_HOST = -1 /* else the CUDA device ordinal */ };

/* The part of a tensor that stands at `data`. It has one of three forms:
 *
 *	box         offset and extent are set, ndim entries each
 *	flat range  count elements from start on, of the whole tensor in row-major order
 *	whole       offset, extent, start and count are all zero */
typedef struct ckpt_piece {
	/* First element. Must stay valid at this address until ckpt_close, until ckpt_join returns
	 * -EREMCHG, or as long as ckpt_rebind says. */
	void *data;
	const uint64_t *offset; /* elements, ndim entries; NULL: flat range or whole */
	const uint64_t *extent; /* elements, ndim entries */
	uint64_t start, count;  /* flat range: elements */
	/* Bytes per step of each dimension, ndim entries, in any order and of any sign; NULL:
	 * packed. Not for a flat range. Elements may not share memory. Sort the dimensions by the
	 * size of their steps. Then each step must be at least as long as all that lies within it,
	 * and the innermost at least one element. Elements that interleave without touching are
	 * refused, too. Dimensions of extent 1 do not count. */
	const int64_t *stride;
} ckpt_piece;

/* A box of the whole tensor, ndim entries each. `first`: elements of the range before the box. */
typedef struct ckpt_box {
	uint64_t offset[CKPT_NDIM_MAX], extent[CKPT_NDIM_MAX];
	uint64_t first;
} ckpt_box;

enum { CKPT_BOXES_MAX = 2 * CKPT_NDIM_MAX - 1 };

/* Says where a flat range of a shard stands in the whole tensor, as boxes.
 *
 * For an optimizer that cuts the flat memory of a shard, as ZeRO over a tensor-parallel shard. The
 * range has `count` elements from element `start` on of the box (offset, extent), in row-major
 * order. In the whole tensor that is a flat range only if the box is whole rows. Else it is boxes,
 * CKPT_BOXES_MAX at most.
 *
 *	offset  of the shard, ndim entries; NULL: the shard begins at 0 in each dimension
 *	extent  of the shard, ndim entries
 *	boxes   receives the boxes in the order of the range; room for CKPT_BOXES_MAX
 *
 * Returns the number of boxes, 0 for an empty range. The i-th box as a piece, with elements of
 * `size` bytes:
 *
 *	pieces[i] = { data + boxes[i].first * size, boxes[i].offset, boxes[i].extent }
 *
 * Example: the shard is columns 100 to 109 of 8 rows. 40 elements from 7 on are three boxes:
 *
 *	boxes[0] is [0:1, 107:110], first 0
 *	boxes[1] is [1:4, 100:110], first 3
 *	boxes[2] is [4:5, 100:107], first 33
 *
 * Needs no session: ckpt_error(NULL) has the sentence of a failure.
 *
 *	-EINVAL     ndim is not 0 to 8, or `extent` or `boxes` is NULL
 *	-ERANGE     the range leaves the shard
 *	-EOVERFLOW  the shard has more than 2^64 elements */
int ckpt_range_boxes(int ndim, const uint64_t *offset, const uint64_t *extent, uint64_t start, uint64_t count,
		     ckpt_box *boxes);

/* A tensor of the job, and the pieces of it that this rank holds. */
typedef struct ckpt_tensor {
	size_t size;
	const char *name; /* unique in the job */
	ckpt_dtype dtype;
	int ndim;              /* 0 to 8 */
	const uint64_t *shape; /* of the whole tensor, ndim entries */
	const ckpt_piece *pieces;
	int npieces;       /* disjoint pieces; 0: this rank holds nothing of it */
	const char *group; /* tensor group, one file per rank and group; NULL: "params" */
	/* The name of a replica group: all ranks that register the same pieces under it hold the
	 * same bytes. Kept once per node, written once per job. NULL: only this rank holds these
	 * pieces. */
	const char *replica;
	int device; /* CKPT_HOST or an ordinal */
} ckpt_tensor;

/* Registers a tensor. Call it before ckpt_join.
 *
 * The library copies the struct and all that it points to, except what `data` points to.
 *
 *	-EEXIST     the name is taken
 *	-ERANGE     a piece leaves the shape
 *	-EOVERFLOW  the shape is too large: the number of elements times 16 must fit 63 bits
 *	-E2BIG      the rank has 1048576 tensors and blobs, and no more are possible
 *	-EBUSY      ckpt_join has ended registration
 *	-ENODEV     a device is named, and this build of the library has no CUDA. Whether the device
 *	            is there is found out by ckpt_join */
int ckpt_register_tensor(ckpt *s, const ckpt_tensor *t);

typedef enum ckpt_scope { CKPT_SCOPE_JOB = 1, CKPT_SCOPE_RANK } ckpt_scope;

/* Registers bytes of host memory: a step counter, RNG state, the position in the data.
 *
 *	scope  CKPT_SCOPE_JOB: all ranks register it and hold the same. CKPT_SCOPE_RANK: one for
 *	       each rank. If the world grows, the restore leaves that of a new rank as it is
 *	data   must stay valid as that of a piece
 *	bytes  1 or more; the size is fixed
 *
 *	-EEXIST     the name is taken
 *	-EOVERFLOW  too many bytes
 *	-E2BIG      the rank has 1048576 tensors and blobs, and no more are possible
 *	-EBUSY      ckpt_join has ended registration */
int ckpt_register_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes);
/* Registers bytes in the memory of a device (CKPT_HOST or an ordinal). Returns the errors of
 * ckpt_register_blob, and:
 *
 *	-ENODEV  a device is named, and this build of the library has no CUDA */
int ckpt_register_device_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes, int device);

/* Registers a blob whose size changes from save to save: serialized state, a loader's queue.
 *
 * The library has its memory. ckpt_set_blob puts something in, and ckpt_get_blob gets it out, also
 * what a restore brought. Until then it is empty.
 *
 *	most  bytes that it may have, 1 or more. Each save takes room for as many
 *
 * A restore may register another `most` than the save. What was saved must fit, else ckpt_restore
 * returns -EINVAL with both sizes.
 *
 *	-EEXIST     the name is taken
 *	-EOVERFLOW  too many bytes
 *	-E2BIG      the rank has 1048576 tensors and blobs, and no more are possible
 *	-EBUSY      ckpt_join has ended registration */
int ckpt_register_sized_blob(ckpt *s, const char *name, ckpt_scope scope, size_t most);
/* Puts bytes into a blob of changing size, in place of what is there. Call it before ckpt_begin.
 *
 *	name  that it was registered with
 *
 *	-ENOENT  nothing is registered under the name
 *	-ENOSPC  more bytes than were registered: both sizes are named
 *	-EBUSY   a save was begun, and reads it until its fence */
int ckpt_set_blob(ckpt *s, const char *name, const void *data, size_t bytes);
/* Gets the bytes of a blob of changing size. Returns how many there are.
 *
 *	data  room for `room` bytes; NULL: only the size is asked for
 *
 *	-ENOENT   nothing is registered under the name
 *	-ENOSPC   `room` is too small: both sizes are named
 *	-EBADMSG  its length is damaged */
int64_t ckpt_get_blob(ckpt *s, const char *name, void *data, size_t room);

/* Gives a registered piece another address, from the next ckpt_begin or ckpt_restore on.
 *
 * For state that is allocated anew. Shape, strides and device stay as they are registered.
 *
 *	name   of the tensor or blob. If a tensor and a blob of this rank have the same name, it is
 *	       the tensor. The blob is the name, "@" and the rank in five digits
 *	piece  its index in ckpt_tensor.pieces; 0 for a blob
 *	data   the first element
 *
 * A save that was begun before still reads the former address. Leave that memory as it is until
 * the fence of that save has returned. If the save had no fence, leave it until the next fence, a
 * ckpt_join or ckpt_close has returned. On a GPU ckpt_join does not wait: from then on the default
 * stream does.
 *
 * If a piece has moved since a slot was last used, ckpt_begin plans its copy to that slot anew.
 * That takes time in proportion to the number of pieces that have moved. It takes time in
 * proportion to all pieces on a GPU, and if pieces have moved more than 8,192 times.
 *
 *	-ENOENT  nothing is registered under the name
 *	-ERANGE  there is no such piece */
int ckpt_rebind(ckpt *s, const char *name, int piece, void *data);

/* ---- membership ------------------------------------------------------------------------------ */

enum { CKPT_ADDRESS_MAX = 256 };

/* The job in an epoch. Owned by the session, valid until the next ckpt_join. */
typedef struct ckpt_view {
	size_t size;
	uint32_t epoch;
	int rank, world;
	int joined_before; /* 1: this process was in an earlier epoch; its state is garbage: restore */
	/* What each rank gave as its address: addresses + r * CKPT_ADDRESS_MAX, address_len[r]
	 * bytes. */
	const uint8_t *addresses;
	const uint32_t *address_len;
} ckpt_view;

/* Waits until each rank of the job is here, and enters the current epoch.
 *
 * The first call whose own table is in order ends registration. Call it again after -ESTALE, or
 * after on_epoch was called.
 *
 * The tables of ranks on one node are compared here. Between nodes, the dtypes and shapes of
 * tensors and the blobs of the job are. The first save to storage in an epoch compares the pieces
 * of all nodes, and fails with -EINVAL if they contradict each other.
 *
 *	address  handed to all ranks: a listening address, an ncclUniqueId; NULL if len is 0
 *	len      bytes of the address, at most CKPT_ADDRESS_MAX
 *	view     receives the view of the epoch, which the session owns; may be NULL
 *
 * After -EREMCHG this process has another place: ckpt_rank() of ckpt_world(). Nothing is registered
 * any more, nothing reads what was, and its snapshots are forgotten; free their handles. Register
 * the pieces of the new place, join again, then restore.
 *
 *	-EINVAL     the tables of ranks contradict each other in dtype, shape, replicas or blobs of
 *	            the job: both sides are named. Also: a rank is on two nodes, or the table is not
 *	            the one that other ranks of the node still use
 *	-EEXIST     pieces of a tensor overlap: both are named. Also: a GPU that hangs may still
 *	            write to the place where the arena was mapped, so that it cannot be pinned there
 *	-ENODATA    no rank holds a part of a tensor: the part is named
 *	-EOVERFLOW  a rank holds more than 2^60 bytes
 *	-ENOMEM     the arenas do not fit a limit of the daemon: the sentence has the arithmetic
 *	-E2BIG      more than 256 replica groups to compare (ckpt_options.vote), state on more than
 *	            8 devices, or too many arenas pinned by this process. Also: a table with too
 *	            many or too interleaved pieces. This rank does not join, and the others wait
 *	-ENODEV     a device that is registered is not there
 *	-EAGAIN     what the job left in memory when it ended last is still checked or written: call
 *	            again in a moment
 *	-EREMCHG    the job goes on with another world (ckpt run --min-ranks): see above
 *	-ETIMEDOUT  not all ranks came: the late ones are named. Also: a GPU still reads what was
 *	            registered before the world changed; the next call waits on */
int ckpt_join(ckpt *s, const void *address, size_t len, const ckpt_view **view, int timeout_ms);

/* ---- save ------------------------------------------------------------------------------------ */

/* A save that was begun. */
typedef struct ckpt_snapshot ckpt_snapshot;

typedef enum ckpt_target {
	CKPT_MEMORY = 1, /* kept in the memory of nodes only */
	CKPT_STORAGE,    /* also written to storage and committed */
} ckpt_target;

enum {
	CKPT_DUE_MEMORY = 1,  /* a save is due */
	CKPT_DUE_STORAGE = 2, /* and it is to go to storage; never without CKPT_DUE_MEMORY */
};

/* Says whether a save is due at a step, where the daemon has measured how often that should be.
 *
 * For jobs whose daemon has `interval = auto` in [job]. The intervals follow from Daly's formula
 * for memory and for storage: from what a save costs this job, and from the time between failures
 * (docs/howto/plan-saves.md). Every rank asks at each step, then begins a save of what is due:
 *
 *	due = ckpt_due(s, step);
 *	if (due > 0)
 *		ckpt_begin(s, step, due & CKPT_DUE_STORAGE ? CKPT_STORAGE : CKPT_MEMORY, …)
 *
 *	step  below 10^12. Steps count as in ckpt_begin, and are asked for in order
 *
 * Returns 0, CKPT_DUE_MEMORY, or CKPT_DUE_MEMORY | CKPT_DUE_STORAGE. All ranks that get an answer
 * for a step of an epoch get the same one. An interval changes only at a step that no rank has
 * asked for yet. Step 0 is never due.
 *
 * It costs some loads from shared memory, and no message. The first call in an epoch waits for one
 * answer of the job's coordinator. So does a rank that asks before the next steps are decided, for
 * at most 5 s, or the session timeout if that is shorter. After an error no save is due: training
 * goes on without it.
 *
 *	-EOPNOTSUPP  interval is not auto, or the daemon is older than this call: decide by step
 *	-ETIMEDOUT   nothing is decided yet. Later calls do not wait until there is an answer
 *	-ERANGE      the step is so far back that its answer is not kept any more
 *	-EINVAL      the step is not below 10^12; or ckpt_join was not called yet */
int ckpt_due(ckpt *s, uint64_t step);

/* Starts to capture the state of a step, and returns at once.
 *
 * All ranks call it for the same steps. Do not change registered memory before ckpt_fence.
 *
 *	step    below 10^12
 *	stream  a cudaStream_t: the state is captured as it is at this point of the stream. State on
 *	        another GPU is captured behind this stream and the default stream of its own GPU.
 *	        NULL: state on the host, or the default stream of each GPU that holds state
 *	out     receives the snapshot; free it with ckpt_snapshot_free. NULL after a failure
 *
 * After an error the state may change, as after ckpt_fence: nothing of this call reads it.
 *
 * After -EBUSY the step is given up on all ranks, so that no rank holds a slot for it. Training
 * goes on without this save. If a save must not be left out, call ckpt_wait_slot first.
 *
 * A slow disk alone does not cause -EBUSY: a save that only waits for the disk gives way when a
 * newer one is complete and no slot is left. It ends with -ECANCELED, and the newest is written in
 * its place.
 *
 *	-EBUSY     all slots hold saves that are still being captured or written: they are named
 *	-EALREADY  this step was saved in this epoch
 *	-EINVAL    CKPT_STORAGE, and the daemon has no store (ckpt_has_storage); or ckpt_join was
 *	           not called yet; or the stream records a CUDA graph, which stays valid
 *	-EPERM     a restore failed half-way: the state is undefined until a restore succeeds */
int ckpt_begin(ckpt *s, uint64_t step, ckpt_target target, void *stream, ckpt_snapshot **out);

/* Waits until this rank has a free slot, so that the next ckpt_begin is not -EBUSY.
 *
 * For a save that must not be left out, such as the last one. Call it after the fence of the save
 * before.
 *
 *	-ETIMEDOUT  no slot became free: the saves in the slots are named */
int ckpt_wait_slot(ckpt *s, int timeout_ms);

/* Waits until the state may change: call it just before the state changes.
 *
 * State on a device: the stream waits until the capture is complete, and so does the default stream
 * of each other GPU that holds state. The thread does not wait. State on the host: the thread
 * waits, up to the session timeout.
 *
 * After it, nothing reads the registered memory of this rank any more. This is true after an error,
 * too, except for -ETIMEDOUT and -EINVAL. On a device it is true for all that is put on the stream
 * from now on. A snapshot without a fence before the next ckpt_begin is given up.
 *
 * If the world of the job is about to change (a node is drained or has come back), the thread waits
 * on a device, too. When the next epoch begins it returns -ESTALE: the job goes on from this
 * snapshot, and no finished step is computed again. It waits for at most 30 s, or the session
 * timeout if that is shorter, and not for a daemon that is away. Then it returns as usual.
 *
 *	-EIO        the capture failed
 *	-EBADMSG    strict: the state was changed during the capture; the tensor is named
 *	-ECANCELED  the snapshot was given up before its fence
 *	-EINVAL     the stream records a CUDA graph: call it again outside of the recording
 *	-ETIMEDOUT  the state is still being copied: call it again before you change the state */
int ckpt_fence(ckpt_snapshot *snap, void *stream);

/* Waits until one tensor group may change: call it just before this group changes.
 *
 * For an optimizer that updates group by group while other groups are still captured. Call
 * ckpt_fence as well, before the last group changes. State on the host is waited for as a whole.
 * Returns the errors of ckpt_fence, and:
 *
 *	-EINVAL  no tensor is registered in the group */
int ckpt_fence_group(ckpt_snapshot *snap, const char *group, void *stream);

typedef enum ckpt_level {
	CKPT_PENDING = 0,
	CKPT_CAPTURED,   /* each rank's copy is complete in memory and matches its digests */
	CKPT_REPLICATED, /* and other nodes hold it as well */
	CKPT_DURABLE,    /* committed on storage */
	CKPT_VERIFIED,   /* read back from storage and matched */
} ckpt_level;

/* Returns the level (0 or more) that is true for all ranks, or the error that ended the snapshot.
 *
 * It does not block. The sentence of a failure comes from the daemon a moment later: until then
 * ckpt_error names the code only. ckpt_wait waits for the sentence. The errors are those of
 * ckpt_wait. */
int ckpt_poll(ckpt_snapshot *snap);

/* Waits until the snapshot has reached a level, or has failed.
 *
 *	-EIO         it could not be captured or written
 *	-ENOSPC      no room is left on storage
 *	-EBADMSG     the copy is torn or damaged
 *	-EUCLEAN     replicas differ (ckpt_options.vote): the tensor is named, and by majority the
 *	             ranks. The state of some rank is wrong: restore what was saved before
 *	-ECANCELED   a later save took its place, or it had no fence, or it was lost with a daemon.
 *	             Or what became of it is no longer kept: that of 32 later saves is
 *	-EALREADY    it is on storage: the daemons saved it again as one of a later epoch
 *	-ESTALE      the epoch is over. A save that was complete on all ranks goes on: after
 *	             ckpt_join wait for it again
 *	-EOPNOTSUPP  it stays in memory: persist-every passed it over
 *	-EBUSY       it stays in memory: save-policy refused it
 *	-EINVAL      it cannot reach this level: durable with CKPT_MEMORY, replicated without peers,
 *	             verified if the daemon does not read back. Also: the tables of ranks on
 *	             several nodes contradict each other (ckpt_join)
 *	-ETIMEDOUT   it has not reached the level: the sentence says who is late */
int ckpt_wait(ckpt_snapshot *snap, ckpt_level level, int timeout_ms);
/* Returns the step of a snapshot; UINT64_MAX for NULL. */
uint64_t ckpt_snapshot_step(const ckpt_snapshot *snap);
/* Frees the handle. The save goes on, unless it had no fence yet: then it is given up. `snap` may
 * be NULL. */
void ckpt_snapshot_free(ckpt_snapshot *snap);

/* ---- restore --------------------------------------------------------------------------------- */

typedef enum ckpt_source { CKPT_FROM_MEMORY = 1, CKPT_FROM_PEER, CKPT_FROM_STORAGE } ckpt_source;

/* What was restored. */
typedef struct ckpt_restored {
	size_t size;
	uint64_t step;
	uint32_t epoch;       /* in which it was saved */
	ckpt_source source;   /* the slowest source that any piece came from */
	uint64_t bytes;       /* into the memory of this rank */
	uint64_t fetch_ns,    /* until all nodes had all of it, verified */
		load_ns;      /* then, until the rest was in the memory of this rank */
	char why[256];        /* which newer or better sources were passed over, and why; or "" */
	uint64_t early_bytes; /* of bytes: loaded within fetch_ns, while the rest was brought */
} ckpt_restored;

#define CKPT_LATEST UINT64_MAX
#define CKPT_LATEST_HEALTHY (UINT64_MAX - 1)

/* Fills the registered memory with a checkpoint.
 *
 * All ranks call it with the same step, after ckpt_join and before the first ckpt_begin of the
 * epoch. The checkpoint may have any world size and partition. When it returns, all memory is
 * filled.
 *
 *	step    a step, CKPT_LATEST or CKPT_LATEST_HEALTHY
 *	stream  as in ckpt_begin; all GPUs wait for it
 *	out     receives what was restored, with its size set; may be NULL
 *
 * CKPT_LATEST is the newest step for which all pieces have a verified copy. It is taken from the
 * memory of the own node, else from copies on other nodes, else from storage. Marks do not matter.
 * CKPT_LATEST_HEALTHY is the newest such step that is marked healthy.
 *
 * To go back to an older step for good, restore it and save at once under the same step. That save
 * is of a later epoch, and so the newest. Without it, CKPT_LATEST is what it was before.
 *
 * After -ENOENT and -ENODATA the memory is untouched, and after -EINVAL that of each rank that has
 * registered something wrong. After any other error the state may be undefined: then saves are
 * refused (-EPERM) until a restore succeeds.
 *
 *	-ENOENT           the job has no checkpoint: not in memory, not as copies, not on storage.
 *	                  This code alone means a fresh start
 *	-ENODATA          the job has checkpoints, but none of that step, or none marked healthy
 *	-EINVAL           the checkpoint lacks a tensor or blob, or has it with another dtype, shape
 *	                  or size: both sides are named. Or the newest one is in the memory of
 *	                  several nodes only, and does not fit these ranks there. Also: a save was
 *	                  begun in this epoch, join again first
 *	-EPROTONOSUPPORT  a later version of ckpt wrote the newest checkpoint: both versions are
 *	                  named. Name an older step to restore that instead
 *	-EBADMSG          no intact copy is left
 *	-EIO              storage cannot be read, or nodes that may hold copies are not there */
int ckpt_restore(ckpt *s, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms);
/* Says how far a restore is, in which another thread waits. Returns the bytes that are in their
 * place.
 *
 *	total  receives all bytes that this rank gets; 0: not known yet; may be NULL
 *
 * Any thread may call it, at any time. When ckpt_restore has returned, the numbers stay until the
 * next restore. They begin anew if a step or a source is passed over, so they may become less. */
int64_t ckpt_restore_progress(ckpt *s, uint64_t *total);

/* ---- marks ----------------------------------------------------------------------------------- */

typedef enum ckpt_health { CKPT_HEALTHY = 1, CKPT_UNHEALTHY } ckpt_health;

/* Marks a checkpoint healthy or unhealthy: whether training should go on from it.
 *
 *	step    of the checkpoint
 *	epoch   in which it was saved; 0: the one that this process has joined
 *	health  CKPT_HEALTHY: good steps were made from it. CKPT_UNHEALTHY: training went wrong
 *	reason  at most 255 bytes; may be NULL
 *
 * Returns when the daemon has noted the mark. The daemon writes it beside the checkpoint when that
 * is on storage; from then on it holds for each later process of the job. Until then it stands in
 * the arenas of the node's ranks, which keep the last 32 marks and outlive a restart of the daemon.
 *
 * Any rank may mark a checkpoint again: the last mark counts. If the job has several nodes, mark on
 * all ranks: in memory, a checkpoint is healthy only on nodes that were told. CKPT_LATEST ignores
 * marks. Retention keeps the newest healthy checkpoint.
 *
 *	-EINVAL    there can be no such step or epoch
 *	-ENOTCONN  the daemon is away; it is not waited for */
int ckpt_mark(ckpt *s, uint64_t step, uint32_t epoch, ckpt_health health, const char *reason, int timeout_ms);

/* ---- liveness -------------------------------------------------------------------------------- */

typedef enum ckpt_phase {
	CKPT_PHASE_IDLE = 0,
	CKPT_PHASE_FORWARD,
	CKPT_PHASE_BACKWARD,
	CKPT_PHASE_OPTIMIZER,
	CKPT_PHASE_COLLECTIVE,
	CKPT_PHASE_SAVE,
	CKPT_PHASE_RESTORE,
	CKPT_PHASE_DATA,
} ckpt_phase;

/* Tells the daemon that the training loop is alive, and where it is.
 *
 * It costs a few stores to shared memory: call it as often as you like. Steps count as in
 * ckpt_begin. The first step after the restored one ends a recovery.
 *
 * If no beat comes for the hang timeout of the daemon, the rank is reported as hung. The thread
 * that gave the last beat counts as alive while it waits in a call of this library. Work in a call
 * does not count as a wait: loading state (ckpt_restore), preparing memory (the first ckpt_join),
 * digesting before a capture (strict, on the host).
 *
 * Does nothing before ckpt_join. `s` may be NULL. */
void ckpt_beat(ckpt *s, uint64_t step, ckpt_phase phase);
/* The same, and hands over the loss of a step: call it once for each step whose loss is known.
 *
 * The daemon finds a loss that is no number, a spike, and a lasting rise. It tells what it finds,
 * and halts the job, or takes it back to an earlier checkpoint, if its setting loss-policy says
 * so.
 *
 *	step           whose loss it is
 *	loss           of this rank's batch, or the mean of all ranks. NaN and infinity say that
 *	               training went wrong
 *	gradient_norm  of all gradients, before they are clipped; negative: not known */
void ckpt_beat_loss(ckpt *s, uint64_t step, ckpt_phase phase, double loss, double gradient_norm);
/* Notes in the flight record that this rank enters a collective: its name (kept up to 15 bytes, may
 * be NULL), its sequence number in the communicator, its bytes. Like ckpt_beat, it does nothing
 * before ckpt_join, and `s` may be NULL. */
void ckpt_collective_enter(ckpt *s, const char *op, uint64_t seq, uint64_t bytes);
/* The same, with the type of the elements: then a rank that enters with another type than the
 * others is named, although name, number and bytes are the same. dtype 0: not known. */
void ckpt_collective_enter_typed(ckpt *s, const char *op, ckpt_dtype dtype, uint64_t seq, uint64_t bytes);
/* Notes in the flight record that this rank leaves a collective. The time in between tells who
 * waits for whom: call it when the collective is over, not when it was only begun. `s` may be
 * NULL. */
void ckpt_collective_leave(ckpt *s);
/* Returns 1 when the operator has asked the job to end (SIGTERM to ckpt run, ckpt halt).
 *
 * Then make a last save and leave the loop. Ranks may see it at different steps: agree by a
 * collective first. `s` may be NULL. */
int ckpt_should_stop(const ckpt *s);
/* Returns 1 when the operator wants this rank to play a fault (ckpt fault), and takes it: it is
 * asked for once.
 *
 * For programs under test, such as ckpt-train. Call it once per step. A program that never calls it
 * is never asked to play anything else than what signals do.
 *
 *	name  receives the kind, as `ckpt fault list` has it: "absent", "nan", "slow", …
 *	size  bytes of name; 24 are enough
 *	ms    receives the time that belongs to it; 0: none
 *
 * Returns 0 when there is none, or before ckpt_join. `s` may be NULL. */
int ckpt_fault(ckpt *s, char *name, size_t size, uint64_t *ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
