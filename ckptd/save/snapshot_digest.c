#include "save/snapshot_digest.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "runtime/room.h"
#include "save/replica_digests.h"
#include "save/saves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DIGEST_UNIT = 256,   /* leaves per work item: 16 MiB */
	DIGEST_IN_FLIGHT = 4 /* items per rank */
};

struct digest_work {
	struct work work;
	struct list link; /* part->digests, if it is of leaves */
	struct snapshot *s;
	struct part *part;
	uint64_t first, count;
};

static void digest_run(struct work *work)
{
	struct digest_work *w = list_entry(work, struct digest_work, work);
	memory_digest(w->part->mem, w->part->slot, w->first, w->count, w->part->leaves + w->first);
}

static void digest_done(struct work *work)
{
	struct digest_work *w = list_entry(work, struct digest_work, work);
	struct snapshot *s = w->s;
	struct saves *saves = s->saves;
	list_remove(&w->link);
	w->part->in_flight--;
	s->works--;
	free(w);
	saves->walking++; /* what the coordinator answers may be the end of it */
	snapshot_follow(s);
	saves->walking--;
	saves_pump(saves);
}

static void submit(struct digest_work *w)
{
	w->part->in_flight++;
	w->s->works++;
	saves_submit(w->s->saves, &w->work);
}

static int submit_digest(struct snapshot *s, struct part *part, uint64_t count)
{
	struct digest_work *w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct digest_work){.work = {.run = digest_run, .done = digest_done},
				  .s = s,
				  .part = part,
				  .first = part->submitted,
				  .count = count};
	part->submitted += count;
	list_push(&part->digests, &w->link);
	submit(w);
	return 0;
}

static void replica_digests_run(struct work *work)
{
	struct digest_work *w = list_entry(work, struct digest_work, work);
	replica_digests_fill(w->part);
}

/* Once it has been copied: then its witnesses are there. */
int snapshot_digest_replicas(struct snapshot *s, struct part *part)
{
	if (part->voted)
		return 0;
	part->voted = true;
	int rc = replica_digests_begin(part);
	if (rc <= 0)
		return rc;
	struct digest_work *w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct digest_work){.work = {.run = replica_digests_run, .done = digest_done}, .s = s, .part = part};
	list_init(&w->link);
	submit(w);
	return 0;
}

/* Leaves that lie wholly below the progress counter. The counter counts packed bytes in the order of the pieces. */
static uint64_t leaves_arrived(struct part *part, uint64_t progress)
{
	const struct layout *layout = &part->mem->layout;
	while (part->piece < layout->npieces && part->piece_bytes + layout->pieces[part->piece].bytes <= progress)
		part->piece_bytes += layout->pieces[part->piece++].bytes;
	if (part->piece == layout->npieces)
		return layout->nleaves;
	/* The rank can write any number, also one below what it has shown before. */
	uint64_t within = progress > part->piece_bytes ? progress - part->piece_bytes : 0;
	return layout->pieces[part->piece].first_leaf + within / LEAF_SIZE;
}

/* While the capture runs only whole units are worth an item; at the end the rest follows. */
int snapshot_digest_arrived(struct snapshot *s, struct part *part, bool complete)
{
	uint64_t progress = atomic_load_explicit(&part->mem->head->slots[part->slot].progress, memory_order_acquire);
	const struct layout *layout = &part->mem->layout;
	uint64_t arrived = complete ? layout->nleaves : leaves_arrived(part, min_u64(progress, layout->data_bytes));
	int rc = 0;
	while (!rc && part->in_flight < DIGEST_IN_FLIGHT && part->submitted < arrived) {
		uint64_t count = min_u64(DIGEST_UNIT, arrived - part->submitted);
		if (count < DIGEST_UNIT && !complete)
			break;
		rc = submit_digest(s, part, count);
	}
	return rc;
}

uint64_t snapshot_digested(struct part *part)
{
	const struct layout *layout = &part->mem->layout;
	bool all = list_empty(&part->digests);
	uint64_t leaf = all ? part->submitted : list_entry(part->digests.next, struct digest_work, link)->first;
	while (part->settled + 1 < layout->npieces && layout->pieces[part->settled + 1].first_leaf <= leaf)
		part->settled++;
	if (leaf == layout->nleaves)
		return layout->slot_size;
	const struct layout_piece *piece = &layout->pieces[part->settled];
	return piece->slot_at + (leaf - piece->first_leaf) * LEAF_SIZE;
}

void snapshot_compare_digests(struct snapshot *s, struct part *part)
{
	uint64_t *source = memory_leaves(part->mem, part->slot);
	uint64_t n = part->mem->layout.nleaves;
	if (part->mem->head->slots[part->slot].flags & SLOT_NO_SOURCE_DIGESTS) {
		/* The device has no digests of its own: from here on the host's are the reference. */
		memcpy(source, part->leaves, n * sizeof(*source));
	}
	int rc = failpoint("snapshot.digest", NULL);
	for (uint64_t i = 0; i < n || rc; i++) {
		if (!rc && source[i] == part->leaves[i])
			continue;
		char name[ERR_TEXT_MAX / 2];
		if (n)
			memory_name_leaf(part->mem, i, name, sizeof(name));
		else
			snprintf(name, sizeof(name), "rank %u", part->mem->table->reg.rank);
		snapshot_fail(s, -EBADMSG, "torn or damaged in capture: %s: the copy does not match its source", name);
		return;
	}
	part->state = PART_DIGESTED;
}
