/* Job blobs: which blobs of the job a rank has registered. All ranks that enter together have the same: within a node whole tables are
 * compared, between nodes this. Encoding: u32 n, u64 digest, then of each named blob str name, u64 bytes. */
#ifndef CKPT_FORMAT_JOB_BLOBS_H
#define CKPT_FORMAT_JOB_BLOBS_H

#include "format/arena/registration.h"

enum { JOB_BLOBS_NAMED = 16 };

struct job_blobs {
	uint32_t n;
	uint64_t digest; /* of all names and sizes */
	struct job_blob {
		char name[NAME_TENSOR_MAX];
		uint64_t bytes;
	} named[JOB_BLOBS_NAMED]; /* the first of the n in order of their names */
};

/* The table has its index (registration_decode). */
void job_blobs_of(const struct registration *reg, struct job_blobs *out);
bool job_blobs_alike(const struct job_blobs *a, const struct job_blobs *b);
/* -EINVAL names a blob that one has and the other has not, or has with another size; beyond the named ones, how many each has. */
int job_blobs_compare(const struct job_blobs *a, uint32_t a_rank, const struct job_blobs *b, uint32_t b_rank,
		      struct err *err);

void job_blobs_put(struct wbuf *out, const struct job_blobs *blobs);
/* Fails when they do not stand in order, or are more or fewer than n says. */
void job_blobs_get(struct rbuf *r, struct job_blobs *blobs);

/* Whether the n ranks that join together have registered the same blobs of the job: -EINVAL names one that a rank has and another has not.
 * Not for what was saved before this was asked of a job: that can be restored. */
int registrations_share_blobs(const struct registration *const *regs, uint32_t n, struct err *err);

#endif
