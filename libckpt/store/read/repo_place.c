#include "store/read/repo_place.h"

#include "store/read/repo.h"

#include <stdio.h>

int repo_place_init(struct repo_place *place, struct disk *disk, int root, const char *path, struct err *err)
{
	struct disk_stat st;
	*place = (struct repo_place){0};
	int rc = disk_stat_at(disk, root, ".", &st);
	if (rc)
		return err_set(err, rc, "cannot look at the store %s: %s", path, err_name(rc));
	*place = (struct repo_place){.path = path, .dev = st.dev, .ino = st.ino};
	int len = snprintf(place->mark_path, sizeof(place->mark_path), "%s/%s", path, REPO_MARK);
	rc = len < 0 || (size_t)len >= sizeof(place->mark_path)
		     ? err_set(err, -ENAMETOOLONG, "the path of the store is too long")
		     : repo_place_check(place, err);
	if (rc)
		place->path = NULL;
	return rc;
}

static bool is_gone(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR;
}

/* Whoever writes a file, or moves it, changes this. */
static bool is_same(const struct disk_stat *a, const struct disk_stat *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->changed_ns == b->changed_ns;
}

/* Whatever is wrong with the mark: nobody reads what is saved there. */
static int read_mark(const struct repo_place *place, struct err *err)
{
	struct repo repo;
	if (repo_open(place->path, &repo, err) < 0)
		return -ENOENT;
	repo_close(&repo);
	return 0;
}

static int look(const struct repo_place *place, struct err *err)
{
	struct disk_stat st;
	int rc = disk_stat_path(place->path, &st);
	if (is_gone(rc))
		return err_set(err, -ENOENT,
			       "the store %s is gone: no such directory. Put it back; if it is lost, start ckptd anew",
			       place->path);
	if (rc)
		return err_set(err, rc, "cannot look at the store %s: %s", place->path, err_name(rc));
	if (st.dev != place->dev || st.ino != place->ino)
		return err_set(err, -ENOENT,
			       "the store %s is another directory than ckptd has opened: put that one back, or start "
			       "ckptd anew to go on with this one",
			       place->path);
	return read_mark(place, err);
}

int repo_place_check(struct repo_place *place, struct err *err)
{
	struct disk_stat mark = {0};
	struct err why = {0};
	int rc = disk_stat_path(place->mark_path, &mark);
	if (!rc && is_same(&mark, &place->mark))
		return 0;
	rc = look(place, &why);
	place->trouble = why;
	place->mark = rc ? (struct disk_stat){0} : mark;
	return rc ? err_set(err, rc, "%s", why.text) : 0;
}

void repo_place_found(struct repo_place *place, const struct repo_place *copy)
{
	place->mark = copy->mark;
	place->trouble = copy->trouble;
}
