/* What the simulated disk holds, and what of it a failed fsync or a power cut leaves. */
#include "disk_image.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "rng.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512 };

static struct {
	struct inode *inodes, *top;
} disk;

/* ---- inodes ---------------------------------------------------------------------------------------------------- */

static void *grow(void *p, size_t size)
{
	void *q = realloc(p, size ? size : 1);
	SIM_CHECK(q, "memory");
	return q;
}

static void name_set(char *dst, const char *name)
{
	size_t len = strlen(name);
	SIM_CHECK(len < NAME_SIZE, "a name of %zu bytes", len);
	memcpy(dst, name, len + 1);
}

struct inode *inode_new(bool dir)
{
	struct inode *inode = calloc(1, sizeof(*inode));
	SIM_CHECK(inode, "memory");
	inode->dir = dir;
	inode->mtime = clock_wall();
	inode->next = disk.inodes;
	disk.inodes = inode;
	return inode;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

struct inode *names_find(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->list[i].name, name))
			return names->list[i].inode;
	return NULL;
}

static bool names_remove(struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++) {
		if (strcmp(names->list[i].name, name) != 0)
			continue;
		names->list[i] = names->list[--names->n];
		return true;
	}
	return false;
}

static void names_add(struct names *names, const char *name, struct inode *inode)
{
	names_remove(names, name);
	if (names->n == names->cap) {
		names->cap = names->cap ? names->cap * 2 : 8;
		names->list = grow(names->list, names->cap * sizeof(*names->list));
	}
	struct name_entry *entry = &names->list[names->n++];
	name_set(entry->name, name);
	entry->inode = inode;
}

void names_copy(struct names *dst, const struct names *src)
{
	dst->list = grow(dst->list, src->n * sizeof(*src->list));
	dst->n = dst->cap = src->n;
	if (src->n)
		memcpy(dst->list, src->list, src->n * sizeof(*src->list));
}

static void apply_change(struct names *names, const struct change *c)
{
	if (c->remove[0])
		names_remove(names, c->remove);
	if (c->add[0])
		names_add(names, c->add, c->inode);
}

void names_change(struct inode *dir, const char *remove, const char *add, struct inode *inode)
{
	if (dir->nchanges == dir->cap) {
		dir->cap = dir->cap ? dir->cap * 2 : 8;
		dir->changes = grow(dir->changes, dir->cap * sizeof(*dir->changes));
	}
	struct change *c = &dir->changes[dir->nchanges++];
	*c = (struct change){.inode = inode};
	name_set(c->remove, remove ? remove : "");
	name_set(c->add, add ? add : "");
	apply_change(&dir->now_names, c);
}

struct inode *inode_walk(const char *path)
{
	struct inode *at = disk.top;
	char part[NAME_SIZE];
	while (at && *path) {
		path += strspn(path, "/");
		size_t n = strcspn(path, "/");
		if (!n)
			break;
		SIM_CHECK(n < NAME_SIZE, "path");
		memcpy(part, path, n);
		part[n] = 0;
		at = names_find(&at->now_names, part);
		path += n;
	}
	return at;
}

void inodes_reset(void)
{
	for (struct inode *inode = disk.inodes, *next; inode; inode = next) {
		next = inode->next;
		free(inode->now.data);
		free(inode->safe.data);
		free(inode->now_names.list);
		free(inode->safe_names.list);
		free(inode->changes);
		free(inode);
	}
	disk.inodes = NULL;
	disk.top = inode_new(true);
	struct inode *dir = inode_new(true);
	names_add(&disk.top->now_names, "sim", dir);
	names_add(&disk.top->safe_names, "sim", dir);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void image_set(struct image *image, const uint8_t *data, size_t len)
{
	image->data = grow(image->data, len);
	image->len = len;
	if (len)
		memcpy(image->data, data, len);
}

void image_resize(struct image *image, size_t len)
{
	image->data = grow(image->data, len);
	if (len > image->len)
		memset(image->data + image->len, 0, len - image->len);
	image->len = len;
}

/* ---- fsync ------------------------------------------------------------------------------------------------------- */

void inode_confirm(struct inode *inode)
{
	if (inode->dir) {
		names_copy(&inode->safe_names, &inode->now_names);
		inode->nchanges = 0;
	} else {
		image_set(&inode->safe, inode->now.data, inode->now.len);
	}
}

/* After a failed fsync the kernel may have dropped the dirty pages and call them clean: what is shown now can vanish. Nothing
 * changes here: the safe image stays behind, and a later fsync must not be believed. The simulator is harsher: it tears at once. */
void inode_tear(struct inode *inode)
{
	if (inode->dir)
		return;
	for (size_t at = 0; at < inode->now.len; at += SECTOR) {
		if (!rng_chance(world_rng(), 30))
			continue;
		size_t n = min_u64(SECTOR, inode->now.len - at);
		size_t have = at < inode->safe.len ? min_u64(n, inode->safe.len - at) : 0;
		memset(inode->now.data + at, 0, n);
		if (have)
			memcpy(inode->now.data + at, inode->safe.data + at, have);
	}
}

/* ---- crashes ----------------------------------------------------------------------------------------------------- */

void inodes_unlock(void)
{
	for (struct inode *inode = disk.inodes; inode; inode = inode->next)
		inode->locked = false;
}

static void cut_file(struct inode *inode, struct disk_counts *counts)
{
	size_t most = max_u64(inode->now.len, inode->safe.len);
	size_t len = rng_chance(world_rng(), 50) ? inode->now.len : inode->safe.len;
	struct image left = {0};
	image_resize(&left, most);
	for (size_t at = 0; at < most; at += SECTOR) {
		bool keep = rng_chance(world_rng(), 50);
		const struct image *from = keep ? &inode->now : &inode->safe;
		counts->lost_sectors += !keep;
		if (at < from->len)
			memcpy(left.data + at, from->data + at, min_u64(SECTOR, from->len - at));
	}
	image_resize(&left, len);
	free(inode->now.data);
	inode->now = left;
	image_set(&inode->safe, left.data, left.len);
}

static void cut_names(struct inode *inode, struct disk_counts *counts)
{
	names_copy(&inode->now_names, &inode->safe_names);
	for (size_t i = 0; i < inode->nchanges; i++) {
		if (rng_chance(world_rng(), 50))
			apply_change(&inode->now_names, &inode->changes[i]);
		else
			counts->lost_names++;
	}
	names_copy(&inode->safe_names, &inode->now_names);
	inode->nchanges = 0;
}

void inodes_cut(struct disk_counts *counts)
{
	for (struct inode *inode = disk.inodes; inode; inode = inode->next) {
		if (inode->dir)
			cut_names(inode, counts);
		else
			cut_file(inode, counts);
	}
}
