/* A listing: what `ckpt list` says of a checkpoint, from MANIFEST.json and the marks. One that was noted holds as long as its stamp does.
 *
 * All that happens to a checkpoint (committed, marked, pinned, removed) makes, replaces or removes a name in its directory, and that
 * changes the directory's time of change, which nobody can set back. Where it has the time that was noted, reading again would give the
 * same, but for bytes that were changed in place: to find those is for who reads everything (verify, scrub). A time that was young when
 * it was noted proves nothing: the next change may have had the same. */
#ifndef CKPT_STORE_LISTING_H
#define CKPT_STORE_LISTING_H

#include "store/read/repo.h"

enum listing_state {
	LISTING_COMMITTED = 1,
	LISTING_VERIFIED,
	LISTING_DAMAGED,    /* a full read found damage, or its manifest does not hold */
	LISTING_UNREADABLE, /* its manifest could not be read now, which says nothing about it */
};

struct listing {
	char job[NAME_JOB_MAX];
	struct step_id id;
	enum listing_state state;
	bool known; /* what MANIFEST.json says: */
	uint64_t bytes, stored, files;
	uint32_t ranks, nodes;
	uint32_t began; /* format/files/manifest.h */
	bool pinned;
	enum listing_mark { LISTING_NO_MARK = 0, LISTING_HEALTHY, LISTING_UNHEALTHY } mark;
	uint64_t committed_ns, verified_ns; /* verified_ns: 0 unless verified or damaged */
	struct listing_stamp {
		uint64_t dir, dir_ns; /* inode, time of change */
		uint64_t noted_ns;    /* wall clock, before the rest was read */
	} stamp;
};

/* Young is what changed within this before it was noted: the coarsest times of change that file systems keep, and clocks that differ. */
#define LISTING_YOUNG_NS 2000000000ull

/* Of several checkpoints, in the order of repo_scan. */
struct listings {
	struct listing *list;
	size_t n;
};

/* Reads it, whatever was noted. False: it has been removed since it was listed. `why` stays empty where all is well. */
bool listing_read(struct repo *repo, const struct checkpoint_ref *ref, struct listing *listing, struct err *why);
/* Those of one job, in *all (NULL: none) still, and one of them, or NULL. */
struct listings listings_of(const struct listings *all, const char *job);
const struct listing *listings_find(struct listings of_job, struct step_id id);
/* Whether it holds for the checkpoint of this name in the directory of the job. */
bool listing_holds(const struct listing *listing, struct disk *disk, int job_dir, const char *name);
void listings_free(struct listings *listings);

#endif
