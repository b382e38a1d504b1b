#include "fake_ckpt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"

enum { PIECES = 128, WAIT_MS = 60000 };

struct piece {
	void *data;
	size_t bytes;
	bool of_rank, alike;
};

struct ckpt {
	int rank, world;
	uint32_t epoch;
	struct piece pieces[PIECES];
	int count;
	size_t bytes;
	ckpt_epoch_fn *on_epoch;
	void *on_epoch_arg;
	ckpt_view view;
	uint8_t addresses[FAKE_RANKS][CKPT_ADDRESS_MAX];
	uint32_t address_len[FAKE_RANKS];
	bool stop, votes;
	uint64_t at; /* its last beat */
	char error[128];
};

struct ckpt_snapshot {
	ckpt *session;
	uint64_t step;
	uint32_t epoch;
};

static struct fake_job *job;

void fake_start(struct fake_job *j, int world)
{
	pthread_condattr_t attributes;

	*j = (struct fake_job){.world = world, .epoch = 1, .join_ms = WAIT_MS};
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&j->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	job = j;
}

static void free_save(struct fake_save *save)
{
	for (int r = 0; r < FAKE_RANKS; r++)
		free(save->copy[r]);
}

void fake_end(struct fake_job *j)
{
	for (int i = 0; i < j->save_count; i++)
		free_save(&j->saves[i]);
	pthread_cond_destroy(&j->changed);
	pthread_mutex_destroy(&j->lock);
	job = NULL;
}

/* With the lock held. */
static void raise_epoch(struct fake_job *j, const char *reason)
{
	bool keep[FAKE_SAVES];
	int kept = 0;

	j->epoch++;
	for (int i = 0; i < j->save_count; i++)
		keep[i] = fake_complete(j, &j->saves[i]);
	for (int i = 0; i < j->save_count; i++)
		if (keep[i])
			j->saves[kept++] = j->saves[i];
		else
			free_save(&j->saves[i]);
	j->save_count = kept;
	for (int r = 0; r < j->world; r++)
		if (j->session[r] && j->session[r]->epoch)
			j->session[r]->on_epoch(j->session[r]->on_epoch_arg, j->epoch, reason);
	pthread_cond_broadcast(&j->changed);
}

void fake_lost(struct fake_job *j, int rank)
{
	pthread_mutex_lock(&j->lock);
	j->joining[rank] = false;
	free(j->session[rank]); /* when its process did not close it */
	j->session[rank] = NULL;
	raise_epoch(j, "a rank is lost");
	pthread_mutex_unlock(&j->lock);
}

/* With the lock held: waits for a change. 0 or -ETIMEDOUT. */
static int wait_change(int64_t deadline)
{
	struct timespec until = {deadline / 1000000000, deadline % 1000000000};

	return -pthread_cond_timedwait(&job->changed, &job->lock, &until);
}

static int fail(ckpt *s, int rc)
{
	snprintf(s->error, sizeof(s->error), "fake error %d", rc);
	return rc;
}

/* ---- ckpt.h -------------------------------------------------------------------------------------------------- */

int ckpt_open(const ckpt_options *options, ckpt **out, char *why, size_t why_size)
{
	ckpt *s = calloc(1, sizeof(*s));

	snprintf(why, why_size, "%s", "");
	s->rank = options->rank;
	s->world = options->world;
	s->votes = options->vote > 0;
	s->on_epoch = options->on_epoch;
	s->on_epoch_arg = options->on_epoch_arg;
	*out = s;
	return 0;
}

/* A session has its place from its first join on: who opens later may be one whose place another has moved to. */
static void leave_place(ckpt *s)
{
	if (job->session[s->rank] == s)
		job->session[s->rank] = NULL;
}

int ckpt_close(ckpt *s)
{
	pthread_mutex_lock(&job->lock);
	leave_place(s);
	pthread_mutex_unlock(&job->lock);
	free(s);
	return 0;
}

const char *ckpt_error(const ckpt *s)
{
	return s->error;
}

