/* Site: the directory in which the nodes of a job write one checkpoint. The coordinator's daemon alone makes it, gives it MANIFEST.json or
 * moves it out of the way; nodes open it and write their files (checkpoint/node_part.h). A state machine over the disk.
 *
 * Invariants
 *  - MANIFEST.json appears only when every byte that it vouches for, and every name, has been fsynced: by each node in the directory, by
 *    the site above it. That every node's manifest is in this very directory, as it was reported, is looked at before.
 *  - It is created exactly once, by link(2) from a temporary name.
 *  - The job's directory and the root are fsynced by every commit: whoever made a directory may have died before it could.
 *  - A failed fsync fails the checkpoint; nothing is retried under the same name.
 *  - What failed is first renamed out of the way and that is fsynced, only then deleted: at no instant can a crash leave a
 *    directory that has a manifest but lacks a file.
 * Fault model: the process or the machine may stop at any instant; what was not fsynced may be lost, torn or reordered,
 * names as well as bytes; any operation may fail.
 *
 *   JOB_DIR → OPEN_JOB → MKDIR → OPEN_DIR → (made: nodes write) SYNC_JOB → SYNC_ROOT → READY →
 *   (site_seal) LOOK → MANIFEST → LINK → UNLINK_TMP → SYNC_LINK → (sealed) CLOSE → DONE
 *   MKDIR says EEXIST → PROBE → PROBE_MANIFEST; there is none: ASIDE_OLD → MKDIR; there is one: READ_MANIFEST → (made: nodes compare) →
 *   READY, and if it is what is to be written (an earlier life of the daemon wrote it) LOOK → SYNC_LINK → … → DONE, else nothing is touched
 *   LINK says EEXIST, or RENAME ENOENT → PROBE_MANIFEST → READ_MANIFEST, and if it is ours (the answer was lost, as over NFS it may be) as
 *   after success, else FAILED
 *   any error, or site_drop → (failed) ASIDE → SYNC_ASIDE → DISARM → LEFT (left: nodes delete what they wrote) → (site_remove) REMOVE →
 *   CLOSE → DONE */
#ifndef CKPTD_CHECKPOINT_DIRECTORY_H
#define CKPTD_CHECKPOINT_DIRECTORY_H

#include "checkpoint/file_writer.h"
#include "format/manifest.h"

enum site_state {
	SITE_JOB_DIR = 1,
	SITE_OPEN_JOB,
	SITE_MKDIR,
	SITE_PROBE,
	SITE_PROBE_MANIFEST,
	SITE_READ_MANIFEST,
	SITE_ASIDE_OLD,
	SITE_OPEN_DIR,
	SITE_SYNC_JOB,
	SITE_SYNC_ROOT,
	SITE_READY,
	SITE_LOOK,
	SITE_MANIFEST,
	SITE_LINK,
	SITE_RENAME, /* instead of LINK where the file system has no hard links */
	SITE_UNLINK_TMP,
	SITE_SYNC_LINK,
	SITE_ASIDE,
	SITE_SYNC_ASIDE,
	SITE_DISARM,
	SITE_LEFT,
	SITE_REMOVE,
	SITE_CLOSE_DIR,
	SITE_CLOSE_JOB,
	SITE_DONE,
	SITE_STATE_END
};

enum { SITE_LOOKS = 8 }; /* node manifests that are read at a time */

struct site_look;

struct site {
	/* set by the caller */
	struct disk *disk;
	int root;
	char job[NAME_JOB_MAX];
	struct step_id id;
	void (*made)(struct site *s);   /* nodes may open it */
	void (*sealed)(struct site *s); /* MANIFEST.json stands, fsynced */
	void (*failed)(struct site *s); /* rc and err say why; it will not come to be */
	void (*left)(
		struct site
			*s); /* then, unless `kept`, nodes delete what they wrote; whoever does, calls site_remove */
	void (*done)(struct site *s); /* last call; the caller frees with site_free */
	void *arg;

	/* to be read */
	enum site_state state;
	int rc;               /* first error */
	struct err err;       /* its sentence */
	uint64_t progress_ns; /* when an operation last ended */
	bool found;           /* a manifest of this name was there: nodes compare and write nothing */
	bool kept;            /* nothing of it may be deleted */

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
	struct site_look *looks; /* SITE_LOOKS */
	uint32_t looked, looking;
	uint64_t look_bytes;
	struct writer writer;
	struct disk_op op;
	struct list closing; /* handles that are being closed beside the machine */
};

void site_start(struct site *s);
/* Every node is prepared, and this is what MANIFEST.json is to say. */
void site_seal(struct site *s, const struct wbuf *manifest);
/* Gives up: what is in flight is awaited, then it is moved out of the way. No effect once MANIFEST.json stands, or it has failed. */
void site_drop(struct site *s, int rc, const char *why);
/* After `left`: no node has a file in it any more, or none will come to delete it. */
void site_remove(struct site *s);
void site_free(struct site *s); /* NULL is allowed */
const char *site_state_name(enum site_state state);

#endif
