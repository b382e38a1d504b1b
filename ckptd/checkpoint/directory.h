/* Directory: the directory in which the nodes of a job write one checkpoint. The coordinator's daemon alone makes it and
 * gives it the name of the checkpoint; nodes open it and write their files (checkpoint/node_part.h). A state machine over
 * the disk.
 *
 * Invariants
 *  - Until it is a checkpoint it has a name that no reader looks at, and that no other coordinator uses (name_work).
 *    Rename(2) gives it the checkpoint's, which moves it over nothing that has a file in it: this makes it a checkpoint,
 *    once.
 *  - That is asked for only when every byte that MANIFEST.json vouches for, MANIFEST.json itself, and every name in the
 *    directory has been fsynced. That every node's manifest is in this very directory, as it was reported, is looked at
 *    before.
 *  - Nothing here renames or removes what has the name of a checkpoint, or a file of it, and once that name was asked for
 *    nothing of the directory is deleted. So what a coordinator asked of the disk may happen at any time later, when
 *    another one has made that checkpoint.
 *  - The job's directory and the root are fsynced by every commit: whoever made a directory may have died before it could.
 *  - Nothing is made, and nothing gets its name, where the path of the store leads to no repository any more.
 *  - A failed fsync fails the checkpoint; nothing is retried under the same name.
 * Fault model: the process or the machine may stop at any instant. What was not fsynced may be lost, torn or reordered,
 * names as well as bytes. Any operation may fail, and may happen late.
 *
 *   JOB_DIR → OPEN_JOB → PROBE → MKDIR → OPEN_DIR → (made: nodes write) SYNC_ROOT → READY →
 *   (directory_seal) LOOK → MANIFEST → SYNC_MANIFEST → NAME → SYNC_NAME → (sealed) CLOSE → DONE
 *   PROBE finds the checkpoint → PROBE_MANIFEST → READ_MANIFEST → (made: nodes compare) SYNC_ROOT → READY,
 *   and if it is what is to be written (an earlier incarnation of the daemon wrote it)
 *   LOOK → SYNC_MANIFEST → SYNC_NAME → … → DONE, else nothing is touched
 *   MKDIR says EEXIST: an earlier incarnation of the daemon left it there → ASIDE → MKDIR
 *   NAME says ENOENT or EEXIST → PROBE → PROBE_MANIFEST → READ_MANIFEST, and if it is ours (the answer was lost, as over NFS it may be)
 *   as after success, else FAILED
 *   directory_abandon → what is in flight is awaited → CLOSE → DONE: another daemon has taken the job over
 *   any error, or directory_drop → (failed) LEFT (left: nodes delete what they wrote) →
 *   (directory_remove) DISARM → REMOVE → CLOSE → DONE */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_H
#define CKPTD_CHECKPOINT_DIRECTORY_H

#include "checkpoint/file/file_writer.h"
#include "format/files/manifest.h"

enum directory_state {
	DIRECTORY_JOB_DIR = 1,
	DIRECTORY_OPEN_JOB,
	DIRECTORY_PROBE,
	DIRECTORY_PROBE_MANIFEST,
	DIRECTORY_READ_MANIFEST,
	DIRECTORY_MKDIR,
	DIRECTORY_ASIDE,
	DIRECTORY_OPEN_DIR,
	DIRECTORY_SYNC_ROOT,
	DIRECTORY_READY,
	DIRECTORY_LOOK,
	DIRECTORY_MANIFEST,
	DIRECTORY_SYNC_MANIFEST,
	DIRECTORY_NAME,
	DIRECTORY_SYNC_NAME,
	DIRECTORY_LEFT,
	DIRECTORY_DISARM,
	DIRECTORY_REMOVE,
	DIRECTORY_CLOSE_DIR,
	DIRECTORY_CLOSE_JOB,
	DIRECTORY_DONE,
	DIRECTORY_STATE_END
};

enum { DIRECTORY_LOOKS = 8 }; /* node manifests that are read at a time */

struct directory_look;
struct directory_compare;
struct directory_look_at_place;
struct pool;
struct repo_place;

struct directory {
	/* set by the caller */
	struct disk *disk;
	int root;
	char job[NAME_JOB_MAX];
	struct step_id id;
	uint64_t maker;    /* as in name_work() */
	struct pool *pool; /* on which node manifests are compared, and the place is looked at; NULL: they are not */
	bool compares;     /* node manifests */
	const char *store; /* the path of root */
	struct repo_place *place; /* of root, looked at before anything is made and before the name; NULL: it is not */
	bool (*stands)(
		const struct directory
			*s); /* asked before each step: false has the same effect as directory_abandon; NULL: always */
	void (*made)(struct directory *s);   /* nodes may open it */
	void (*sealed)(struct directory *s); /* it is a checkpoint, fsynced */
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
	struct directory_look_at_place *placing; /* a worker looks at the place now */

	/* private */
	bool dir_made, aside_tried;
	bool naming; /* the name was asked for: whether or not that was answered, it may be a checkpoint at any time later */
	int doubt; /* what this was answered: it may have happened nevertheless. 0: nothing is in doubt */
	int job_dir, dir, manifest;
	char name[NAME_DIR_MAX], work[NAME_WORK_MAX], aside[NAME_WORK_MAX + 48];
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
/* Gives up: what is in flight is awaited. No effect once it is a checkpoint, or it has failed. */
void directory_drop(struct directory *s, int rc, const char *why);
/* Lets it stand as it is, and touches nothing any more: of the callbacks only `done` comes. */
void directory_abandon(struct directory *s);
/* After `left`: no node has a file in it any more, or none will come to delete it. */
void directory_remove(struct directory *s);
void directory_free(struct directory *s); /* NULL is allowed */
const char *directory_state_name(enum directory_state state);

#endif
