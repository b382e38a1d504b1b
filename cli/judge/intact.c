#include "judge/intact.h"

#include "base/cleanup.h"
#include "format/tensor/names.h"
#include "store/check/verify.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* Of one checkpoint, with what a flipped bit may have to do with it. */
struct look {
	const struct repo *repo;
	const struct checkpoint_ref *ref;
	const struct step_id *hit;
	size_t nhit;
	bool unexplained;
};

static bool was_hit(const struct step_id *hit, size_t nhit, struct step_id id)
{
	for (size_t i = 0; i < nhit; i++)
		if (!step_compare(hit[i], id))
			return true;
	return false;
}

static void path_of(const struct look *l, struct step_id id, const char *file, char path[PATH_MAX])
{
	char dir[NAME_DIR_MAX];
	name_dir(id, dir);
	snprintf(path, PATH_MAX, "%s/%s/%s/%s", l->repo->path, l->ref->job, dir, file);
}

/* What has not changed from one checkpoint to the next stands in both as one file. */
static bool has_file(const struct look *l, struct step_id id, const struct stat *file)
{
	char path[PATH_MAX];
	struct dirent *e;
	struct stat st;
	path_of(l, id, "", path);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (!fstatat(dirfd(dir), e->d_name, &st, 0) && st.st_dev == file->st_dev && st.st_ino == file->st_ino)
			return true;
	return false;
}

static void explain(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	struct look *l = arg;
	char path[PATH_MAX];
	struct stat st;
	bool explained = false;
	(void)tensor, (void)from, (void)to, (void)text;
	path_of(l, l->ref->id, file, path);
	if (*file && !stat(path, &st))
		for (size_t i = 0; !explained && i < l->nhit; i++)
			explained = has_file(l, l->hit[i], &st);
	l->unexplained |= !explained;
}

int campaign_intact(struct repo *repo, const struct checkpoint_ref *refs, size_t n, const struct step_id *hit,
		    size_t nhit, struct invariant *out, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct look look = {.repo = repo, .ref = &refs[i], .hit = hit, .nhit = nhit};
		const struct verify_options options = {
			.depth = VERIFY_DATA, .share = 1, .finding = explain, .arg = &look};
		struct verify_result result;
		struct step_id id = refs[i].id;
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		int rc = verify_checkpoint(repo, refs[i].job, id, &options, &result, err);
		if (rc && rc != -EBADMSG)
			return rc;
		out->looked_at++;
		if (!rc || was_hit(hit, nhit, id) || !look.unexplained || !out->held)
			continue;
		out->held = false;
		snprintf(out->text, sizeof(out->text), "step %lu of epoch %u is damaged, and nobody has damaged it",
			 (unsigned long)id.step, id.epoch);
	}
	return 0;
}