int ckpt_rank(const ckpt *s)
{
	return s->rank;
}

int ckpt_world(const ckpt *s)
{
	return s->world;
}

static int add_piece(ckpt *s, void *data, size_t bytes, bool of_rank, bool alike)
{
	if (s->count == PIECES)
		return fail(s, -ENOSPC);
	s->pieces[s->count++] = (struct piece){data, bytes, of_rank, alike};
	s->bytes += bytes;
	return 0;
}

/* Floats, as whole tensors or flat ranges: what the trainer has. */
int ckpt_register_tensor(ckpt *s, const ckpt_tensor *t)
{
	uint64_t elements = 1;

	for (int i = 0; i < t->ndim; i++)
		elements *= t->shape[i];
	if (t->dtype != CKPT_F32 || t->npieces != 1 || t->pieces->start + t->pieces->count > elements)
		return fail(s, -ERANGE);
	return add_piece(s, t->pieces->data, sizeof(float) * (t->pieces->count ? t->pieces->count : elements), false,
			 t->replica != NULL);
}

int ckpt_register_device_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes, int device)
{
	(void)name, (void)device;
	return add_piece(s, data, bytes, scope == CKPT_SCOPE_RANK, false);
}

int ckpt_register_blob(ckpt *s, const char *name, ckpt_scope scope, void *data, size_t bytes)
{
	return ckpt_register_device_blob(s, name, scope, data, bytes, CKPT_HOST);
}

static bool all_joining(void)
{
	for (int r = 0; r < job->world; r++)
		if (!job->joining[r])
			return false;
	return true;
}

static void open_barrier(void)
{
	for (int r = 0; r < job->world; r++) {
		ckpt *s = job->session[r];

		job->joining[r] = false;
		s->epoch = job->epoch;
		memcpy(s->addresses, job->addresses, sizeof(s->addresses));
		memcpy(s->address_len, job->address_len, sizeof(s->address_len));
	}
	job->joined++;
	pthread_cond_broadcast(&job->changed);
}

/* Its table is empty again. */
static int move(ckpt *s)
{
	pthread_mutex_lock(&job->lock);
	leave_place(s);
	s->rank -= job->shrunk;
	s->world = job->world;
	pthread_mutex_unlock(&job->lock);
	s->count = 0;
	s->bytes = 0;
	return fail(s, -EREMCHG);
}

int ckpt_join(ckpt *s, const void *address, size_t len, const ckpt_view **view, int timeout_ms)
{
	int64_t deadline = deadline_in_ms(timeout_ms >= 0 && timeout_ms < job->join_ms ? timeout_ms : job->join_ms);
	unsigned int barrier;
	int rc = 0;

	if (s->world != job->world)
		return move(s);
	pthread_mutex_lock(&job->lock);
	job->session[s->rank] = s;
	if (s->epoch == job->epoch) { /* it leaves an epoch that nobody else has ended */
		s->epoch = 0;
		raise_epoch(job, "a rank joins again");
	}
	memcpy(job->addresses[s->rank], address, len);
	job->address_len[s->rank] = (uint32_t)len;
	job->joining[s->rank] = true;
	pthread_cond_broadcast(&job->changed);
	barrier = job->joined;
	if (all_joining())
		open_barrier();
	while (rc == 0 && job->joined == barrier)
		rc = wait_change(deadline);
	if (rc < 0)
		job->joining[s->rank] = false;
	pthread_mutex_unlock(&job->lock);
	s->view = (ckpt_view){sizeof(s->view), s->epoch, s->rank, s->world, 0, s->addresses[0], s->address_len};
	*view = &s->view;
	return rc < 0 ? fail(s, rc) : 0;
}

/* Of all pieces, or of the replicas alone. */
static uint64_t digest(const ckpt *s, bool alike)
{
	uint64_t sum = 1;

	for (int i = 0; i < s->count; i++)
		for (size_t at = 0; (!alike || s->pieces[i].alike) && at < s->pieces[i].bytes; at++)
			sum = (sum ^ ((const uint8_t *)s->pieces[i].data)[at]) * UINT64_C(0x100000001b3);
	return sum;
}

