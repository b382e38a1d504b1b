/* A repository (store root) as read-only view: <root>/<job>/step-….e…/. Works from the files alone, with no daemon. */
#ifndef CKPT_STORE_REPO_H
#define CKPT_STORE_REPO_H

#include "format/files/manifest.h"
#include "format/files/marks.h"
#include "store/disk/disk.h"

/* Marks the root as a repository, so that a mistyped path is not mistaken for an empty one: written by ckptd at first start. Its
 * first line is REPO_MARK_TEXT; another number is a newer layout of the store. */
#define REPO_MARK "ckpt-repository"
#define REPO_MARK_KIND "ckpt-repository " /* a number follows */
#define REPO_MARK_TEXT REPO_MARK_KIND "1\n"
#define REPO_LOCK ".lock"            /* held by the daemon that writes here (disk_lock) */
#define REPO_LEMONS ".lemons"        /* how often nodes have failed, where no registry has it */
#define REPO_ABANDONED ".abandoned-" /* prefix of half-written directories that were renamed out of the way */
#define REPO_TRASH ".trash-"         /* prefix of directories that are being deleted (store/manage/trash.h) */
#define REPO_GC_LOCK ".gc-lock"      /* held by whoever decides what goes (trash_lock) */

struct repo {
	struct disk *disk;
	int root;
	char *path;
	uint32_t strange; /* of the last scan: what bears the name of a checkpoint, and is no directory */
};

/* -ENOENT: no such directory or not a repository (no mark): says what was looked for. -EPROTONOSUPPORT: a newer layout; others:
 * as disk_new. On failure *repo is empty, and closing it does nothing. */
int repo_open(const char *path, struct repo *repo, struct err *err);
void repo_close(struct repo *repo);
/* Makes the root (one level) and the mark when missing, durably. -ENOTEMPTY: a directory with other things in it and no mark
 * ("lost+found" and leftovers of an interrupted repo_create do not count). A root that is made has this mode, whatever the umask;
 * one that is there keeps its own. repo_create: 0700. */
int repo_create_mode(const char *path, uint32_t mode, struct err *err);
int repo_create(const char *path, struct err *err);

enum checkpoint_state {
	CHECKPOINT_COMMITTED = 1, /* has MANIFEST.json */
	CHECKPOINT_PARTIAL, /* a directory without one, as older releases wrote them; never listed as a checkpoint */
};

struct checkpoint_ref {
	char job[NAME_JOB_MAX];
	struct step_id id;
	enum checkpoint_state state;
	uint64_t committed_ns;         /* mtime of MANIFEST.json */
	const struct listing *listing; /* what was known of it and holds; NULL: nothing */
};

/* All checkpoint directories of the job (NULL: of all jobs), ordered by job, then (epoch, step), oldest first. *out malloc'ed. A
 * job that is not there has none. Directories and files with other names are passed over. -ENOTDIR: what is there by the name of
 * the job that is asked for is a link or a file. */
int repo_scan(struct repo *repo, const char *job, struct checkpoint_ref **out, size_t *n, struct err *err);
/* The same; a checkpoint among `known` (store/read/listing.h; lives as long as the refs) whose listing still holds is not
 * opened. For lists: where a server answers from what a client remembers, opening is what asks it. */
struct listings;
int repo_scan_known(struct repo *repo, const char *job, const struct listings *known, struct checkpoint_ref **out,
		    size_t *n, struct err *err);

/* The loaded chain of one checkpoint, digests of the documents checked: MANIFEST.json, its node manifests. */
struct checkpoint {
	struct checkpoint_ref ref;
	int dir; /* handle */
	struct manifest manifest;
	uint32_t nnodes;             /* as in the manifest */
	struct node_manifest *nodes; /* empty ones where checkpoint_load_node was not called */
	struct repo *repo;
};

/* -ENOENT not committed; -EBADMSG the chain is broken (document and reason named); -EPROTONOSUPPORT newer format. On failure *ck is
 * empty, and closing it does nothing. */
