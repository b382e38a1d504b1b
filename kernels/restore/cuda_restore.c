/* Restore on CUDA: the state goes to the device in pieces, several at a time in flight; behind each the device digests what has arrived there,
 * and the host compares the digests with those of the capture while the next pieces are on their way, also those of the next call. What a
 * kernel packed a kernel unpacks, from spare memory of the device that lives as long as the piece. Memory that is not pinned goes through
 * memory that is. Waits ask with pauses, so that a device that hangs is noticed. */
#include "cuda_restore.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <stdlib.h>

/* ---- pieces under way -------------------------------------------------------------------------------------------- */

static void drop_load(struct device *dev, struct cuda_restoring *r, struct cuda_load *load)
{
	struct cuda_load **at = &r->loads;
	while (*at != load)
		at = &(*at)->next;
	*at = load->next;
	cuda_load_free(dev, load, r->lost);
}

static int await_piece(struct device *dev, struct cuda_restoring *r, struct restored_bad *bad, struct err *err)
{
	uint64_t number = r->awaited++;
	struct cuda_piece *piece = &r->flying[number % SCRATCH_PIECES];
	struct cuda_load *load = piece->load;
	int rc = cuda_await(dev, r->scratch.events[number % SCRATCH_PIECES], err);
	if (rc == 0)
		rc = cuda_load_compare(piece, cuda_scratch_digests(&r->scratch, number), &bad->leaf, err);
	if (rc < 0) {
		bad->origin = load->origin;
		return rc;
	}
	if (!--load->flying && cuda_load_sent(load))
		drop_load(dev, r, load);
	return 0;
}

static int issue_piece(struct device *dev, struct cuda_restoring *r, struct cuda_load *load, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	uint64_t number = r->issued;
	struct cuda_piece *piece = &r->flying[number % SCRATCH_PIECES];
	int rc = cuda_load_send(dev, load, &r->scratch, number, piece, err);
	uint64_t *digests = cuda_scratch_digests(&r->scratch, number);
	/* The kernel counts units from the table's beginning. */
	uint64_t *room = (uint64_t *)((uintptr_t)digests - piece->unit * sizeof(*digests));
	if (rc == 0 && load->leaves && piece->units)
		rc = cuda_check(dev,
				rt->digest(rt, dev->copies, &load->table.gpu, piece->unit, piece->units, room, NULL),
				"starting the digests", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, r->scratch.events[number % SCRATCH_PIECES], dev->copies),
				"recording an event", err);
	r->issued++;
	load->flying++;
	return rc;
}

/* Nothing is under way any more, whatever has become of it. */
static int end_all(struct device *dev, struct cuda_restoring *r, struct err *err)
{
	int rc = cuda_drain(dev, dev->copies, err);
	r->lost = rc == -ETIMEDOUT;
	while (r->loads)
		drop_load(dev, r, r->loads);
	r->awaited = r->issued;
	return rc;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int come_behind(struct device *dev, struct rt_stream *stream, struct err *err)
{
	struct cuda_rt *rt = dev->rt;
	int rc = cuda_stand_in(dev, stream, &stream, err);
	if (rc == 0)
		rc = cuda_check(dev, rt->event_record(rt, dev->order, stream), "recording an event", err);
	if (rc == 0)
		rc = cuda_check(dev, rt->stream_wait(rt, dev->copies, dev->order), "waiting for an event", err);
	return rc;
}

static int put(struct device *dev, struct cuda_restoring *r, struct cuda_load *load, struct rt_stream *stream,
	       struct restored_bad *bad, struct err *err)
{
	int rc = cuda_scratch_make(dev, &r->scratch, load->bounced, err);
	if (rc == 0)
		rc = come_behind(dev, stream, err);
	while (rc == 0 && !cuda_load_sent(load)) {
		bool full = r->issued - r->awaited == SCRATCH_PIECES;
		rc = full ? await_piece(dev, r, bad, err) : issue_piece(dev, r, load, err);
	}
	if (rc == 0 && !load->flying)
		drop_load(dev, r, load);
	return rc;
}

static int begin(struct device *dev, struct cuda_restoring **out, const uint64_t *leaves, struct err *err)
{
	if (leaves && !dev->rt->digest)
		return err_set(err, -EOPNOTSUPP, "GPU %d makes no digests to compare with", dev->ordinal);
	if (!dev->restoring)
		dev->restoring = calloc(1, sizeof(*dev->restoring));
	if (!dev->restoring)
		return err_set(err, -ENOMEM, "out of memory for a restore");
	*out = dev->restoring;
	/* What hung may have come to its end meanwhile. */
	return dev->restoring->lost ? end_all(dev, dev->restoring, err) : 0;
}

static int put_entered(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		       void *stream, const void *origin, struct restored_bad *bad, struct err *err)
{
	struct cuda_restoring *r = NULL;
	struct cuda_load *load = NULL;
	int rc = begin(dev, &r, leaves, err);
	if (rc == 0)
		rc = cuda_load_new(dev, base, spans, n, leaves, origin, &load, err);
	if (load) {
		load->next = r->loads;
		r->loads = load;
	}
	if (rc == 0)
		rc = put(dev, r, load, stream, bad, err);
	if (rc < 0 && dev->restoring)
		(void)end_all(dev, dev->restoring, NULL);
	return rc;
}

static int end_entered(struct device *dev, struct restored_bad *bad, struct err *err)
{
	struct cuda_restoring *r = dev->restoring;
	int rc = 0;
	while (rc == 0 && r->awaited < r->issued)
		rc = await_piece(dev, r, bad, err);
	int drained = end_all(dev, r, rc < 0 ? NULL : err);
	return rc < 0 ? rc : drained;
}

int cuda_restore_put(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		     void *stream, const void *origin, struct restored_bad *bad, struct err *err)
{
	struct cuda_former former;
	*bad = (struct restored_bad){.leaf = UINT64_MAX};
	int rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	cuda_range_begin(dev, "ckpt: restore");
	rc = put_entered(dev, base, spans, n, leaves, stream, origin, bad, err);
	cuda_range_end(dev);
	cuda_leave(dev, &former);
	return rc;
}

int cuda_restore_end(struct device *dev, struct restored_bad *bad, struct err *err)
{
	struct cuda_former former;
	*bad = (struct restored_bad){.leaf = UINT64_MAX};
	if (!dev->restoring || dev->restoring->awaited == dev->restoring->issued)
		return 0;
	int rc = cuda_enter(dev, &former, err);
	if (rc < 0)
		return rc;
	rc = end_entered(dev, bad, err);
	cuda_leave(dev, &former);
	return rc;
}

int cuda_restore(struct device *dev, const void *base, const struct span *spans, size_t n, const uint64_t *leaves,
		 void *stream, uint64_t *bad_leaf, struct err *err)
{
	struct restored_bad bad;
	int rc = cuda_restore_put(dev, base, spans, n, leaves, stream, NULL, &bad, err);
	if (rc == 0)
		rc = cuda_restore_end(dev, &bad, err);
	if (rc == -EBADMSG && bad_leaf && bad.leaf != UINT64_MAX)
		*bad_leaf = bad.leaf;
	return rc;
}

void cuda_restoring_free(struct device *dev, bool idle)
{
	if (!dev->restoring)
		return;
	while (dev->restoring->loads)
		drop_load(dev, dev->restoring, dev->restoring->loads);
	cuda_scratch_free(dev, &dev->restoring->scratch, idle);
	free(dev->restoring);
	dev->restoring = NULL;
}
