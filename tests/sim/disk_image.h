/* What the simulated disk holds: two images of everything. `now` is what the kernel would show, `safe` what a power cut would leave
 * for certain (confirmed by fsync). A power cut keeps an arbitrary part of the difference: any subset of the sectors written
 * since, any subset of the names changed since. Private to disk_sim.c, disk_image.c and those
 * who look at what is written (disk_sim_watch). */
#ifndef CKPT_SIM_DISK_IMAGE_H
#define CKPT_SIM_DISK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME_SIZE = 256 };

struct disk_counts;
struct inode;

struct name_entry {
	char name[NAME_SIZE];
	struct inode *inode;
};

struct names {
	struct name_entry *list;
	size_t n, cap;
};

/* One change of names since the last fsync of the directory. */
struct change {
	char remove[NAME_SIZE], add[NAME_SIZE]; /* a rename has both and is atomic */
	struct inode *inode;
};

struct image {
	uint8_t *data;
	size_t len;
};

struct inode {
	struct inode *next; /* of all: freed at reset */
	bool dir;
	uint64_t mtime;
	struct image now, safe;
	struct names now_names, safe_names;
	struct change *changes;
	size_t nchanges, cap;
	bool locked; /* by a handle of disk_sim.c */
	bool sealed; /* a mark of who watches */
};

/* Inodes live until the next reset, with or without a name. */
void inodes_reset(void); /* an empty disk with a directory /sim */
struct inode *inode_new(bool dir);
struct inode *inode_walk(const char *path); /* NULL: there is none */

struct inode *names_find(const struct names *names, const char *name);
void names_copy(struct names *dst, const struct names *src);
/* remove, add: either may be NULL. */
void names_change(struct inode *dir, const char *remove, const char *add, struct inode *inode);

void image_resize(struct image *image, size_t len);

/* An fsync that succeeded, and one that failed. */
void inode_confirm(struct inode *inode);
void inode_tear(struct inode *inode);

/* The process dies, the machine loses power. */
void inodes_unlock(void);
void inodes_cut(struct disk_counts *counts);

#endif
