#include "store/manage/freed.h"

#include <stdlib.h>

struct walk {
	struct freed *freed;
	struct disk *disk;
	int dir;
	size_t owner;
};

static int add_file(void *arg, const char *name)
{
	struct walk *w = arg;
	struct freed *f = w->freed;
	struct disk_stat st;
	int rc = disk_stat_at(w->disk, w->dir, name, &st);
	if (rc < 0 || st.is_dir)
		return rc == -ENOENT ? 0 : rc;
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 256;
		struct freed_name *grown = reallocarray(f->names, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->names = grown;
		f->cap = cap;
	}
	f->names[f->n++] = (struct freed_name){st.dev, st.ino, st.links, st.blocks512 * 512, w->owner};
	return 0;
}

int freed_add(struct freed *f, struct repo *repo, const char *job, const char *name, size_t owner, struct err *err)
{
	struct walk w = {.freed = f, .disk = repo->disk, .owner = owner};
	int job_dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR), rc = job_dir;
	w.dir = job_dir < 0 ? job_dir : disk_open_at(repo->disk, job_dir, name, DISK_DIR);
	if (job_dir >= 0)
		disk_close_file(repo->disk, job_dir);
	if (w.dir >= 0) {
		rc = disk_list(repo->disk, w.dir, add_file, &w);
		disk_close_file(repo->disk, w.dir);
	} else {
		rc = w.dir == -ENOENT ? 0 : w.dir;
	}
	return rc < 0 ? err_set(err, rc, "cannot count the files of %s/%s: %s", job, name, err_name(rc)) : 0;
}

static int order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_file(const void *a, const void *b)
{
	const struct freed_name *x = a, *y = b;
	int rc = order(x->dev, y->dev);
	rc = rc ? rc : order(x->ino, y->ino);
	return rc ? rc : order(x->owner, y->owner);
}

uint64_t freed_count(struct freed *f, uint64_t *by_owner)
{
	uint64_t all = 0;
	if (f->n)
		qsort(f->names, f->n, sizeof(*f->names), by_file);
	for (size_t i = 0, first = 0; i < f->n; i++) {
		const struct freed_name *name = &f->names[i], *next = name + 1;
		if (i + 1 < f->n && next->ino == name->ino && next->dev == name->dev)
			continue;
		if (i + 1 - first >= name->links) {
			by_owner[name->owner] += name->bytes;
			all += name->bytes;
		}
		first = i + 1;
	}
	return all;
}

void freed_free(struct freed *f)
{
	free(f->names);
	*f = (struct freed){0};
}
