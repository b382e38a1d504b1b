/* Commit: one snapshot of all local ranks becomes one checkpoint on storage. A state machine over the disk.
 *
 * Invariants
 *  - MANIFEST.json appears only when every byte that it vouches for, and every name, has been fsynced.
 *  - It is created exactly once, by link(2) from a temporary name.
 *  - The job's directory and the root are fsynced by every commit: whoever made a directory may have died before it could.
 *  - A failed fsync fails the checkpoint; nothing is retried under the same name.
 *  - What failed is first renamed out of the way and that is fsynced, only then deleted: at no instant can a crash leave a
 *    directory that has a manifest but lacks a file.
 * Fault model: the process or the machine may stop at any instant; what was not fsynced may be lost, torn or reordered,
 * names as well as bytes; any operation may fail.
 *
 * DATA: files are written while they are still being digested, packed where that is wanted and pays (commit_pack.c). One that is as in
 * the parent (parent.h) is linked to it instead. That is known once the digests are there; until then those that had not changed in the
 * parent either stand back, the others are written.
 *
 *   JOB_DIR → OPEN_JOB → MKDIR → OPEN_DIR → PARENT → DATA → DIGESTS → SIDECARS → NODE → SYNC_DIR → SYNC_JOB → SYNC_ROOT → PREPARED →
 *   (commit_seal) MANIFEST → LINK → UNLINK_TMP → SYNC_LINK → CLOSE → DONE
 *   MKDIR says EEXIST → PROBE → PROBE_MANIFEST; there is none: ASIDE_OLD → MKDIR; there is one: READ_MANIFEST → DIGESTS, and if it is what
 *   this commit would write (an earlier life of the daemon wrote it) SYNC_LINK → … → DONE, else FAILED and nothing is touched
 *   LINK says EEXIST, or RENAME ENOENT → PROBE_MANIFEST → READ_MANIFEST, and if it is ours (the answer was lost, as over NFS it may be) as
 *   after success, else FAILED
 *   any error → ASIDE → SYNC_ASIDE → REMOVE → CLOSE → FAILED */
#ifndef CKPTD_COMMIT_H
#define CKPTD_COMMIT_H

#include "coord.h"
#include "linker.h"
#include "memory.h"
#include "packer.h"
#include "parent.h"
#include "writer.h"

enum commit_state {
	COMMIT_JOB_DIR = 1,
	COMMIT_OPEN_JOB,
	COMMIT_MKDIR,
	COMMIT_PROBE,
	COMMIT_PROBE_MANIFEST,
	COMMIT_READ_MANIFEST,
	COMMIT_ASIDE_OLD,
	COMMIT_OPEN_DIR,
	COMMIT_PARENT,
	COMMIT_DATA,
	COMMIT_DIGESTS,
	COMMIT_SIDECARS,
	COMMIT_NODE,
	COMMIT_SYNC_DIR,
	COMMIT_SYNC_JOB,
	COMMIT_SYNC_ROOT,
	COMMIT_PREPARED,
	COMMIT_MANIFEST,
	COMMIT_LINK,
	COMMIT_RENAME, /* instead of LINK where the file system has no hard links */
	COMMIT_UNLINK_TMP,
	COMMIT_SYNC_LINK,
	COMMIT_ASIDE,
	COMMIT_SYNC_ASIDE,
	COMMIT_REMOVE,
	COMMIT_CLOSE_DIR,
	COMMIT_CLOSE_PARENT,
	COMMIT_CLOSE_JOB,
	COMMIT_DONE,
	COMMIT_STATE_END
};

enum { COMMIT_WRITERS = 4 }; /* files in flight */

struct commit_rank {
	struct memory *mem;
	uint32_t slot;
	const uint64_t *leaves; /* layout.nleaves, valid once commit_digests_ready was called */
};

struct commit_file {
	struct commit *commit;
	struct commit_rank *rank;
	uint32_t file; /* index into the rank's layout */
	struct wbuf sidecar;
	struct digest digest; /* of the sidecar, once it is encoded */
	bool same;            /* as in the parent; told with the digest */
	bool late;            /* expected to be, so that it waits for the digests */
	bool linked;
	uint32_t age;                  /* parent_file.age */
	struct manifest_packed packed; /* what stands there, once it is written or linked */
	struct packer packer;
	struct writer writer;
	struct linker linker;
};

struct commit {
	/* set by the caller */
	struct disk *disk;
	struct throttle *throttle; /* limits the writing of data files; with bucket, the job's. NULL: no limit */
	struct bucket *bucket;
	struct parent *parent;   /* what files may be linked to, of the same job. NULL: everything is written */
	struct packing *packing; /* data files are packed where that pays. NULL: they are not */
	uint64_t full_every;     /* checkpoints that one file may serve; 1: none but its own */
	int root;
	char job[NAME_JOB_MAX], node[NAME_NODE_MAX];
	struct step_id id;
	uint32_t world, nranks;
	struct commit_rank *ranks;              /* owned by the caller, lives until done */
	void (*data_written)(struct commit *c); /* the slots are no longer read by the disk */
	void (*prepared)(struct commit *c);     /* what MANIFEST.json will vouch for is fsynced: see commit_seal */
	void (*done)(struct commit *c);         /* last call; the caller frees with commit_free */
	void *arg;

	/* to be read */
	enum commit_state state;
	int rc;                /* first error */
	struct err err;        /* its sentence */
	uint64_t bytes, files; /* of data files */
	uint64_t stored;       /* what they take, of `bytes` that they hold; set when the documents are made */
	uint64_t linked_bytes, linked_files; /* of these: not written, but linked */
	struct peer_part part;               /* from PREPARED on: what MANIFEST.json is to say of this node */
	uint64_t progress_ns; /* when an operation or a whole file last ended (parts of files are bounded) */

	bool already; /* a manifest of this name was there, and is what this commit would have written */

	/* private */
	bool digests_ready, dir_made, aside_tried;
	int doubt; /* what naming the manifest was answered: it may have happened nevertheless. 0: nothing is in doubt */
	int job_dir, dir, manifest, parent_dir;
	char name[NAME_DIR_MAX], aside[NAME_DIR_MAX + 48], parent_name[NAME_DIR_MAX];
	uint32_t nfiles, in_flight, remove_at;
	uint32_t started; /* in DATA: of twice nfiles, the late ones have their turn in the second half */
	struct commit_file *cfiles;
	struct wbuf node_text, manifest_text;
	char *found; /* the manifest that was there already, of found_len bytes */
	uint64_t found_len;
	char *found_node; /* and its node manifest, of found_node_len, where files are packed */
	uint64_t found_node_len;
	struct parent_mark *parent_mark; /* while it is read */
	bool parent_usable;
	struct writer writer;
	struct disk_op op;
	struct list closing; /* handles that are being closed beside the machine */
};

/* Starts. -ENOMEM: nothing was started and done is not called. */
int commit_start(struct commit *c);
/* The digests of all ranks have been compared and stand in ranks[].leaves. */
void commit_digests_ready(struct commit *c);
/* Every node is prepared: MANIFEST.json is written. Unless the commit is prepared nothing happens. */
void commit_seal(struct commit *c, const struct wbuf *manifest);
/* Gives up: what is in flight is awaited, then the directory is removed and done is called with rc. */
void commit_abort(struct commit *c, int rc, const char *why);
void commit_free(struct commit *c);
const char *commit_state_name(enum commit_state state);

#endif
