/* libckpt: fault-tolerant asynchronous checkpoints of sharded training state.
 *
 * A training process (one per rank) opens a session with the node's daemon (ckptd), registers the tensors that it holds,
 * joins the job, and from then on captures its state at any step without stalling:
 *
 *	ckpt_open → ckpt_register_tensor … → ckpt_join → [ckpt_restore] →
 *	   loop { forward; backward; ckpt_fence(previous); optimiser; ckpt_begin(step) } → ckpt_close
 *
 * Errors. Every function returns 0 (or a count where said) or -errno and never touches errno. ckpt_error() gives the
 * sentence that goes with the last failure of the calling thread on this session. Codes that every function may return:
 *	-EINVAL     an argument is wrong (named in the sentence), also: the session or the snapshot is NULL
 *	-ESTALE     the job's epoch moved on: a rank was lost or joined; nothing was done: leave the step, ckpt_join again
 *	-ETIMEDOUT  the deadline passed; the sentence names who is late
 *	-ENOTCONN   the daemon cannot be reached, or came back and waits for other ranks of this node; saves are refused until all
 *	            are there, training may go on
 *	-ENOMEM
 *	-ECHILD     this process is a child of the one that opened the session (see Fork)
 * Names. A job: 1 to 63 letters, digits, "_", "." and "-", none of the last two at its beginning. A tensor group and a replica group: the same,
 * up to 47 of them; a tensor group does not end in ".part-" and four digits. A tensor: 1 to 511 bytes of UTF-8 without control characters,
 * but "__metadata__". A blob: as a tensor; of scope rank up to 505 bytes.
 * Threads. A session may be used from several threads, except that registration, join, restore and close are called by
 * one thread at a time. Callbacks run on the library's one service thread, never on a caller's.
 * Fork. A session belongs to the process that opened it: in a child every call returns -ECHILD and the arena is not mapped
 * (data loader workers may fork freely). Threads of the library do not exist in the child.
 * Time. Timeouts are in milliseconds; a negative one means the session's default (CKPT_TIMEOUT_MS, else 120000); 0 polls.
 * Structs that begin with `size` are set by CKPT_INIT(type): fields may be added at their end in later versions; a
 * caller built against an older header goes on working, and unknown non-zero fields are refused with -E2BIG. */
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

/* A struct of the API with its size set and everything else zero. */
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

/* "0.1.0" of the library that is linked. */
const char *ckpt_version(void);

/* ---- session ------------------------------------------------------------------------------------------------- */

typedef struct ckpt ckpt;

/* Called on the service thread when the job's epoch moves on (a rank died, hung, joined): from this moment the current
 * step cannot complete. It must only wake what the training thread may be blocked in (abort a communicator, write an
 * eventfd) and return at once. `reason` is valid during the call. No call of this library is allowed inside. */
typedef void ckpt_epoch_fn(void *arg, uint32_t epoch, const char *reason);

/* What a session is opened with. NULL or zero fields take their value from the environment; the first that is set wins:
 *	job          CKPT_JOB, SLURM_JOB_ID ("slurm-<id>"), TORCHELASTIC_RUN_ID ("torch-<id>"), else "default"
 *	socket       CKPT_SOCKET, else $XDG_RUNTIME_DIR/ckptd.sock if that is there, else /run/ckptd.sock
 *	rank         CKPT_RANK, RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, else 0
 *	world        CKPT_WORLD, WORLD_SIZE, SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE, else 1
 *	local_world  CKPT_LOCAL_WORLD, LOCAL_WORLD_SIZE, SLURM_NTASKS_PER_NODE, OMPI_COMM_WORLD_LOCAL_SIZE, else world
 * A variable that is set but is not a number in range is -EINVAL and named. */
