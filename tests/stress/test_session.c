/* Sessions used from several threads at once, against a real daemon that is killed in the middle: begin and fence in one thread, poll
 * and wait in another, heartbeats in a third, epochs that move on under all of them. For the thread sanitizer. */
#include "base/clock.h"
#include "ckpt.h"
#include "scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, ELEMENTS = 30000, HELD = 6, JOIN_EVERY = 60, THAWS = 16, TIMEOUT_MS = 180000 };

/* How much is to be seen before the daemon is killed, and of its next life. */
enum { DURABLE = 3, JOINS = 2, MORE = 4 * JOIN_EVERY };

#define CHECK(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                \
			fprintf(stderr, __VA_ARGS__);                                                                  \
			fprintf(stderr, "\n");                                                                         \
			if (daemon_pid > 0)                                                                            \
				kill(daemon_pid, SIGKILL);                                                             \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

extern char **environ;

static pid_t daemon_pid;
static char top[SCRATCH_MAX], sock[SCRATCH_MAX + 8];
static _Atomic uint64_t durable;
static _Atomic uint64_t last = UINT64_MAX; /* step, when enough has been seen */

struct rank {
	int id;
	ckpt *s;
	uint64_t *data;
	_Atomic bool ended;
	_Atomic uint64_t at;       /* the step that it is about to make */
	_Atomic uint64_t captured; /* the newest step that was seen to be */
	_Atomic uint32_t heard;    /* the epoch of the last callback */
	pthread_mutex_t lock;      /* what follows */
	ckpt_snapshot *held[HELD];
	int nheld;
	ckpt_snapshot *written; /* held until it has ended: a slow disk takes longer than HELD steps */
};

static struct rank ranks[RANKS];

static void start_daemon(void)
{
	char program[4096], store[SCRATCH_MAX + 8];
	const char *bin = getenv("CKPT_BUILD");
	snprintf(program, sizeof(program), "%s/ckptd", bin ? bin : ".");
	snprintf(store, sizeof(store), "%s/store", top);
	char *argv[] = {program, (char *)"--socket", sock,         (char *)"--store",
			store,   (char *)"--node",   (char *)"n0", NULL};
	int rc = posix_spawn(&daemon_pid, program, NULL, NULL, argv, environ);
	CHECK(!rc, "%s: %s", program, strerror(rc));
}

static void end_daemon(int sig)
{
	int status;
	kill(daemon_pid, sig);
	waitpid(daemon_pid, &status, 0);
	CHECK(sig == SIGKILL || status == 0, "the daemon ended with wait status %d", status);
}

/* ---- a rank's threads ---------------------------------------------------------------------------------------------- */

static void on_epoch(void *arg, uint32_t epoch, const char *reason)
{
	struct rank *r = arg;
	(void)reason;
	atomic_store(&r->heard, epoch);
}

static void join(struct rank *r)
{
	int rc;
	do
		rc = ckpt_join(r->s, NULL, 0, NULL, TIMEOUT_MS);
	while (rc == -ESTALE || rc == -ENOTCONN);
	CHECK(!rc, "join of rank %d: %s", r->id, ckpt_error(r->s));
}

static void hold(struct rank *r, ckpt_snapshot *snap, ckpt_target target)
{
	pthread_mutex_lock(&r->lock);
	if (target == CKPT_STORAGE && !r->written) {
		r->written = snap;
	} else {
		if (r->nheld == HELD) {
			ckpt_snapshot_free(r->held[0]);
			memmove(r->held, r->held + 1, (HELD - 1) * sizeof(r->held[0]));
			r->nheld--;
		}
		r->held[r->nheld++] = snap;
	}
	pthread_mutex_unlock(&r->lock);
}

/* -ESTALE: join. */
static int step(struct rank *r, uint64_t n)
{
	ckpt_snapshot *snap;
	ckpt_target target = n % 4 ? CKPT_MEMORY : CKPT_STORAGE;
	int rc = ckpt_begin(r->s, n, target, NULL, &snap);
	if (rc == -EBUSY || rc == -ENOTCONN || rc == -EALREADY)
		return 0;
	if (rc)
		return rc;
	hold(r, snap, target);
	rc = ckpt_fence(snap, NULL);
	return rc == -ECANCELED ? 0 : rc;
}

/* In step with the other rank, as a collective would make them; when it is not there, only for a moment. */
static void keep_pace(struct rank *r, uint64_t n)
{
	atomic_store(&r->at, n);
	for (int i = 0; i < 200 && atomic_load(&ranks[!r->id].at) < n; i++)
		usleep(100);
}

static void *train(void *arg)
{
	struct rank *r = arg;
	join(r);
	for (uint64_t n = 1; n <= last || ranks[!r->id].at < last; n++) { /* it may still need us to join */
		keep_pace(r, n);
		int rc = step(r, n);
		CHECK(!rc || rc == -ESTALE, "step %lu of rank %d: %s", (unsigned long)n, r->id, ckpt_error(r->s));
		if (rc || (r->id == 1 && n % JOIN_EVERY == 0 && n < last - JOIN_EVERY))
			join(r);
		for (int i = n % THAWS ? ELEMENTS / 2 : 0; i < ELEMENTS;
		     i += 64) /* the first half is frozen for a while */
			r->data[i] = n + (uint64_t)i;
		usleep(1500);
	}
	atomic_store(&r->ended, true);
	return NULL;
}

