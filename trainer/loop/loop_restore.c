#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/message.h"
#include "loop/loop_internal.h"

static void warn_of_another_run(struct loop *l)
{
	const struct counters *c = &l->state.counters;

	if (l->communicator.rank == 0 &&
	    (c->seed != l->options->seed || c->batch != l->options->batch || c->text != data_fingerprint(l->data)))
		message(0,
			"the checkpoint of step %" PRIu64
			" comes from a run with another seed, batch or text: this one is not "
			"its continuation bit for bit",
			c->step);
}

static int start_afresh(struct loop *l)
{
	int rc;

	l->entry.restored = CKPT_INIT(ckpt_restored);
	rc = state_reset(&l->state, l->options, data_fingerprint(l->data));

	return rc < 0 ? loop_fail(l, rc, *l->platform->device.why ? l->platform->device.why : "out of memory") : 0;
}

/* -ENOENT: there is none, or not the one that was asked for, or an older one may do: *broken is set where that is there, but cannot be
 * read. */
static int restore_step(struct loop *l, uint64_t step, int *broken)
{
	int rc;

	l->entry.restored = CKPT_INIT(ckpt_restored);
	ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_RESTORE);
	rc = ckpt_restore(l->session, step, l->saver.stream, &l->entry.restored, -1);
	if (step <= CKPT_LATEST_HEALTHY && rc == -ENODATA)
		return -ENOENT;
	if (step <= CKPT_LATEST_HEALTHY && (rc == -EBADMSG || rc == -EIO)) {
		*broken = communicator_library_error(&l->communicator, "restore", rc);
		return -ENOENT;
	}
	if (rc < 0)
		return rc == -ENOENT ? rc
				     : loop_fail(l, communicator_library_error(&l->communicator, "restore", rc),
						 l->communicator.why);
	if (l->state.counters.version != STATE_VERSION) {
		snprintf(l->why, sizeof(l->why),
			 "the checkpoint of step %" PRIu64 " has counters of version %" PRIu64
			 ", this trainer knows version %d",
			 l->entry.restored.step, l->state.counters.version, STATE_VERSION);
		return -EPROTONOSUPPORT;
	}
	warn_of_another_run(l);
	return 0;
}

/* *largest becomes the largest that any rank has to say. */
static int agree_on_largest(struct loop *l, uint64_t *largest)
{
	uint64_t *all = calloc((size_t)l->communicator.world, sizeof(*all));
	int rc;

	if (!all)
		return loop_fail(l, -ENOMEM, "out of memory");
	all[l->communicator.rank] = *largest;
	rc = communicator_gather(&l->communicator, all, sizeof(*all));
	for (int r = 0; rc == 0 && r < l->communicator.world; r++)
		*largest = all[r] > *largest ? all[r] : *largest;
	free(all);
	return rc < 0 ? loop_fail(l, rc, l->communicator.why) : 0;
}

/* Only where there is nothing to go back to; what cannot be read may be read tomorrow, and is not to be trained over. */
static int start_afresh_unless(struct loop *l, int broken)
{
	uint64_t any = broken < 0;
	int rc = agree_on_largest(l, &any);

	if (rc < 0)
		return rc;
	if (broken < 0)
		return loop_fail(l, broken, l->communicator.why);
	return any ? loop_fail(l, -EIO, "another rank cannot read what it is to go back to") : start_afresh(l);
}

/* The newest one that was marked healthy, also by earlier processes; where none ever was, what was due before the trouble. */
static int restore_healthy(struct loop *l)
{
	uint64_t step = CKPT_LATEST_HEALTHY;
	int broken = 0;
	int rc;

	saver_doubt(&l->saver);
	l->noted = 0;
	while ((rc = restore_step(l, step, &broken)) == -ENOENT) {
		step = monitor_scheduled(&l->monitor, step);
		rc = agree_on_largest(l, &step);
		if (rc < 0)
			return rc;
		if (!step)
			return start_afresh_unless(l, broken);
	}
	return rc;
}

int loop_restore(struct loop *l)
{
	uint64_t back = l->back;
	int broken, rc = agree_on_largest(l, &back);

	if (rc < 0)
		return rc;
	l->back = back != 0; /* also in a process that has replaced another since */
	if (back)
		return restore_healthy(l);
	rc = restore_step(l, CKPT_LATEST, &broken);
	if (rc == -ENOENT)
		return start_afresh(l);
	/* Good steps from here show that it is healthy, whoever has saved it. */
	if (rc == 0)
		monitor_safe(&l->monitor, (struct monitor_save){l->entry.restored.step, l->entry.restored.epoch});
	return rc;
}