typedef struct ckpt_options {
	size_t size;
	const char *job;
	const char *socket;
	int rank;        /* used when world > 0 */
	int world;       /* number of ranks of the job; 0: from the environment */
	int local_world; /* ranks of the job on this node; 0: from the environment */
	/* 1: digest all state inside begin and again before the capture completes: a mutation during the capture is always
	 * caught. Costs one read of the state in begin, on the caller's thread, and one more on the worker. Also CKPT_STRICT=1 */
	int strict;
	ckpt_epoch_fn *on_epoch;
	void *on_epoch_arg;
	int timeout_ms; /* default of the session's waits; 0: CKPT_TIMEOUT_MS, else 120000 */
	int slots;      /* snapshots in memory per rank, 3 to 8; 0: CKPT_SLOTS, else 3 */
	/* 1: state on a GPU is first copied within the GPU, if it has as much memory to spare at ckpt_join, and from there to the
	 * arena: the stream waits at the fence for the first copy alone. Also CKPT_STAGING=1 */
	int staging;
	/* 1: with each save this rank digests all that it holds of replicated tensors, and not only what it captures of them, and the
	 * daemons compare the ranks that do: a save fails with -EUCLEAN where replicas differ (see ckpt_wait). Costs one more read of
	 * what others capture, at the time of the capture. -1: it does not. 0: as CKPT_VOTE says, 1 or 0; where that is not set it
	 * does if any of these tensors lives on a GPU */
	int vote;
} ckpt_options;

/* Opens a session: connects, agrees on the protocol version, is told the epoch. Waits up to the timeout for a daemon that
 * is starting and for a dead predecessor of this rank to be gone. opts may be NULL. On success *out is owned by the caller
 * (ckpt_close). -ENOTCONN no daemon; -EPROTONOSUPPORT versions differ (both named); -EBUSY the rank is held by a living
 * process (its pid named); -EACCES the daemon belongs to another user. On failure *out is NULL and, when `why` is not
 * NULL, the sentence is written there (at most why_size bytes with the NUL). -EINVAL also: `out` is NULL, or a variable of the environment is
 * wrong. -EMFILE, -ENFILE: no file descriptor is left. */
int ckpt_open(const ckpt_options *opts, ckpt **out, char *why, size_t why_size);

/* Ends the session cleanly: the daemon knows that this rank has finished and no recovery is started. Gives up an unfenced
 * snapshot, waits (session timeout) until saves to storage that are still under way are durable or failed, and returns the first
 * failure (its sentence goes to stderr). No failure is what gave way: to a later save that is durable (-ECANCELED), or to an epoch that this
 * process has joined since (-ESTALE, -ECANCELED), unless it is what was restored last; nor what persist-every passes over. -ESTALE therefore means an epoch that the others are in and this
 * process is not; -ETIMEDOUT also that a GPU still reads what is registered. Memory is freed in any case but -ECHILD. Snapshots may be freed
 * later, nothing else may be done with them. s may be NULL. */
int ckpt_close(ckpt *s);

/* The sentence for the calling thread's last failure on this session; "" if none. Valid until the thread's next call. A call whose session or
 * snapshot was NULL failed on every session that was open then. s may be NULL: the last such failure. */
const char *ckpt_error(const ckpt *s);

/* They change when ckpt_join says -EREMCHG, and only then. -EINVAL for NULL. */
int ckpt_rank(const ckpt *s);
int ckpt_world(const ckpt *s);
/* The epoch that this session has joined; 0 before ckpt_join, and for NULL. */
uint32_t ckpt_epoch(const ckpt *s);
/* 1: the daemon that was greeted last has a store; 0: it has none, only CKPT_MEMORY is possible; -ECHILD. */
int ckpt_has_storage(const ckpt *s);

/* ---- registration -------------------------------------------------------------------------------------------- */

/* The types of safetensors but those below a byte (F4, F6): register those as the U8 that they are packed in. */
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

/* One piece of a tensor: the part of the global tensor that stands at `data`. A box (offset and extent, ndim entries) or,
 * with offset NULL, a flat range of the row-major whole (start, count), or, with all of them zero, the whole tensor. */
typedef struct ckpt_piece {
	void *data; /* first element; must stay valid and at this address until ckpt_close, or until ckpt_join says -EREMCHG */
	const uint64_t *offset; /* elements, ndim entries; NULL: flat range or whole */
	const uint64_t *extent; /* elements, ndim entries */
	uint64_t start, count;  /* flat range: elements */
	/* Box in strided memory: bytes per step of each dimension, ndim entries, in any order and of any sign; NULL: packed. With the dimensions
	 * sorted by the size of their steps, each step is at least as long as all that lies within it, the innermost at least one element: no
	 * two elements share memory. A layout whose elements interleave without touching is refused, too. Dimensions of extent 1 do not count. */
	const int64_t *stride;
} ckpt_piece;

