#include "judge/damage.h"

#include "base/cleanup.h"
#include "journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was done ------------------------------------------------------------------------------------------------- */

static bool is_one(enum fault_kind kind)
{
	return kind == FAULT_FLIP_FILE || kind == FAULT_FLIP_SIDECAR || kind == FAULT_FLIP_MANIFEST ||
	       kind == FAULT_FLIP_ARENA || kind == FAULT_FLIP_REPLICA || kind == FAULT_DISK_CORRUPT;
}

/* "bit 3 of byte 9 of FILE of step 10 of epoch 1 flipped", "bit 3 of byte 9 of rank 1's step 10 of epoch 1 flipped in its arena" */
static bool parse(const char *text, struct damage *d)
{
	if (sscanf(text, "bit %u of byte %lu of %159s of step %" SCNu64 " of epoch %" SCNu32, &d->bit, &d->byte,
		   d->file, &d->id.step, &d->id.epoch) == 5)
		return true;
	*d->file = '\0';
	return sscanf(text, "bit %u of byte %lu of rank %" SCNu32 "'s step %" SCNu64 " of epoch %" SCNu32, &d->bit,
		      &d->byte, &d->rank, &d->id.step, &d->id.epoch) == 5;
}

int damages_take(struct damages *all, const json_t *line)
{
	const char *kind = json_string_value(json_object_get(line, "kind")),
		   *text = json_string_value(json_object_get(line, "text"));
	const struct fault_entry *entry = kind ? fault_find(kind, strlen(kind)) : NULL;
	struct damage d = {.kind = entry ? entry->kind : FAULT_KIND_END};
	if (!entry || !is_one(d.kind) || !text || !parse(text, &d))
		return 0;
	void *more = journal_grown(all->at, all->n, &all->room, sizeof(*all->at));
	if (!more)
		return -ENOMEM;
	all->at = more;
	all->at[all->n++] = d;
	return 0;
}

void damages_free(struct damages *all)
{
	free(all->at);
}

bool damage_is_stored(const struct damage *d)
{
	return d->kind == FAULT_FLIP_FILE || d->kind == FAULT_FLIP_SIDECAR || d->kind == FAULT_FLIP_MANIFEST;
}

bool damage_is_undone(const struct damages *all, size_t i)
{
	const struct damage *d = &all->at[i];
	size_t alike = 0;
	for (size_t k = 0; k < all->n; k++) {
		const struct damage *x = &all->at[k];
		alike += damage_is_stored(x) && !step_compare(x->id, d->id) && x->bit == d->bit && x->byte == d->byte &&
			 !strcmp(x->file, d->file);
	}
	return damage_is_stored(d) && alike % 2 == 0;
}

bool damage_is_of_mark(const struct damage *d)
{
	return *d->file == '.' || !strcmp(d->file, NAME_HEALTH) || !strcmp(d->file, NAME_HEALTH_MARK) ||
	       !strcmp(d->file, NAME_PINNED);
}

static bool is_data(const char *file)
{
	return !strncmp(file, "rank-", 5);
}

bool damage_is_of_document(const struct damage *d)
{
	return *d->file && !is_data(d->file);
}

/* ---- what comes of it ---------------------------------------------------------------------------------------------- */

static void path_of(const struct repo *repo, const char *job, struct step_id id, const char *file, char path[PATH_MAX])
{
	char dir[NAME_DIR_MAX];
	name_dir(id, dir);
	snprintf(path, PATH_MAX, "%s/%s/%s/%s", repo->path, job, dir, file);
}

/* What stands before the ending: of a data file, of its sidecar and of its index. */
static size_t stem(const char *file)
{
	const char *dot = strrchr(file, '.');
	return dot ? (size_t)(dot - file) : strlen(file);
}

/* The damaged file has this name, or belongs to it; documents vouch for all. */
static bool hits(const struct damage *d, const char *file)
{
	unsigned rank;
	if (!*d->file)
		return sscanf(file, "rank-%u-of-", &rank) == 1 && rank == d->rank;
	return !is_data(d->file) || (stem(d->file) == stem(file) && !strncmp(d->file, file, stem(file)));
}

/* What has not changed from one checkpoint to the next stands in both as one file. */
static bool shares(const struct damage *d, const struct repo *repo, const char *job, const struct stat *file)
{
	char path[PATH_MAX];
	struct dirent *e;
	struct stat st;
	path_of(repo, job, d->id, "", path);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (!fstatat(dirfd(dir), e->d_name, &st, 0) && st.st_dev == file->st_dev && st.st_ino == file->st_ino &&
		    is_data(e->d_name) && hits(d, e->d_name))
			return true;
	return false;
}

bool damage_explains(const struct damage *d, const struct repo *repo, const struct checkpoint_ref *ref,
		     const char *file)
{
	char path[PATH_MAX];
	struct stat st;
	if (!step_compare(d->id, ref->id) && (!*file || hits(d, file)))
		return true;
	path_of(repo, ref->job, ref->id, file, path);
	return *file && !stat(path, &st) && shares(d, repo, ref->job, &st);
}

static int64_t born(const char *path)
{
	struct statx st;
	if (statx(AT_FDCWD, path, 0, STATX_BTIME | STATX_MTIME, &st))
		return 0;
	const struct statx_timestamp *at = st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_mtime;
	return at->tv_sec * 1000000000ll + at->tv_nsec;
}

/* All data is there before a checkpoint is committed. */
bool damage_is_mended(const struct damage *d, const struct repo *repo, const char *job)
{
	char file[PATH_MAX], manifest[PATH_MAX];
	path_of(repo, job, d->id, d->file, file);
	path_of(repo, job, d->id, NAME_MANIFEST, manifest);
	return is_data(d->file) && born(file) > born(manifest);
}