static void *copy_out(const ckpt *s)
{
	uint8_t *copy = malloc(s->bytes), *to = copy;

	for (int i = 0; i < s->count; to += s->pieces[i++].bytes)
		memcpy(to, s->pieces[i].data, s->pieces[i].bytes);
	return copy;
}

static void copy_in(ckpt *s, const uint8_t *from)
{
	for (int i = 0; i < s->count; from += s->pieces[i++].bytes) {
		memcpy(s->pieces[i].data, from, s->pieces[i].bytes);
		if (s->pieces[i].of_rank && job->forgets)
			memset(s->pieces[i].data, 0, s->pieces[i].bytes);
	}
}

static struct fake_save *find_save(uint64_t step, uint32_t epoch)
{
	for (int i = 0; i < job->save_count; i++)
		if (job->saves[i].step == step && job->saves[i].epoch == epoch)
			return &job->saves[i];
	return NULL;
}

static int begin(ckpt *s, uint64_t step, ckpt_target target)
{
	struct fake_save *save = find_save(step, s->epoch);

	if (s->epoch != job->epoch)
		return fail(s, -ESTALE);
	if (fake_begin_error(job, s->rank, step))
		return fail(s, fake_begin_error(job, s->rank, step));
	if (target == CKPT_STORAGE && job->no_store)
		return fail(s, -EINVAL);
	if (save && save->digest[s->rank])
		return fail(s, -EALREADY);
	if (!save && job->save_count == FAKE_SAVES)
		return fail(s, -EBUSY);
	if (!save) {
		save = &job->saves[job->save_count++];
		*save = (struct fake_save){.step = step, .epoch = s->epoch, .target = target};
	}
	save->digest[s->rank] = digest(s, false);
	save->alike[s->rank] = s->votes ? digest(s, true) : 0;
	return 0;
}

int ckpt_wait_slot(ckpt *s, int timeout_ms)
{
	(void)timeout_ms;
	return fake_begin_error(job, s->rank, s->at) == -EBUSY ? fail(s, -ETIMEDOUT) : 0;
}

int ckpt_begin(ckpt *s, uint64_t step, ckpt_target target, void *stream, ckpt_snapshot **out)
{
	int rc;

	(void)stream;
	*out = NULL;
	pthread_mutex_lock(&job->lock);
	rc = begin(s, step, target);
	pthread_mutex_unlock(&job->lock);
	if (rc < 0)
		return rc;
	*out = malloc(sizeof(**out));
	**out = (ckpt_snapshot){s, step, s->epoch};
	return 0;
}

static bool is_killed(const ckpt *s, uint64_t step)
{
	for (int i = 0; i < job->kill_count; i++) {
		struct fake_kill *kill = &job->kills[i];

		if (kill->done || kill->rank != s->rank || kill->step != step)
			continue;
		kill->done = true;
		return true;
	}
	return false;
}

static int fence(ckpt_snapshot *snapshot)
{
	ckpt *s = snapshot->session;
	struct fake_save *save = find_save(snapshot->step, snapshot->epoch);

	if (is_killed(s, snapshot->step))
		return fail(s, -ECHILD);
	if (snapshot->epoch != job->epoch)
		return fail(s, -ESTALE);
	job->torn += save->digest[s->rank] != digest(s, false);
	save->copy[s->rank] = copy_out(s);
	pthread_cond_broadcast(&job->changed);
	return 0;
}

int ckpt_fence(ckpt_snapshot *snapshot, void *stream)
{
	int rc;

	(void)stream;
	pthread_mutex_lock(&job->lock);
	rc = fence(snapshot);
	pthread_mutex_unlock(&job->lock);
	return rc;
}

