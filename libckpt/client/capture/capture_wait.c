#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ckpt.h"
#include "client/capture/capture.h"

#include <inttypes.h>
#include <stdio.h>

/* Of a leaf that strict mode has seen change. */
static const char *leaf_text(const struct capture *c, uint64_t leaf, char *dst, size_t size)
{
	for (uint32_t i = 0; leaf >= c->arena->nleaves && i < c->witnesses.npieces; i++) {
		const struct witness_piece *p = &c->witnesses.pieces[i];
		if (leaf < p->first_leaf || leaf - p->first_leaf >= p->nleaves)
			continue;
		snprintf(dst, size, "tensor %s, from byte %" PRIu64 " of its piece on",
			 c->arena->reg.entries[p->entry].name, (leaf - p->first_leaf) * LEAF_SIZE);
		return dst;
	}
	return arena_leaf_text(c->arena, leaf, dst, size);
}

/* A device waits in slices: until then. */
static uint64_t slice_of(const struct patience *p)
{
	return min_u64(p->deadline, clock_deadline(p->every_ns));
}

/* Whether it was only the slice that is over. */
static bool goes_on(const struct patience *p, uint64_t slice, int rc)
{
	if (rc != -ETIMEDOUT || slice == p->deadline || clock_now() < slice)
		return false;
	p->waiting(p->arg);
	return true;
}

static int fence_on(struct capture *c, const struct capture_device *d, uint32_t slot, uint32_t group, void *stream,
		    const struct patience *p, struct err *err)
{
	uint64_t leaf = UINT64_MAX, slice;
	char where[700];
	int rc;
	do {
		slice = slice_of(p);
		rc = d->ops->plan_fence(d->plans[slot], group, d->ordinal == CKPT_HOST ? NULL : stream, slice, &leaf,
					err);
	} while (goes_on(p, slice, rc));
	if (rc == -EBADMSG && leaf != UINT64_MAX)
		return err_set(err, rc, "the state was changed while it was captured: %s",
			       leaf_text(c, leaf, where, sizeof(where)));
	return rc;
}

/* The state may be read yet, and the caller is to call again: of several devices that counts for more than what has failed. */
static bool is_due_again(int rc)
{
	return rc == -ETIMEDOUT || rc == -EINVAL;
}

/* Also behind a failure: nothing may read the state of the others either. */
int capture_fence(struct capture *c, uint32_t slot, uint32_t group, void *stream, const struct patience *patience,
		  struct err *err)
{
	int first = 0;
	for (uint32_t i = 0; i < c->nactive; i++) {
		struct err why = {0};
		int rc = fence_on(c, &c->devices[i], slot, group, stream, patience, &why);
		if (!rc || (first && (is_due_again(first) || !is_due_again(rc))))
			continue;
		*err = why;
		first = rc;
	}
	return first;
}

void capture_cancel(struct capture *c, uint32_t slot)
{
	for (uint32_t i = 0; i < c->nactive && capture_slot_ready(c, slot); i++)
		c->devices[i].ops->plan_cancel(c->devices[i].plans[slot]);
}

static int end_on(const struct capture_device *d, const struct patience *p, struct err *err)
{
	uint64_t slice;
	int rc;
	do {
		slice = slice_of(p);
		rc = d->ops->idle(d->dev, slice, err);
	} while (goes_on(p, slice, rc));
	return rc;
}

int capture_end(struct capture *c, const struct patience *patience, struct err *err)
{
	for (uint32_t slot = 0; slot < c->arena->nslots; slot++)
		capture_cancel(c, slot);
	LOCK_SCOPE(&c->slots.devices);
	/* Also behind one that hangs: as few as can be are left. What is dead reads nothing, and is no error. */
	int first = 0;
	for (uint32_t i = 0; i < c->ndevices; i++) {
		struct err why = {0};
		if (end_on(&c->devices[i], patience, &why) != -ETIMEDOUT || first)
			continue;
		*err = why;
		first = -ETIMEDOUT;
	}
	return first;
}
