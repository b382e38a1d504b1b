/* Retention: which checkpoints of a job stay. A pure function of what is there, of the policy and of the time, so that the
 * daemon, `ckpt forget` and a dry run cannot disagree. Who deletes, and how, is not decided here.
 *
 * Whatever the policy says, these stay: pinned and tagged ones, those in use, and the newest committed one. The newest
 * one that was read back and matched since its commit stays: until a newer one has been read back, nobody knows that any
 * newer one is good. The newest one that the training called healthy stays, too, which is where it goes back to. Where a
 * run began without restoring what was there (an epoch of `began`), nobody has said that what earlier epochs saved may
 * go. Of these the newest stay, as many as keep_last says and at least one, and the newest that was verified, and that is
 * healthy. So does the newest checkpoint of the run that tells where it began, as long as there are earlier ones. One
 * whose manifest cannot be read may have told it of its epoch: so it counts, until somebody says otherwise.
 *
 * A damaged checkpoint never takes the place of a good one: it is kept by none of the rules below. Neither does one that
 * was given up when the job went back: among those that count, the newest, the newest verified, the newest healthy and
 * as many as keep_last says stay, too. */
#ifndef CKPT_STORE_RETENTION_H
#define CKPT_STORE_RETENTION_H

#include "format/tensor/names.h"

/* A checkpoint stays if any rule keeps it; 0 turns a rule off; without any rule all stay. Hours and days are those of
 * UTC. */
struct retention_policy {
	uint32_t keep_last;      /* the newest so many */
	uint64_t keep_every;     /* those whose step is a multiple; of one step in several epochs, the newest */
	uint64_t keep_within_ns; /* those committed within this time before the newest */
	uint32_t keep_hourly;    /* the newest one of each of the last so many hours in which one was committed */
	uint32_t keep_daily;     /* likewise of days */
	bool give_up_runs;       /* nothing protects earlier runs */
};

enum retention_reason {
	RETENTION_NO_RULE = 1 << 0,
	RETENTION_PINNED = 1 << 1,
	RETENTION_TAGGED = 1 << 2,
	RETENTION_IN_USE = 1 << 3,
	RETENTION_NEWEST = 1 << 4,
	RETENTION_VERIFIED = 1 << 5, /* the newest that was read back and matched */
	RETENTION_LAST = 1 << 6,
	RETENTION_EVERY = 1 << 7,
	RETENTION_WITHIN = 1 << 8,
	RETENTION_HOURLY = 1 << 9,
	RETENTION_DAILY = 1 << 10,
	RETENTION_HEALTHY = 1 << 11, /* the newest that the training called healthy */
	RETENTION_EARLIER = 1 << 12, /* of a run before one that began without restoring it */
	RETENTION_BEGAN = 1 << 13,   /* tells where that one began, or may have told it */
};

struct retention_item {
	struct step_id id;
	uint64_t committed_ns;                          /* since the Unix epoch */
	bool verified, damaged, pinned, tagged, in_use; /* verified: since its commit */
	bool healthy;                                   /* the training said so */
	bool given_up;   /* the job went back to an older one (format/tensor/rollback.h) */
	uint32_t began;  /* manifest.h */
	bool unreadable; /* its manifest: what `began` would say is not known */
	unsigned keep;   /* result: all reasons for which it stays (retention_reason); 0: it may go */
};

enum { RETENTION_TEXT_MAX = 192 };

/* Decides for the committed checkpoints of one job, ordered by (epoch, step), oldest first (repo_scan). Returns how many
 * may go. now: clock_wall(); it bounds a commit time that lies ahead. Thread-safe. */
size_t retention_apply(const struct retention_policy *policy, uint64_t now, struct retention_item *items, size_t n);

/* The reasons in words, for people: "pinned, last, daily"; "" for none. */
void retention_text(unsigned keep, char dst[RETENTION_TEXT_MAX]);

#endif