int checkpoint_open(struct repo *repo, const char *job, struct step_id id, struct checkpoint *ck, struct err *err);
/* The two halves of checkpoint_open: MANIFEST.json alone, which is all that a list needs, and one node manifest. */
int checkpoint_open_root(struct repo *repo, const char *job, struct step_id id, struct checkpoint *ck, struct err *err);
int checkpoint_load_node(struct checkpoint *ck, uint32_t node, struct err *err);
/* As checkpoint_open_root, of one that is not committed yet: it is in the directory `name`, and `manifest` is what
 * MANIFEST.json is going to say. */
int checkpoint_open_unnamed(struct repo *repo, const char *job, const char *name, struct step_id id,
			    const struct wbuf *manifest, struct checkpoint *ck, struct err *err);
/* Whether the totals of MANIFEST.json are those of the loaded node manifests. -EBADMSG. */
int checkpoint_check_totals(const struct checkpoint *ck, struct err *err);
void checkpoint_close(struct checkpoint *ck);
/* The same checkpoint through another repo, for another thread: the documents are those of *ck, which must outlive it. */
int checkpoint_share(const struct checkpoint *ck, struct repo *repo, struct checkpoint *out, struct err *err);
void checkpoint_unshare(struct checkpoint *ck);
/* Whether it is no checkpoint of the store any more: removed while it was read, so that what was missed of it is no damage. */
bool checkpoint_gone(struct repo *repo, const char *job, struct step_id id);
/* Reads a mark of the checkpoint (NAME_HEALTH, NAME_HEALTH_MARK, NAME_PINNED). -ENOENT: there is none; -EBADMSG: it is
 * damaged or of another one. */
int checkpoint_health(const struct checkpoint *ck, struct health *health, struct err *err);
int checkpoint_health_mark(const struct checkpoint *ck, struct health_mark *mark, struct err *err);
int checkpoint_pin(const struct checkpoint *ck, struct pin *pin, struct err *err);
/* Writes HEALTH.json of the checkpoint that *health names, over what is there. Needs no intact manifest. */
int checkpoint_put_health(struct repo *repo, const struct health *health, struct err *err);
/* The same for VERDICT.json, of a checkpoint that is committed: -ENOENT for another. One that says the same already
 * stays; old: so does one that was given later, -EEXIST. */
int checkpoint_put_health_mark(struct repo *repo, const struct health_mark *mark, bool old, struct err *err);
/* The same for PINNED. */
int checkpoint_put_pin(struct repo *repo, const struct pin *pin, struct err *err);
/* Removes PINNED, durably. -ENOENT: there is none. */
int checkpoint_drop_pin(struct repo *repo, const char *job, struct step_id id, struct err *err);
/* Whether the data file is there with its size. *size is what it has (0 when it is missing). -EBADMSG. */
int checkpoint_check_size(struct checkpoint *ck, const struct manifest_file *file, uint64_t *size, struct err *err);
/* Loads the sidecar of a file and checks it against the node manifest; checkpoint_sidecar also checks the file's size. -EBADMSG names
 * which is wrong. */
struct sidecar;
int checkpoint_load_sidecar(struct checkpoint *ck, const struct manifest_file *file, struct sidecar *sc,
			    struct err *err);
int checkpoint_sidecar(struct checkpoint *ck, const struct manifest_file *file, struct sidecar *sc, struct err *err);
/* Loads the index of a packed file and checks it against the node manifest; of one that is not packed it is empty, and 0. index_load: of
 * a file that stands in another directory or under another name. -EBADMSG. */
struct packed_index;
int checkpoint_load_index(struct checkpoint *ck, const struct manifest_file *file, struct packed_index *index,
			  struct err *err);
int index_load(struct disk *disk, int dir, const char *name, const struct manifest_file *file,
	       struct packed_index *index, struct err *err);

#endif
