/* Node part: one node's part of a checkpoint: the snapshot of its local ranks, written into the directory that the
 * coordinator has had made (checkpoint/directory.h). A state machine over the disk.
 *
 * Invariants
 *  - The node never makes the directory, renames it or removes it: it opens the one that it is told, once, and all that
 *    it writes goes there, wherever that directory is moved to meanwhile.
 *  - PREPARED is a promise: every byte and every name is fsynced, and from then on the node touches none of it but by
 *    order.
 *  - What this node wrote before (its manifest is there) is compared and never written again.
 *  - What failed is deleted only by order of who had the directory made (node_part_clear): nobody else can know that it
 *    does not become a checkpoint.
 *
 * DATA: files are written while their slots are still being filled, as far as these are. If that is wanted and pays, a
 * file is packed (checkpoint/node_part_compress.c), when all of it is there. A file that is as in the previous checkpoint
 * (checkpoint/previous.h) is linked to it instead. That is known once the digests are there; until then a file that had
 * not changed in the previous checkpoint either stands back, and the others are written.
 *
 * NOTICE: when a file was packed, or a packed one linked, a file is written that makes PyTorch's reader refuse the
 * directory. It does not see packed files, and would leave holes where they are.
 *
 *   ASK → (node_part_write) FIND_JOB → FIND_DIR → OPEN_NODE → PREVIOUS → DATA → DIGESTS → SIDECARS → NOTICE → NODE → SYNC_DIR → PREPARED →
 *   (node_part_end) CLOSE → DONE
 *   OPEN_NODE finds our manifest → READ_NODE → DIGESTS, and if it is what this part would write (an earlier
 *   incarnation of the daemon wrote it) SYNC_DIR → PREPARED, else FAILED
 *   any error, or node_part_abort → (failed) STOPPED → (node_part_clear) WITHDRAW → CLOSE → DONE */
#ifndef CKPTD_CHECKPOINT_NODE_PART_H
#define CKPTD_CHECKPOINT_NODE_PART_H

#include "arena/room.h"
#include "checkpoint/file/compressed_writer.h"
#include "checkpoint/file/file_writer.h"
#include "checkpoint/file/hard_link.h"
#include "checkpoint/part_layout.h"
#include "checkpoint/previous.h"
#include "format/message/peer_coord.h"

enum node_part_state {
	NODE_PART_ASK = 1,
	NODE_PART_FIND_JOB,
	NODE_PART_FIND_DIR,
	NODE_PART_OPEN_NODE,
	NODE_PART_READ_NODE,
	NODE_PART_PREVIOUS,
	NODE_PART_DATA,
	NODE_PART_DIGESTS,
	NODE_PART_SIDECARS,
	NODE_PART_NOTICE,
	NODE_PART_NODE,
	NODE_PART_SYNC_DIR,
	NODE_PART_PREPARED,
	NODE_PART_STOPPED,
	NODE_PART_WITHDRAW,
	NODE_PART_CLOSE_NODE,
	NODE_PART_CLOSE_DIR,
	NODE_PART_CLOSE_PREVIOUS,
	NODE_PART_CLOSE_JOB,
	NODE_PART_DONE,
	NODE_PART_STATE_END
};

enum { NODE_PART_WRITERS = 4 }; /* files in flight */

struct node_part_rank {
	struct memory *mem;
	uint32_t slot;
	bool arriving; /* the slot is still being filled */
	/* while it is: below that, from the slot's start, nothing of it changes any more; see node_part_arrived */
	uint64_t arrived;
	const uint64_t *leaves; /* layout.nleaves, valid once node_part_digests_ready was called */
	/* Set by the part: what of it is written. */
	const struct layout *layout;
	const struct head_block *heads;
};

struct node_part_file {
	struct node_part *commit;
	struct node_part_rank *rank;
	uint32_t file; /* index into the rank's `layout` and `heads` */
	struct wbuf sidecar;
	struct digest digest; /* of the sidecar, once it is encoded */
	bool same;            /* as in the previous checkpoint; told with the digest */
	bool late;            /* expected to be, so that it waits for the digests */
	bool linked;
	uint32_t age;                  /* previous_file.age */
	struct manifest_packed packed; /* what stands there, once it is written or linked */
	struct packer packer;
	struct writer writer;
	struct writer_extent *spans; /* of its data, after the first; filled when it is written */
	uint32_t nspans;
	struct hard_link hard_link;
};

