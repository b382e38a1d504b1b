#include "format/arena/job_blobs.h"

#include "base/quoted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In what is chained of a blob of changing size: no blob has as many bytes. */
#define SIZED_BIT (1ull << 63)

static uint32_t named(const struct job_blobs *blobs)
{
	return blobs->n < JOB_BLOBS_NAMED ? blobs->n : JOB_BLOBS_NAMED;
}

/* What is chained: the digest of those before, the size, the name. */
static uint64_t chain(uint64_t digest, const char *name, uint64_t bytes)
{
	uint8_t text[2 * sizeof(uint64_t) + sizeof(uint16_t) + NAME_TENSOR_MAX];
	struct wbuf out = wbuf_over(text, sizeof(text));
	wbuf_u64(&out, digest);
	wbuf_u64(&out, bytes);
	wbuf_str(&out, name);
	return digest_bytes(text, out.len).low;
}

void job_blobs_of(const struct registration *reg, struct job_blobs *out)
{
	*out = (struct job_blobs){0};
	for (uint32_t i = 0; i < reg->nentries; i++) {
		const struct entry *e = &reg->entries[reg->by_name[i]];
		if (e->kind != ENTRY_JOB_BLOB)
			continue;
		uint64_t bytes = e->shape.dim[0];
		if (out->n < JOB_BLOBS_NAMED) {
			snprintf(out->named[out->n].name, sizeof(out->named[0].name), "%s", e->name);
			out->named[out->n].bytes = bytes;
		}
		out->n++;
		out->digest = chain(out->digest, e->name, bytes | (e->sized ? SIZED_BIT : 0));
	}
}

static int one_lacks(const char *name, uint32_t has, uint32_t lacks, struct err *err)
{
	return err_set(err, -EINVAL,
		       "blob %s of the job is registered on rank %u, but not on rank %u: register it on every rank, or "
		       "with scope rank",
		       quoted(name).text, has, lacks);
}

bool job_blobs_alike(const struct job_blobs *a, const struct job_blobs *b)
{
	return a->n == b->n && a->digest == b->digest;
}

int job_blobs_compare(const struct job_blobs *a, uint32_t a_rank, const struct job_blobs *b, uint32_t b_rank,
		      struct err *err)
{
	if (job_blobs_alike(a, b))
		return 0;
	for (uint32_t i = 0; i < named(a) || i < named(b); i++) {
		const struct job_blob *x = &a->named[i], *y = &b->named[i];
		int order = i >= named(a) ? 1 : i >= named(b) ? -1 : strcmp(x->name, y->name);
		if (order < 0)
			return one_lacks(x->name, a_rank, b_rank, err);
		if (order > 0)
			return one_lacks(y->name, b_rank, a_rank, err);
		if (x->bytes != y->bytes)
			return err_set(err, -EINVAL,
				       "blob %s of the job has %" PRIu64 " bytes on rank %u, but %" PRIu64
				       " on rank %u",
				       quoted(x->name).text, x->bytes, a_rank, y->bytes, b_rank);
	}
	return err_set(err, -EINVAL,
		       "rank %u has registered %u blobs of the job and rank %u %u, and they are not the same: register "
		       "each on every rank, or with scope rank",
		       a_rank, a->n, b_rank, b->n);
}

void job_blobs_put(struct wbuf *out, const struct job_blobs *blobs)
{
	wbuf_u32(out, blobs->n);
	wbuf_u64(out, blobs->digest);
	for (uint32_t i = 0; i < named(blobs); i++) {
		wbuf_str(out, blobs->named[i].name);
		wbuf_u64(out, blobs->named[i].bytes);
	}
}

void job_blobs_get(struct rbuf *r, struct job_blobs *blobs)
{
	*blobs = (struct job_blobs){.n = rbuf_u32(r)};
	blobs->digest = rbuf_u64(r);
	for (uint32_t i = 0; !r->failed && i < named(blobs); i++) {
		struct job_blob *b = &blobs->named[i];
		rbuf_str(r, b->name, sizeof(b->name));
		b->bytes = rbuf_u64(r);
		if (i && strcmp(b[-1].name, b->name) >= 0)
			r->failed = true;
	}
}

int registrations_share_blobs(const struct registration *const *regs, uint32_t n, struct err *err)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < regs[i]->nentries; k++) {
			const struct entry *e = &regs[i]->entries[k];
			for (uint32_t j = 0; e->kind == ENTRY_JOB_BLOB && j < n; j++)
				if (!registration_find(regs[j], e->name))
					return one_lacks(e->name, regs[i]->rank, regs[j]->rank, err);
		}
	}
	return 0;
}
