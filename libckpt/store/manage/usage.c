#include "store/manage/usage.h"

#include <stdlib.h>

static size_t slot_of(const struct usage_seen *seen, struct usage_key key)
{
	uint64_t hash = (key.ino ^ key.dev << 40) * 0x9e3779b97f4a7c15ull;
	size_t at = (size_t)(hash >> 20) & (seen->cap - 1);
	while (seen->keys[at].ino && (seen->keys[at].ino != key.ino || seen->keys[at].dev != key.dev))
		at = (at + 1) & (seen->cap - 1);
	return at;
}

static int grow(struct usage_seen *seen)
{
	struct usage_seen larger = {.cap = seen->cap ? seen->cap * 2 : 256};
	larger.keys = calloc(larger.cap, sizeof(*larger.keys));
	if (!larger.keys)
		return -ENOMEM;
	for (size_t i = 0; i < seen->cap; i++)
		if (seen->keys[i].ino)
			larger.keys[slot_of(&larger, seen->keys[i])] = seen->keys[i];
	larger.n = seen->n;
	free(seen->keys);
	*seen = larger;
	return 0;
}

/* 1: it was not there; 0: it was; -ENOMEM. */
static int remember(struct usage_seen *seen, struct usage_key key)
{
	if (2 * (seen->n + 1) > seen->cap && grow(seen) < 0)
		return -ENOMEM;
	size_t at = slot_of(seen, key);
	if (seen->keys[at].ino)
		return 0;
	seen->keys[at] = key;
	seen->n++;
	return 1;
}

struct walk {
	struct usage_seen *seen;
	struct repo *repo;
	int dir;
	struct usage *usage;
};

static int add_file(void *arg, const char *name)
{
	struct walk *w = arg;
	struct disk_stat st;
	int rc = disk_stat_at(w->repo->disk, w->dir, name, &st);
	if (rc == -ENOENT || (!rc && st.is_dir))
		return 0;
	if (rc < 0)
		return rc;
	int fresh = st.links > 1 ? remember(w->seen, (struct usage_key){st.dev, st.ino}) : 1;
	if (fresh < 0)
		return fresh;
	w->usage->files++;
	w->usage->apparent += st.size;
	w->usage->real += fresh ? st.blocks512 * 512 : 0;
	w->usage->shared += st.links > 1;
	return 0;
}

int usage_add(struct usage_seen *seen, struct repo *repo, int dir, struct usage *u, struct err *err)
{
	struct walk w = {seen, repo, dir, u};
	int rc = disk_list(repo->disk, dir, add_file, &w);
	return rc < 0 ? err_set(err, rc, "cannot count the files of a checkpoint: %s", err_name(rc)) : 0;
}

void usage_free(struct usage_seen *seen)
{
	free(seen->keys);
	*seen = (struct usage_seen){0};
}