/* A box of the whole tensor, ndim entries each; `first`: how many elements of the range stand before it. */
typedef struct ckpt_box {
	uint64_t offset[CKPT_NDIM_MAX], extent[CKPT_NDIM_MAX];
	uint64_t first;
} ckpt_box;

enum { CKPT_BOXES_MAX = 2 * CKPT_NDIM_MAX - 1 };

/* Where a flat range of a shard stands in the whole tensor. An optimizer that cuts the flat memory of a shard (ZeRO over a tensor-parallel
 * shard) holds `count` elements from element `start` on of the box (offset, extent) in row-major order: in the whole that is no flat range, unless
 * the box is whole rows, but up to 2 * ndim - 1 boxes. offset NULL: the box begins at 0 in each dimension. Returns how many boxes it has put into
 * boxes[CKPT_BOXES_MAX], in the order of the range, 0 for an empty one. The i-th as a piece, of elements of `size` bytes:
 *	pieces[i] = { data + boxes[i].first * size, boxes[i].offset, boxes[i].extent }
 * Of columns 100 to 109 of 8 rows, 40 elements from 7 on are [0:1, 107:110], [1:4, 100:110] and [4:5, 100:107]; first is 0, 3 and 33.
 * Needs no session; ckpt_error(NULL) has the sentence. -EINVAL ndim is not 0 to 8, or a pointer is NULL; -ERANGE the range leaves the box;
 * -EOVERFLOW the box has more than 2^64 elements. */
int ckpt_range_boxes(int ndim, const uint64_t *offset, const uint64_t *extent, uint64_t start, uint64_t count,
		     ckpt_box *boxes);

typedef struct ckpt_tensor {
	size_t size;
	const char *name; /* unique in the job; see Names */
	ckpt_dtype dtype;
	int ndim;              /* 0 to 8 */
	const uint64_t *shape; /* global, ndim entries */
	const ckpt_piece *pieces;
	int npieces;       /* disjoint; 0 is allowed: this rank holds nothing of it */
	const char *group; /* tensor group, one file per rank and group; NULL: "params" */
	/* NULL: nobody else holds these pieces. Else the name of a replica group: all ranks that register the same pieces
	 * under it hold the same bytes; kept once per node, written once per job */
	const char *replica;
	int device; /* CKPT_HOST or an ordinal */
} ckpt_tensor;

/* Adds a tensor to the session's table, before ckpt_join. Everything is copied except what `data` points to.
 * -EEXIST the name is taken; -ERANGE a piece leaves the shape; -EOVERFLOW the shape is too large (with 16 bytes per element it must fit 63 bits);
 * -E2BIG more tensors and blobs than a rank can have; -EBUSY already joined; -ENODEV a device, and this build of the library has no CUDA (whether
 * that device is there is found out by ckpt_join). */
int ckpt_register_tensor(ckpt *s, const ckpt_tensor *t);

typedef enum ckpt_scope { CKPT_SCOPE_JOB = 1, CKPT_SCOPE_RANK } ckpt_scope;

/* Adds `bytes` bytes of host memory (step counters, RNG state, loader position). Scope job: the same on every rank, and every rank registers it
 * (else ckpt_join says -EINVAL). Scope rank: one per rank; after a restore at another world size a rank beyond the saved world keeps what it has.
 * The size is fixed, 1 or more. data must stay valid as that of a piece. -EEXIST the name is taken; -EOVERFLOW too many bytes; -E2BIG as
 * ckpt_register_tensor; -EBUSY already joined. */
int ckpt_register_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes);
/* The same in the memory of a device (CKPT_HOST or an ordinal). -ENODEV as ckpt_register_tensor. */
int ckpt_register_device_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes, int device);

/* ---- membership ---------------------------------------------------------------------------------------------- */

enum { CKPT_ADDRESS_MAX = 256 };

