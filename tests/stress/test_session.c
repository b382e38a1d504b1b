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

enum { RANKS = 2, ELEMENTS = 30000, HELD = 6, STEPS = 400, JOIN_EVERY = 60, THAWS = 16, TIMEOUT_MS = 60000 };

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
static _Atomic uint64_t captured, durable;

struct rank {
	int id;
	ckpt *s;
	uint64_t *data;
	_Atomic bool ended;
	_Atomic uint64_t at;    /* the step that it is about to make */
	_Atomic uint32_t heard; /* the epoch of the last callback */
	pthread_mutex_t lock;   /* what follows */
	ckpt_snapshot *held[HELD];
	int nheld;
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

static void hold(struct rank *r, ckpt_snapshot *snap)
{
	pthread_mutex_lock(&r->lock);
	if (r->nheld == HELD) {
		ckpt_snapshot_free(r->held[0]);
		memmove(r->held, r->held + 1, (HELD - 1) * sizeof(r->held[0]));
		r->nheld--;
	}
	r->held[r->nheld++] = snap;
	pthread_mutex_unlock(&r->lock);
}

/* -ESTALE: join. */
static int step(struct rank *r, uint64_t n)
{
	ckpt_snapshot *snap;
	int rc = ckpt_begin(r->s, n, n % 4 ? CKPT_MEMORY : CKPT_STORAGE, NULL, &snap);
	if (rc == -EBUSY || rc == -ENOTCONN || rc == -EALREADY)
		return 0;
	if (rc)
		return rc;
	hold(r, snap);
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
	for (uint64_t n = 1; n <= STEPS; n++) {
		keep_pace(r, n);
		int rc = step(r, n);
		CHECK(!rc || rc == -ESTALE, "step %lu of rank %d: %s", (unsigned long)n, r->id, ckpt_error(r->s));
		if (rc || (r->id == 1 && n % JOIN_EVERY == 0 && n + JOIN_EVERY < STEPS))
			join(r);
		for (int i = n % THAWS ? ELEMENTS / 2 : 0; i < ELEMENTS;
		     i += 64) /* the first half is frozen for a while */
			r->data[i] = n + (uint64_t)i;
		usleep(1500);
	}
	atomic_store(&r->ended, true);
	return NULL;
}

/* The handle stays held by the list while the lock is held. */
static void *follow(void *arg)
{
	struct rank *r = arg;
	while (!atomic_load(&r->ended)) {
		pthread_mutex_lock(&r->lock);
		for (int i = 0; i < r->nheld; i++) {
			int level = ckpt_poll(r->held[i]);
			captured += level >= CKPT_CAPTURED;
			durable += level >= CKPT_DURABLE;
			if (level < 0)
				CHECK(ckpt_error(r->s)[0], "an error without a sentence");
		}
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
	ckpt_close(r->s); /* the last saves may have been superseded */
	pthread_mutex_destroy(&r->lock);
	free(r->data);
}

static void *close_one(void *arg)
{
	close_rank(arg);
	return NULL;
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
	uint64_t deadline = clock_deadline(TIMEOUT_MS * CLOCK_NS_PER_MS);
	while (durable < 20 && clock_now() < deadline)
		usleep(10000);
	CHECK(durable >= 20, "nothing becomes durable");
	end_daemon(SIGKILL);
	start_daemon();
	uint64_t before = captured;
	for (int i = 0; i < RANKS; i++)
		for (int t = 0; t < 3; t++)
			pthread_join(threads[i][t], NULL);
	CHECK(captured > before, "nothing is captured after the restart");
	CHECK(ranks[0].heard, "rank 0 heard of no epoch");
	for (int i = 0; i < RANKS; i++)
		CHECK(!pthread_create(&closers[i], NULL, close_one, &ranks[i]), "pthread_create");
	for (int i = 0; i < RANKS; i++)
		pthread_join(closers[i], NULL);
	end_daemon(SIGTERM);
	scratch_remove(top);
	return 0;
}
