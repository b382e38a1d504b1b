#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/message.h"
#include "loop/loop_internal.h"

int loop_fail(struct loop *l, int rc, const char *why)
{
	if (why != l->why)
		snprintf(l->why, sizeof(l->why), "%s", why);
	return rc;
}

bool loop_wants_stop(const struct loop *l)
{
	return *l->stop || ckpt_should_stop(l->session);
}

bool loop_patience_ended(const struct loop *l)
{
	return monotonic_ns() - l->advanced_ns > l->options->patience_ms * 1000000;
}

static int live(struct loop *l, struct loop_result *result)
{
	int rc;

	l->advanced_ns = monotonic_ns();
	l->entry.reason = l->reason;
	l->entry.left = l->left;
	while (true) {
		l->communicator.why[0] = l->saver.why[0] = l->platform->device.why[0] = '\0';
		rc = loop_enter(l);
		if (rc == 0)
			rc = loop_train(l);
		if (rc == 0)
			rc = loop_finish(l, result);
		if (rc != -ESTALE)
			return rc;
		rc = loop_leave(l);
		if (rc < 0)
			return rc;
	}
}

/* ---- around it ----------------------------------------------------------------------------------------------- */

static int open_session(struct loop *l)
{
	ckpt_options o = CKPT_INIT(ckpt_options);

	o.rank = l->options->rank;
	o.world = l->options->world;
	o.strict = l->options->strict;
	o.vote = l->options->no_vote ? -1 : 1;
	o.on_epoch = cancel_raise;
	o.on_epoch_arg = &l->cancel;
	return ckpt_open(&o, &l->session, l->why, sizeof(l->why));
}

static int check_text(struct loop *l)
{
	if (data_size(l->data) > (size_t)l->options->model.seq_len)
		return 0;
	snprintf(l->why, sizeof(l->why), "the text has %zu bytes, a row needs %d: give more text or a smaller --seq",
		 data_size(l->data), l->options->model.seq_len + 1);
	return -ENODATA;
}

/* NCCL connects, or aborts: a rank that waits for that has not hung. The last abort comes when the session is closed. */
static void beat(void *self)
{
	const struct loop *l = self;

	if (l->session)
		ckpt_beat(l->session, l->state.counters.step, CKPT_PHASE_COLLECTIVE);
}

/* Everything that lives as long as the session. What was made is freed by tear_down(). */
static int set_up(struct loop *l)
{
	l->communicator = (struct communicator){.session = l->session,
						.waiting = {beat, l},
						.cancel = &l->cancel,
						.way = &l->platform->way,
						.address = l->options->address,
						.timeout_ms = l->options->timeout_ms};
	l->saver = (struct saver){.session = l->session,
				  .cancel = &l->cancel,
				  .report = &l->report,
				  .stream = l->platform->way.stream.stream,
				  .memory_every = l->options->memory_every,
				  .storage_every = l->options->storage_every,
				  .automatic = l->options->save_auto};
	l->monitor = (struct monitor){.need = l->options->healthy_after, .every = l->options->storage_every};
	l->step = (struct step){.options = l->options,
				.data = l->data,
				.state = &l->state,
				.communicator = &l->communicator,
				.saver = &l->saver,
				.device = &l->platform->device,
				.faults = &l->faults};
	return loop_make_state(l);
}

/* The session first: it reads registered memory until then. */
static void tear_down(struct loop *l, int outcome)
{
	int rc;

	saver_forget(&l->saver);
	rc = ckpt_close(l->session);
	l->session = NULL;
	if (rc < 0 && outcome == 0)
		message(l->communicator.rank, "a save to storage had failed: %s", strerror(-rc));
	if (communicator_leave(&l->communicator) < 0 && outcome == 0)
		message(l->communicator.rank, "%s", l->communicator.why);
	loop_free_state(l);
}

/* Where the GPU is only what would be nice to have, the host does. */
static int open_platform(struct loop *l)
{
	const struct train_options *o = l->options;
	char why[PLATFORM_WHY_SIZE] = "this program was built without CUDA";
	int rc = -ENODEV;

	if (o->device != DEVICE_HOST && o->open_gpu)
		rc = o->open_gpu(&l->platform, why);
	if (rc < 0 && o->device == DEVICE_CUDA) {
		snprintf(l->why, sizeof(l->why), "--device cuda: %s", why);
		return rc;
	}
	if (rc < 0)
		l->platform = platform_host();
	if (!l->platform)
		return loop_fail(l, -ENOMEM, "out of memory");
	return 0;
}

static int run_session(struct loop *l, struct loop_result *result)
{
	int rc = open_session(l);

	if (rc < 0)
		return rc;
	rc = set_up(l);
	if (rc == 0)
		rc = live(l, result);
	if (rc == 0 && l->options->dump && l->communicator.rank == 0) {
		rc = state_dump(&l->state, l->options->dump);
		if (rc < 0)
			snprintf(l->why, sizeof(l->why), "%s: %s", l->options->dump, strerror(-rc));
	}
	if (rc != -ENOTRECOVERABLE)
		tear_down(l, rc);
	return rc;
}

static int read_faults(struct loop *l)
{
	char why[FAULTS_WHY_SIZE];

	return faults_parse(&l->faults, l->options->faults, why) < 0 ? loop_fail(l, -EINVAL, why) : 0;
}

static int run(struct loop *l, struct loop_result *result)
{
	int rc = check_text(l);

	if (rc == 0)
		rc = read_faults(l);
	if (rc < 0)
		return rc;
	rc = report_open(&l->report, l->options->report);
	if (rc < 0) {
		snprintf(l->why, sizeof(l->why), "%s: %s", l->options->report, strerror(-rc));
		return rc;
	}
	rc = cancel_open(&l->cancel);
	if (rc < 0) {
		snprintf(l->why, sizeof(l->why), "eventfd: %s", strerror(-rc));
	} else {
		rc = open_platform(l);
		if (rc == 0)
			rc = run_session(l, result);
		if (rc == -ENOTRECOVERABLE)
			return rc;
		if (l->platform)
			l->platform->close(l->platform);
		cancel_close(&l->cancel);
	}
	report_close(&l->report);
	return rc;
}

/* The device, or threads that wait for it, may still use any of it, until the process ends: nothing of it is freed, and it can be found. */
static void keep(struct loop *l)
{
	static _Atomic(struct loop *) kept;

	l->kept_before = atomic_exchange(&kept, l);
}

/* Whether the device itself is lost, or only what this process had on it. */
static void explain(struct loop *l, char why[LOOP_WHY_SIZE])
{
	struct device *d = l->platform ? &l->platform->device : NULL;
	char text[DEVICE_WHY_SIZE] = "";
	size_t length = strlen(why);

	if (d && d->explain)
		d->explain(d, text, sizeof(text));
	if (*text)
		snprintf(why + length, LOOP_WHY_SIZE - length, "; %s", text);
}

int loop_run(const struct train_options *options, const struct data *data, const volatile sig_atomic_t *stop,
	     struct loop_result *result, char why[LOOP_WHY_SIZE])
{
	struct loop *l = calloc(1, sizeof(*l));
	int rc;

	if (!l) {
		snprintf(why, LOOP_WHY_SIZE, "out of memory");
		return -ENOMEM;
	}
	l->options = options;
	l->data = data;
	l->stop = stop;
	rc = run(l, result);
	snprintf(why, LOOP_WHY_SIZE, "%s", rc < 0 ? l->why : "");
	if (rc == -ENOTRECOVERABLE) {
		explain(l, why);
		keep(l);
	} else {
		free(l);
	}
	return rc;
}