/* How the job looks in an epoch. Owned by the session, valid until the next ckpt_join. */
typedef struct ckpt_view {
	size_t size;
	uint32_t epoch;
	int rank, world;
	int joined_before; /* 1: this process took part in an earlier epoch (its registered memory is garbage: restore) */
	/* What each rank gave as its address, by rank: addresses + r * CKPT_ADDRESS_MAX, address_len[r] bytes. */
	const uint8_t *addresses;
	const uint32_t *address_len;
} ckpt_view;

/* Ends registration (first call), waits until every rank of the job is here, and enters the current epoch. `address` (at most
 * CKPT_ADDRESS_MAX bytes, may be NULL) is handed to all ranks: a listening address, an ncclUniqueId. *view may be NULL.
 * -EINVAL, -EEXIST, -ENODATA: the ranks' tables contradict each other (dtype, shape, overlap, hole), both sides named;
 * -EEXIST also: a GPU that hangs may yet touch memory where the arena was mapped, so that it cannot be pinned there.
 * -ENOMEM: the arenas do not fit the daemon's ceiling, with the arithmetic. -E2BIG: more than 256 replica groups, and replicas are to be
 * compared (ckpt_options.vote); or state on more devices than a rank can have, or more arenas pinned than a process can. This rank then
 * does not join, and the others wait for it. -ENODEV: a device that is registered is not there. -EAGAIN: what is left of the job's last world is
 * still being put away: call again in a moment. Called again after -ESTALE or on_epoch.
 * -EREMCHG: the job goes on with another world (ranks were lost for good, or came back: ckpt run --min-ranks), and this process has another
 * place in it, ckpt_rank() of ckpt_world(). Nothing is registered any more, no call reads what was, and its snapshots are forgotten (their
 * handles are still to be freed): register the pieces of the new place, join again, then restore. Where a GPU still reads what is registered, that
 * is waited for first; -ETIMEDOUT then says that it does so yet, and the next call waits on. */
int ckpt_join(ckpt *s, const void *address, size_t len, const ckpt_view **view, int timeout_ms);

/* ---- save ---------------------------------------------------------------------------------------------------- */

/* A save that was begun. A NULL handle (of a begin that failed) is -EINVAL for ckpt_fence, ckpt_fence_group, ckpt_poll and ckpt_wait, and
 * nothing for ckpt_snapshot_free. */
typedef struct ckpt_snapshot ckpt_snapshot;

typedef enum ckpt_target {
	CKPT_MEMORY = 1, /* kept in the node's memory only */
	CKPT_STORAGE,    /* also written to storage and committed */
} ckpt_target;

/* Starts capturing the state of `step` (below 10^12) as it is at this point of `stream` (a cudaStream_t; NULL on the host, and for the default
 * stream of each GPU that holds state) and returns at once. State on another GPU than that of `stream` is captured behind what is on `stream` and on
 * the default stream of its own GPU. All ranks call it for the same steps. The registered memory must not be changed before
 * ckpt_fence(). *out is owned by the caller: ckpt_snapshot_free.
 * -EINVAL: CKPT_STORAGE, and the daemon has no store (ckpt_has_storage);
 * -EBUSY: every slot is in use by saves that are still being captured or written (named); nothing was started, the training goes
 * on without this save, which is given up on all ranks at once: none of them is to hold a slot for it. Who cannot do without it waits for
 * a slot first (ckpt_wait_slot). A slow disk does not lead there: with three slots one save is being written, one is the newest in memory, one is
 * free to be captured into. A save to storage that waits for the disk therefore gives way (-ECANCELED, superseded) when a newer
 * one, also one to memory, is complete and no slot is left; the newest is then written in its place. With CKPT_SLOTS=4 it waits for its
 * turn; -EALREADY: this step was saved in this epoch; -EPERM: a restore failed half-way, the state is undefined. */
int ckpt_begin(ckpt *s, uint64_t step, ckpt_target target, void *stream, ckpt_snapshot **out);

/* Waits until this rank has a free slot: the next ckpt_begin is not -EBUSY. For a save that must not be left out, as the last one; the
 * save before it is to have had its fence. 0; -ETIMEDOUT, with the saves that are in the slots; else as ckpt_begin. timeout_ms: as in
 * ckpt_wait. */
int ckpt_wait_slot(ckpt *s, int timeout_ms);

