/* A repository (store root) as read-only view: <root>/<job>/step-….e…/. Works from the files alone, with no daemon. */
#ifndef CKPT_STORE_REPO_H
#define CKPT_STORE_REPO_H

#include "format/manifest.h"
#include "store/disk.h"

/* Marks the root as a repository, so that a mistyped path is not mistaken for an empty one: written by ckptd at first start. */
#define REPO_MARK "ckpt-repository"
#define REPO_LOCK ".lock" /* held by the daemon that writes here (disk_lock) */
#define REPO_ABANDONED ".abandoned-" /* prefix of directories that a crash left half-written, renamed out of the way */

struct repo {
	struct disk *disk;
	int root;
	char *path;
};

/* -ENOENT: no such directory or not a repository (no mark): says what was looked for. */
int repo_open(const char *path, struct repo *repo, struct err *err);
void repo_close(struct repo *repo);
/* Makes the root (one level) and the mark when missing. -ENOTEMPTY: a directory with other things in it and no mark. */
int repo_create(const char *path, struct err *err);

enum checkpoint_state {
	CHECKPOINT_COMMITTED = 1, /* has MANIFEST.json */
	CHECKPOINT_PARTIAL,       /* a directory without one: in flight or abandoned; never listed as a checkpoint */
};

struct checkpoint_ref {
	char job[NAME_JOB_MAX];
	struct step_id id;
	enum checkpoint_state state;
	uint64_t committed_ns; /* mtime of MANIFEST.json */
};

/* All checkpoint directories of the job (NULL: of all jobs), ordered by job, then (epoch, step), oldest first. *out malloc'ed. */
int repo_scan(struct repo *repo, const char *job, struct checkpoint_ref **out, size_t *n, struct err *err);

/* The loaded chain of one checkpoint, digests of the documents checked: MANIFEST.json, its node manifests. */
struct checkpoint {
	struct checkpoint_ref ref;
	int dir; /* handle */
	struct manifest manifest;
	uint32_t nnodes;
	struct node_manifest *nodes;
	struct repo *repo;
};

/* -ENOENT not committed; -EBADMSG the chain is broken (document and reason named); -EPROTONOSUPPORT newer format. */
int checkpoint_open(struct repo *repo, const char *job, struct step_id id, struct checkpoint *ck, struct err *err);
void checkpoint_close(struct checkpoint *ck);
/* Loads the sidecar of a file and checks it against the node manifest and the file's own size. */
struct sidecar;
int checkpoint_sidecar(struct checkpoint *ck, const struct manifest_file *file, struct sidecar *sc, struct err *err);

#endif
