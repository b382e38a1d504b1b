#include "store/manage/tags.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static int open_job(struct repo *repo, const char *job, struct err *err)
{
	int rc = name_check("job", job, NAME_JOB_MAX, err);
	if (rc < 0)
		return rc;
	int dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	return dir < 0 ? err_set(err, dir, "cannot open %s/%s: %s", repo->path, job, err_name(dir)) : dir;
}

/* What is a link, a pipe or too large in a mark's place is damage. */
static int as_damage(int rc)
{
	return rc == -EFBIG || rc == -EINVAL || rc == -ELOOP || rc == -EISDIR || rc == -EAGAIN ? -EBADMSG : rc;
}

static int read_at(struct repo *repo, int dir, const char *job, const char *name, struct tag *tag, struct err *err)
{
	char file[NAME_FILE_MAX];
	AUTO_FREE void *text = NULL;
	size_t len;
	name_tag(name, file);
	int rc = as_damage(disk_read_file(repo->disk, dir, file, MARK_BYTES_MAX, &text, &len, err));
	if (!rc)
		rc = tag_decode(text, len, tag, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s/%s", job, file);
	if (!strcmp(tag->job, job) && !strcmp(tag->name, name))
		return 0;
	return err_set(err, -EBADMSG, "%s/%s is that of tag %s of job %s", job, file, tag->name, tag->job);
}

int tag_read(struct repo *repo, const char *job, const char *name, struct tag *tag, struct err *err)
{
	int rc = name_check_tag(name, err);
	if (rc < 0)
		return rc;
	int dir = open_job(repo, job, err);
	if (dir < 0)
		return dir;
	rc = read_at(repo, dir, job, name, tag, err);
	disk_close_file(repo->disk, dir);
	return rc == -ENOENT ? err_set(err, rc, "there is no tag %s in job %s", name, job) : rc;
}

/* ---- list */

struct listing {
	struct tag_found *tags;
	size_t n, cap;
};

static int add_name(void *arg, const char *file)
{
	struct listing *l = arg;
	char name[NAME_TAG_MAX];
	if (name_parse_tag(file, name) < 0)
		return 0;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct tag_found *grown = reallocarray(l->tags, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->tags = grown;
		l->cap = cap;
	}
	memcpy(l->tags[l->n++].tag.name, name, sizeof(name));
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tag_found *)a)->tag.name, ((const struct tag_found *)b)->tag.name);
}

/* Reads what was listed; one that was removed since then is left out. */
static void read_listed(struct repo *repo, int dir, const char *job, struct listing *l)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->n; i++) {
		char name[NAME_TAG_MAX];
		struct tag_found found = {0};
		memcpy(name, l->tags[i].tag.name, sizeof(name));
		found.rc = read_at(repo, dir, job, name, &found.tag, NULL);
		memcpy(found.tag.name, name, sizeof(name));
		if (found.rc != -ENOENT)
			l->tags[kept++] = found;
	}
	l->n = kept;
}

int tags_list(struct repo *repo, const char *job, struct tag_found **out, size_t *n, struct err *err)
{
	struct listing l = {0};
	*out = NULL;
	*n = 0;
	int dir = open_job(repo, job, err);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	int rc = disk_list(repo->disk, dir, add_name, &l);
	if (rc < 0)
		err_set(err, rc, "cannot list %s/%s: %s", repo->path, job, err_name(rc));
	else
		read_listed(repo, dir, job, &l);
	disk_close_file(repo->disk, dir);
	if (rc < 0) {
		free(l.tags);
		return rc;
	}
	if (l.n)
		qsort(l.tags, l.n, sizeof(*l.tags), by_name);
	*out = l.tags;
	*n = l.n;
	return 0;
}

size_t tags_next(const struct tag_found *tags, size_t n, size_t from, struct step_id id)
{
	while (from < n && (tags[from].rc < 0 || step_compare(tags[from].tag.id, id) != 0))
		from++;
	return from;
}

/* ---- change */

int tag_put(struct repo *repo, const struct tag *tag, bool move, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	char file[NAME_FILE_MAX];
	int rc = name_check_new_tag(tag->name, err);
	if (rc < 0)
		return rc;
	if (tag_encode(tag, &text) < 0)
		return err_set(err, -ENOMEM, "no memory for a tag");
	int dir = open_job(repo, tag->job, err);
	if (dir < 0)
		return dir;
	name_tag(tag->name, file);
	rc = disk_put_file(repo->disk, dir, file, text.data, text.len, move, err);
	disk_close_file(repo->disk, dir);
	return rc;
}

int tag_drop(struct repo *repo, const char *job, const char *name, struct err *err)
{
	char file[NAME_FILE_MAX];
	int rc = name_check_tag(name, err);
	if (rc < 0)
		return rc;
	int dir = open_job(repo, job, err);
	if (dir < 0)
		return dir;
	name_tag(name, file);
	rc = disk_remove_file(repo->disk, dir, file, err);
	disk_close_file(repo->disk, dir);
	return rc == -ENOENT ? err_set(err, rc, "there is no tag %s in job %s", name, job) : rc;
}