/* Called just before the state is changed: on a device the stream (not the thread) waits until the capture is complete, and so does the default
 * stream of every other GPU that holds state; on the host the thread waits, bounded by the session timeout. A snapshot whose fence was not called before the next begin is
 * never promoted. When it returns, also with an error, nothing reads the registered memory of this rank any more (on a device: nothing
 * that is put on the stream from now on is overtaken). Where the job's world is about to change (a node is to be let go, or has come back) the
 * thread waits, also on a device, until the next epoch begins, and is told -ESTALE: the job goes on from this very snapshot, and no finished
 * step is computed again. It waits no longer than 30 s, nor than the session timeout, and not for a daemon that is not there; then it
 * returns as ever. -EIO: the capture failed; -EBADMSG (strict): the state was changed during the capture, tensor named. */
int ckpt_fence(ckpt_snapshot *snap, void *stream);

/* The same for one tensor group (of ckpt_tensor.group), for optimisers that update group by group: behind it this group may be changed
 * while others are still being captured. ckpt_fence must still be called, before the last group is changed. State on the host is waited for
 * as a whole. -EINVAL: no tensor is registered in that group; else as ckpt_fence. */
int ckpt_fence_group(ckpt_snapshot *snap, const char *group, void *stream);

typedef enum ckpt_level {
	CKPT_PENDING = 0,
	CKPT_CAPTURED,   /* every rank's copy is complete in memory and its digests match */
	CKPT_REPLICATED, /* and held by peer nodes as well */
	CKPT_DURABLE,    /* committed on storage */
	CKPT_VERIFIED,   /* read back from storage and matched */
} ckpt_level;

/* The level that is true for every rank now (>= 0), or the error that ended the snapshot. Never blocks: the daemon's sentence on a failure that
 * is not a moment old may be on its way, and is the name of the error alone; ckpt_wait waits for it. */
int ckpt_poll(ckpt_snapshot *snap);
/* Waits until the snapshot has reached the level. 0, the error that ended it (-EIO, -ENOSPC, -EBADMSG torn or damaged,
 * -EUCLEAN: what ranks hold alike differs (ckpt_options.vote; the sentence names tensor and, by majority, ranks): the state is wrong on
 * some rank, so go back to what was saved before; -ECANCELED superseded (also by a later one that is copied to other nodes in its place), never fenced or lost with a daemon, -EALREADY it is on storage, saved anew by the daemons in a later epoch, -ESTALE poisoned by a new epoch; at once, of a captured one that the
 * operator's policies keep in memory: -EOPNOTSUPP passed over by persist-every, -EBUSY refused by save-policy), or -ETIMEDOUT with who
 * is late. While a new epoch waits for this rank it is -ESTALE, too: a save that was complete on every rank when the epoch began goes
 * on, and after ckpt_join it can be waited for again. -EINVAL for a level that this snapshot cannot reach (durable with CKPT_MEMORY;
 * replicated where no peers are configured; verified, once it is durable, where the daemon does not read back). */
int ckpt_wait(ckpt_snapshot *snap, ckpt_level level, int timeout_ms);
/* UINT64_MAX for NULL. */
uint64_t ckpt_snapshot_step(const ckpt_snapshot *snap);
/* Forgets the handle; the snapshot goes its way. An unfenced snapshot is given up. snap may be NULL. */
void ckpt_snapshot_free(ckpt_snapshot *snap);

/* ---- restore ------------------------------------------------------------------------------------------------- */

typedef enum ckpt_source { CKPT_FROM_MEMORY = 1, CKPT_FROM_PEER, CKPT_FROM_STORAGE } ckpt_source;

typedef struct ckpt_restored {
	size_t size;
	uint64_t step;
	uint32_t epoch;     /* in which it was saved */
	ckpt_source source; /* the lowest rung that any piece came from */
	uint64_t bytes;     /* into this rank's memory */
	uint64_t fetch_ns,
		load_ns; /* until all nodes had all of it, verified; then, until the rest was in this rank's memory */
	char why[256];   /* which newer or better sources were passed over and why; "" if none */
	uint64_t early_bytes; /* of bytes: those that were loaded within fetch_ns, while others were still brought */
} ckpt_restored;

#define CKPT_LATEST UINT64_MAX
#define CKPT_LATEST_HEALTHY (UINT64_MAX - 1)