static void look(struct rank *r)
{
	int level = r->written ? ckpt_poll(r->written) : 0;
	durable += level >= CKPT_DURABLE;
	if (level < 0 || level >= CKPT_DURABLE) {
		ckpt_snapshot_free(r->written);
		r->written = NULL;
	}
	for (int i = 0; i < r->nheld; i++) {
		level = ckpt_poll(r->held[i]);
		if (level >= CKPT_CAPTURED && ckpt_snapshot_step(r->held[i]) > r->captured)
			r->captured = ckpt_snapshot_step(r->held[i]);
		if (level < 0)
			CHECK(ckpt_error(r->s)[0], "an error without a sentence");
	}
}

/* The handle stays held by the list while the lock is held. */
static void *follow(void *arg)
{
	struct rank *r = arg;
	while (!atomic_load(&r->ended)) {
		pthread_mutex_lock(&r->lock);
		look(r);
		if (r->nheld)
			ckpt_wait(r->held[r->nheld - 1], CKPT_CAPTURED, 3);
		pthread_mutex_unlock(&r->lock);
		usleep(500);
	}
	return NULL;
}

static void *beat(void *arg)
{
	struct rank *r = arg;
	for (uint64_t n = 0; !atomic_load(&r->ended); n++) {
		ckpt_beat(r->s, n, CKPT_PHASE_FORWARD);
		ckpt_beat_loss(r->s, n, CKPT_PHASE_OPTIMIZER, (double)n, -1);
		ckpt_collective_enter(r->s, "allreduce", n, 8);
		CHECK(!ckpt_should_stop(r->s), "asked to stop");
		CHECK(ckpt_epoch(r->s) < 10000, "epoch %u", ckpt_epoch(r->s));
		ckpt_collective_leave(r->s);
		usleep(200);
	}
	return NULL;
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

static void open_rank(struct rank *r, int id)
{
	char why[512];
	uint64_t shape = ELEMENTS;
	ckpt_options options = CKPT_INIT(ckpt_options);
	ckpt_piece piece = {.data = r->data = calloc(ELEMENTS, sizeof(*r->data))};
	ckpt_tensor t = CKPT_INIT(ckpt_tensor);
	char name[16];
	snprintf(name, sizeof(name), "t%d", id);
	r->id = id;
	pthread_mutex_init(&r->lock, NULL);
	options.socket = sock;
	options.job = "stress";
	options.rank = id;
	options.world = RANKS;
	options.timeout_ms = TIMEOUT_MS;
	options.on_epoch = on_epoch;
	options.on_epoch_arg = r;
	int rc = ckpt_open(&options, &r->s, why, sizeof(why));
	CHECK(!rc, "%s", why);
	t.name = name;
	t.dtype = CKPT_U64;
	t.ndim = 1;
	t.shape = &shape;
	t.pieces = &piece;
	t.npieces = 1;
	t.device = CKPT_HOST;
	CHECK(!ckpt_register_tensor(r->s, &t), "%s", ckpt_error(r->s));
}

static void close_rank(struct rank *r)
{
	while (r->nheld)
		ckpt_snapshot_free(r->held[--r->nheld]);
	ckpt_snapshot_free(r->written);
	ckpt_close(r->s); /* the last saves may have been superseded */
	pthread_mutex_destroy(&r->lock);
	free(r->data);
}

static void *close_one(void *arg)
{
	close_rank(arg);
	return NULL;
}

static uint64_t furthest(void)
{
	uint64_t a = ranks[0].at, b = ranks[1].at;
	return a > b ? a : b;
}

/* While the ranks work. */
static void await(const _Atomic uint64_t *count, uint64_t least, const char *what)
{
	uint64_t deadline = clock_deadline(TIMEOUT_MS * CLOCK_NS_PER_MS);
	while (*count < least && clock_now() < deadline)
		usleep(10000);
	CHECK(*count >= least, "%s", what);
}

int main(void)
{
	pthread_t threads[RANKS][3], closers[RANKS];
	scratch_new(top);
	snprintf(sock, sizeof(sock), "%s/s", top);
	start_daemon();
	for (int i = 0; i < RANKS; i++)
		open_rank(&ranks[i], i);
	for (int i = 0; i < RANKS; i++) {
		CHECK(!pthread_create(&threads[i][0], NULL, train, &ranks[i]), "pthread_create");
		CHECK(!pthread_create(&threads[i][1], NULL, follow, &ranks[i]), "pthread_create");
		CHECK(!pthread_create(&threads[i][2], NULL, beat, &ranks[i]), "pthread_create");
	}
	await(&ranks[1].at, JOINS * JOIN_EVERY, "rank 1 makes no step");
	await(&durable, DURABLE, "nothing becomes durable");
	end_daemon(SIGKILL);
	uint64_t before = furthest();
	start_daemon();
	await(&ranks[0].captured, before + 1, "nothing is captured after the restart");
	last = furthest() + MORE;
	for (int i = 0; i < RANKS; i++)
		for (int t = 0; t < 3; t++)
			pthread_join(threads[i][t], NULL);
	CHECK(ranks[0].heard, "rank 0 heard of no epoch");
	for (int i = 0; i < RANKS; i++)
		CHECK(!pthread_create(&closers[i], NULL, close_one, &ranks[i]), "pthread_create");
	for (int i = 0; i < RANKS; i++)
		pthread_join(closers[i], NULL);
	end_daemon(SIGTERM);
	scratch_remove(top);
	return 0;
}