struct node_part {
	/* set by the caller */
	struct disk *disk;
	struct throttle *throttle; /* limits the writing of data files; with bucket, the job's. NULL: no limit */
	struct bucket *bucket;
	struct previous *previous;    /* what files may be linked to, of the same job. NULL: everything is written */
	struct part_layout **layouts; /* kept from save to save; NULL: of this part alone */
	struct packing *packing;      /* data files are packed where that pays. NULL: they are not */
	uint64_t full_every;          /* checkpoints that one file may serve; 1: none but its own */
	int root;
	const char *store; /* where several nodes take part, the path of root, for messages; else NULL */
	char job[NAME_JOB_MAX], node[NAME_NODE_MAX];
	struct step_id id;
	uint32_t world, nranks;
	struct node_part_rank *ranks;              /* owned by the caller, lives until done */
	void (*data_written)(struct node_part *c); /* the slots are no longer read by the disk */
	void (*prepared)(struct node_part *c);     /* what MANIFEST.json will vouch for is fsynced */
	void (*failed)(struct node_part *c);       /* rc and err say why, nothing is in flight; see node_part_clear */
	void (*done)(struct node_part *c);         /* last call; the caller frees with node_part_free */
	void *arg;

	/* to be read */
	enum node_part_state state;
	int rc;                /* first error */
	struct err err;        /* its sentence */
	uint64_t bytes, files; /* of data files */
	uint64_t stored;       /* what they take, of `bytes` that they hold; set when the documents are made */
	uint64_t linked_bytes, linked_files; /* of these: not written, but linked */
	struct peer_part part;               /* from PREPARED on: what MANIFEST.json is to say of this node */
	uint64_t progress_ns; /* when an operation or a whole file last ended (parts of files are bounded) */
	uint64_t waited_ns;   /* with nothing to write, for what was still to arrive in the slots */

	bool already;   /* it was there, and is what this part would have written */
	uint64_t maker; /* of the directory, as in name_work() */

	/* private */
	uint32_t began; /* as in struct node_manifest */
	bool digests_ready, told;
	bool only_compare;  /* a checkpoint is there: nothing is written */
	bool cleared, kept; /* as ordered, perhaps before it has stopped */
	int job_dir, dir, node_file, previous_dir;
	char name[NAME_DIR_MAX], work[NAME_WORK_MAX], previous_name[NAME_DIR_MAX];
	uint32_t nfiles, in_flight, remove_at;
	uint32_t started; /* in DATA: of twice nfiles, the late ones have their turn in the second half */
	struct node_part_file *cfiles;
	struct part_layout *layout; /* NULL: all is written */
	struct wbuf node_text, notice;
	char *found; /* the node manifest that was there already, of found_len bytes */
	uint64_t found_len;
	struct previous_mark *previous_mark; /* while it is read */
	bool previous_usable;
	struct writer writer;
	struct disk_op op;
};

/* Starts, and waits for node_part_write. -ENOMEM: nothing was started and done is not called. */
int node_part_start(struct node_part *c);
/* The directory is there. only_compare: it is a checkpoint. Of what other nodes have, too, it writes its `parts`. */
void node_part_write(struct node_part *c, bool only_compare, uint64_t maker, const struct share_parts *parts);
/* More has arrived: ranks[].arriving and .arrived say what. */
void node_part_arrived(struct node_part *c);
/* There is nothing to write until more arrives. */
bool node_part_waits(const struct node_part *c);
/* The digests of all ranks have been compared and stand in ranks[].leaves. */
void node_part_digests_ready(struct node_part *c);
/* MANIFEST.json stands. Unless the part is prepared nothing happens. */
void node_part_end(struct node_part *c);
/* Gives up: what is in flight is awaited, then `failed` is called. Of a prepared one only by order. */
void node_part_abort(struct node_part *c, int rc, const char *why);
/* What has failed, or is still stopping, is to go: what it wrote is deleted, if it wrote in the directory of this maker
 * (0: of nobody). Then done is called. Of what ends as it is nothing is deleted: done is called as it would have been,
 * and `cleared` says that this was asked. */
void node_part_clear(struct node_part *c, uint64_t maker);
void node_part_free(struct node_part *c);
const char *node_part_state_name(enum node_part_state state);

#endif