/* Fills the registered memory with a checkpoint: `step`, or CKPT_LATEST, the newest for which every piece has a verified copy
 * (own memory, then copies on other nodes, then storage, then older), whatever ckpt_mark said of it, or CKPT_LATEST_HEALTHY, the newest
 * such that was marked healthy. All ranks call it with the same argument after ckpt_join. Any saved world size and
 * partition. Restoring an older step by name changes nothing in the store: it becomes a rollback with the first save after it, which
 * stands in a later epoch and so is newer than all that was abandoned. Until then CKPT_LATEST, also after a crash, is what it was
 * before; to make a rollback last, save at once, under the step that was restored. *out may be NULL; its size must be set. stream: as in ckpt_begin, all GPUs wait for it; on return all memory is filled.
 * -ENOENT: the job has no checkpoint, neither in memory nor as copies nor on storage. This alone is a fresh start.
 * -ENODATA: the job has checkpoints, but not what was asked for: none of that step, or none that was marked healthy.
 * -EINVAL: the checkpoint lacks a tensor (or a part of one) or has another dtype or shape, or a blob of another size (both sides named):
 * nothing was touched; also once a save was begun in this epoch: ckpt_join again first, so that no step is saved twice in an epoch.
 * -EPROTONOSUPPORT: a later version of ckpt has written it (both versions named); nothing older is taken in its place unless it is asked for
 * by its step.
 * -EBADMSG: no intact copy is left; -EIO: storage cannot be read, or nodes that may hold copies are not there.
 * What is there and verified is loaded while the rest is brought: after any error but -ENOENT and -ENODATA
 * the state may be undefined (after -EINVAL only where other ranks than this one have registered something wrong); then saves are refused
 * (-EPERM) until a restore succeeds. */
int ckpt_restore(ckpt *s, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms);

/* ---- marks --------------------------------------------------------------------------------------------------- */

typedef enum ckpt_health { CKPT_HEALTHY = 1, CKPT_UNHEALTHY } ckpt_health;

/* Says what the training has found out about the state in the checkpoint of `step` and `epoch` (0: the one that was joined), that the bytes
 * cannot tell: good steps were made from it, or what came of it is not a number. `reason`: at most 255 bytes, may be NULL. Changes nothing
 * for CKPT_LATEST; retention keeps the newest healthy one. Returns when the daemon has taken it, which writes it beside the checkpoint as
 * soon as that is on storage: from then on it holds for every later process of the job, and until then as long as the memory of the node's
 * ranks, which outlives a daemon that is restarted; that holds the last 32. May be said again, by any rank and by all of them; the last word
 * counts. Of a job
 * on several nodes say it on all ranks: what is in memory only counts as healthy on the nodes that were told.
 * -EINVAL: no such step or epoch can be; -ENOTCONN at once where no daemon is there; -ETIMEDOUT. */
int ckpt_mark(ckpt *s, uint64_t step, uint32_t epoch, ckpt_health health, const char *reason, int timeout_ms);

/* ---- liveness ------------------------------------------------------------------------------------------------ */

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

/* Heartbeat: the training loop is alive, at this step and phase. A few stores to shared memory; call it as often as you
 * like. Steps count as in ckpt_begin: with the first one that is later than what was restored a recovery is over. When none
 * arrives for the daemon's hang timeout, the rank is reported as hung. While the thread that gave the last one waits in a call of this library it
 * counts as alive: those have deadlines of their own. What a call does itself is no wait: copying the state back (ckpt_restore), making memory
 * ready for it (the first ckpt_join), digesting it before a capture (strict, on the host). */
void ckpt_beat(ckpt *s, uint64_t step, ckpt_phase phase);
/* Flight record: entering (bytes, sequence number of the communicator) and leaving a collective. op is kept up to 15 bytes, may be NULL. These
 * three calls do nothing without a session that has joined (s may be NULL). */
void ckpt_collective_enter(ckpt *s, const char *op, uint64_t seq, uint64_t bytes);
void ckpt_collective_leave(ckpt *s);
/* 1 when the operator asked the job to end (SIGTERM to ckpt run): take a last checkpoint and leave the loop. Ranks may see it at
 * different steps: agree by a collective before acting on it. */
int ckpt_should_stop(const ckpt *s);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
