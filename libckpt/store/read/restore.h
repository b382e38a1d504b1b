/* Restore of a checkpoint into any partition: plan first, then read each leaf once, check it, scatter it to all who want
 * it. */
#ifndef CKPT_STORE_RESTORE_H
#define CKPT_STORE_RESTORE_H

#include "format/arena/registration.h"
#include "store/read/repo.h"

/* One destination: packed memory for one region of a tensor. */
struct want {
	const char *tensor;
	enum dtype dtype;
	struct shape shape; /* global: must be that of the checkpoint */
	struct region region;
	void *data;     /* packed, region_volume × dtype_size bytes */
	uint32_t owner; /* rank, for messages */
	bool optional;  /* a rank blob of a rank beyond the saved world: left untouched when missing */
	/* NULL, or room for the digests of the leaves of data, which restore_execute fills in. If the region was saved as
	 * one piece, it takes the digests that the bytes read have matched, so that a copy that goes wrong afterwards is
	 * found. Otherwise it takes those of what stands there. */
	uint64_t *leaves;
};

struct restore_plan; /* opaque */

/* Intersects what is wanted with what is saved. Touches no destination. -EINVAL: the checkpoint lacks a tensor, or has
 * another dtype or global shape; -ENODATA: a part of the region was never saved; -EEXIST: saved twice. The sentence names
 * both sides (and how many further problems there are). Loads the sidecars that are needed: -EBADMSG. The checkpoint and
 * wants must outlive the plan. */
int restore_plan_make(struct checkpoint *ck, const struct want *wants, size_t n, struct restore_plan **out,
		      struct err *err);
void restore_plan_free(struct restore_plan *plan);
/* Bytes that will be written to destinations, and read from files. */
void restore_plan_cost(const struct restore_plan *plan, uint64_t *useful, uint64_t *read);

struct restore_options {
	unsigned threads; /* digest and scatter workers; 0: one per core, at most 8 */
	uint64_t memory;  /* for reading and unpacking, at most (but a chunk for each read); 0: as much as is fastest */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	/* NULL, or, from any of its threads: these leaves of a destination that has leaves stand there with their
	 * digests, each once. This is called as soon as the last of the saved leaves is there that they are made of. */
	void (*arrived)(void *arg, size_t want, uint64_t first, uint64_t count);
	void *arg;
};

/* Reads with O_DIRECT at DISK_DEPTH × DISK_CHUNK (or what `memory` allows), digests and scatters in parallel. -EBADMSG
 * names file, tensor and byte range; then the destinations are undefined. */
int restore_execute(struct restore_plan *plan, const struct restore_options *opts, struct err *err);

#endif