/* With the lock held. */
static int level(const ckpt_snapshot *snapshot)
{
	const struct fake_save *save = find_save(snapshot->step, snapshot->epoch);

	if (snapshot->epoch != job->epoch)
		return fail(snapshot->session, -ESTALE);
	if (fake_deviates(job, save))
		return fail(snapshot->session, -EUCLEAN);
	if (!fake_complete(job, save))
		return CKPT_PENDING;
	return save->target == CKPT_STORAGE ? CKPT_DURABLE : CKPT_CAPTURED;
}

int ckpt_poll(ckpt_snapshot *snapshot)
{
	int reached;

	pthread_mutex_lock(&job->lock);
	reached = level(snapshot);
	pthread_mutex_unlock(&job->lock);
	return reached;
}

int ckpt_wait(ckpt_snapshot *snapshot, ckpt_level wanted, int timeout_ms)
{
	int64_t deadline = deadline_in_ms(WAIT_MS);
	int reached, rc = wanted >= CKPT_DURABLE ? job->write_error : 0;

	(void)timeout_ms;
	pthread_mutex_lock(&job->lock);
	while ((reached = level(snapshot)) >= 0 && reached < (int)wanted && rc == 0)
		rc = wait_change(deadline);
	pthread_mutex_unlock(&job->lock);
	if (reached < 0)
		return reached;
	return rc < 0 ? fail(snapshot->session, rc) : 0;
}

uint64_t ckpt_snapshot_step(const ckpt_snapshot *snapshot)
{
	return snapshot->step;
}

void ckpt_snapshot_free(ckpt_snapshot *snapshot)
{
	free(snapshot);
}

int ckpt_restore(ckpt *s, uint64_t step, void *stream, ckpt_restored *out, int timeout_ms)
{
	struct fake_save *newest = NULL;

	(void)stream, (void)timeout_ms;
	pthread_mutex_lock(&job->lock);
	for (int i = 0; i < job->save_count; i++)
		if (fake_complete(job, &job->saves[i]) &&
		    (step == CKPT_LATEST || step == job->saves[i].step ||
		     (step == CKPT_LATEST_HEALTHY && job->saves[i].health == CKPT_HEALTHY)) &&
		    (!newest || fake_newer(&job->saves[i], newest)))
			newest = &job->saves[i];
	if (newest) {
		copy_in(s, newest->copy[s->rank]);
		out->step = newest->step;
		out->epoch = newest->epoch;
		out->source = CKPT_FROM_MEMORY;
		job->restores++;
	}
	pthread_mutex_unlock(&job->lock);
	return newest ? 0 : fail(s, job->restore_error && step != CKPT_LATEST ? job->restore_error : -ENOENT);
}

int ckpt_mark(ckpt *s, uint64_t step, uint32_t epoch, ckpt_health health, const char *reason, int timeout_ms)
{
	struct fake_save *save;

	(void)reason, (void)timeout_ms;
	pthread_mutex_lock(&job->lock);
	save = find_save(step, epoch);
	if (save)
		save->health = health;
	pthread_mutex_unlock(&job->lock);
	return save ? 0 : fail(s, -EINVAL);
}

void ckpt_beat(ckpt *s, uint64_t step, ckpt_phase phase)
{
	(void)phase;
	s->at = step;
	if (s->rank == 1 && job->stop_at && step >= job->stop_at)
		s->stop = true;
}

void ckpt_beat_loss(ckpt *s, uint64_t step, ckpt_phase phase, double loss, double gradient_norm)
{
	(void)s, (void)step, (void)phase, (void)gradient_norm;
	pthread_mutex_lock(&job->lock);
	job->losses++;
	job->not_finite += isfinite(loss) == 0;
	pthread_mutex_unlock(&job->lock);
}

int ckpt_has_storage(const ckpt *s)
{
	(void)s;
	return !job->no_store;
}

int ckpt_due(ckpt *s, uint64_t step)
{
	(void)s;
	return job->due_every ? (step % job->due_every ? 0 : CKPT_DUE_MEMORY) : -EOPNOTSUPP;
}

int ckpt_should_stop(const ckpt *s)
{
	return s->stop;
}
