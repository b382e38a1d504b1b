/* Directory: the directory in which the nodes of a job write one checkpoint. The coordinator's daemon alone makes it, gives it MANIFEST.json or
 * moves it out of the way; nodes open it and write their files (checkpoint/node_part.h). A state machine over the disk.
 *
 * Invariants
 *  - MANIFEST.json appears only when every byte that it vouches for, and every name, has been fsynced: by each node in the directory, by
 *    the directory above it. That every node's manifest is in this very directory, as it was reported, is looked at before.
 *  - It is created exactly once, by link(2) from a temporary name.
 *  - The job's directory and the root are fsynced by every commit: whoever made a directory may have died before it could.
 *  - A failed fsync fails the checkpoint; nothing is retried under the same name.
 *  - What failed is first renamed out of the way and that is fsynced, only then deleted: at no instant can a crash leave a
 *    directory that has a manifest but lacks a file.
 * Fault model: the process or the machine may stop at any instant; what was not fsynced may be lost, torn or reordered,
 * names as well as bytes; any operation may fail.
 *
 *   JOB_DIR → OPEN_JOB → MKDIR → OPEN_DIR → (made: nodes write) SYNC_JOB → SYNC_ROOT → READY →
 *   (directory_seal) LOOK → MANIFEST → LINK → UNLINK_TMP → SYNC_LINK → (sealed) CLOSE → DONE
 *   MKDIR says EEXIST → PROBE → PROBE_MANIFEST; there is none: ASIDE_OLD → MKDIR; there is one: READ_MANIFEST → (made: nodes compare) →
 *   READY, and if it is what is to be written (an earlier life of the daemon wrote it) LOOK → SYNC_LINK → … → DONE, else nothing is touched
 *   LINK says EEXIST, or RENAME ENOENT → PROBE_MANIFEST → READ_MANIFEST, and if it is ours (the answer was lost, as over NFS it may be) as
 *   after success, else FAILED
 *   directory_abandon → what is in flight is awaited → CLOSE → DONE: another daemon has taken the job over, and what stands is its business
 *   any error, or directory_drop → (failed) ASIDE → SYNC_ASIDE → DISARM → LEFT (left: nodes delete what they wrote) → (directory_remove) REMOVE →
 *   CLOSE → DONE */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_H
#define CKPTD_CHECKPOINT_DIRECTORY_H

#include "checkpoint/file/file_writer.h"
#include "format/files/manifest.h"

enum directory_state {
	DIRECTORY_JOB_DIR = 1,
	DIRECTORY_OPEN_JOB,
	DIRECTORY_MKDIR,
	DIRECTORY_PROBE,
	DIRECTORY_PROBE_MANIFEST,
	DIRECTORY_READ_MANIFEST,
	DIRECTORY_ASIDE_OLD,
	DIRECTORY_OPEN_DIR,
	DIRECTORY_SYNC_JOB,
	DIRECTORY_SYNC_ROOT,
	DIRECTORY_READY,
	DIRECTORY_LOOK,
	DIRECTORY_MANIFEST,
	DIRECTORY_LINK,
	DIRECTORY_RENAME, /* instead of LINK where the file system has no hard links */
	DIRECTORY_UNLINK_TMP,
	DIRECTORY_SYNC_LINK,
	DIRECTORY_ASIDE,
	DIRECTORY_SYNC_ASIDE,
	DIRECTORY_DISARM,
	DIRECTORY_LEFT,
	DIRECTORY_REMOVE,
	DIRECTORY_CLOSE_DIR,
	DIRECTORY_CLOSE_JOB,
	DIRECTORY_DONE,
	DIRECTORY_STATE_END
};

enum { DIRECTORY_LOOKS = 8 }; /* node manifests that are read at a time */

struct directory_look;
struct directory_compare;
struct pool;

struct directory {
	/* set by the caller */
	struct disk *disk;
	int root;
	char job[NAME_JOB_MAX];
	struct step_id id;
	struct pool *pool; /* on which node manifests are compared; NULL: they are not */
	const char *store; /* then, the path of root */
	bool (*stands)(
		const struct directory
			*s); /* asked before each step: false has the same effect as directory_abandon; NULL: always */
	void (*made)(struct directory *s);   /* nodes may open it */
	void (*sealed)(struct directory *s); /* MANIFEST.json stands, fsynced */
	void (*failed)(struct directory *s); /* rc and err say why; it will not come to be */
	void (*left)(
		struct directory *
			s); /* then, unless `kept`, nodes delete what they wrote; whoever does, calls directory_remove */
	void (*done)(struct directory *s); /* last call; the caller frees with directory_free */
	void *arg;

	/* to be read */
	enum directory_state state;
	int rc;                              /* first error */
	struct err err;                      /* its sentence */
	uint64_t progress_ns;                /* when an operation last ended */
	bool found;                          /* a manifest of this name was there: nodes compare and write nothing */
	bool kept;                           /* nothing of it may be deleted */
	bool abandoned;                      /* nobody is told any more but `done` */
	bool compared;                       /* the node manifests fit together */
	struct directory_compare *comparing; /* a worker reads them now */

	/* private */
	bool dir_made, aside_tried;
	unsigned disarmed;
	int doubt; /* what naming the manifest was answered: it may have happened nevertheless. 0: nothing is in doubt */
	int job_dir, dir, manifest;
	char name[NAME_DIR_MAX], aside[NAME_DIR_MAX + 48];
	struct wbuf text; /* of MANIFEST.json */
	struct manifest expected;
	char *there; /* the manifest that was there already, of there_len bytes */
	uint64_t there_len;
	struct directory_look *looks; /* DIRECTORY_LOOKS */
	uint32_t looked, looking;
	uint64_t look_bytes;
	struct writer writer;
	struct disk_op op;
	struct list closing; /* handles that are being closed beside the machine */
};

void directory_start(struct directory *s);
/* Every node is prepared, and this is what MANIFEST.json is to say. */
void directory_seal(struct directory *s, const struct wbuf *manifest);
/* Gives up: what is in flight is awaited, then it is moved out of the way. No effect once MANIFEST.json stands, or it has failed. */
void directory_drop(struct directory *s, int rc, const char *why);
/* Lets it stand as it is, and touches nothing any more: of the callbacks only `done` comes. */
void directory_abandon(struct directory *s);
/* After `left`: no node has a file in it any more, or none will come to delete it. */
void directory_remove(struct directory *s);
void directory_free(struct directory *s); /* NULL is allowed */
const char *directory_state_name(enum directory_state state);

#endif
