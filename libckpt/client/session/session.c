#include "client/session/session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

/* How long the goodbye may take: everything that mattered was waited for before. */
#define BYE_TIMEOUT (2 * CLOCK_NS_PER_S)

_Static_assert((int)CKPT_U64 == (int)DTYPE_U64 && (int)CKPT_BF16 == (int)DTYPE_BF16 && (int)CKPT_I8 == (int)DTYPE_I8 &&
		       (int)CKPT_F8_E5M2FNUZ == (int)DTYPE_END - 1,
	       "element types of the API and of the format are the same numbers");
_Static_assert((int)CKPT_NDIM_MAX == (int)NDIM_MAX && (int)CKPT_ADDRESS_MAX == (int)WIRE_ADDRESS_MAX, "bounds agree");
_Static_assert((int)CKPT_VERIFIED == (int)LEVEL_VERIFIED && (int)CKPT_DURABLE == (int)LEVEL_DURABLE, "levels agree");
_Static_assert((int)CKPT_FROM_STORAGE == (int)WIRE_FROM_STORAGE && (int)CKPT_STORAGE == (int)SLOT_STORAGE &&
		       (int)CKPT_HOST == (int)DEVICE_HOST,
	       "sources, targets and the host agree");

const char *ckpt_version(void)
{
	return TEXT(CKPT_VERSION_MAJOR) "." TEXT(CKPT_VERSION_MINOR) "." TEXT(CKPT_VERSION_PATCH);
}

/* ---- for the other files ----------------------------------------------------------------------------------------- */

int session_check(const ckpt *s, struct err *err)
{
	if (!s)
		return err_set(err, -EINVAL, "the session is NULL: ckpt_open makes one");
	if (atomic_load_explicit(s->alive, memory_order_relaxed))
		return 0;
	return err_set(err, -ECHILD, "the session belongs to the parent process: open another one after fork");
}

struct stage *session_stage(ckpt *s)
{
	LOCK_SCOPE(&s->stage_lock);
	return s->stage ? stage_get(s->stage) : NULL;
}

struct stage *session_stage_table(ckpt *s, struct wbuf *table, int *rc)
{
	LOCK_SCOPE(&s->stage_lock);
	*rc = s->stage ? table_message(&s->table, 0, table) : 0;
	return s->stage ? stage_get(s->stage) : NULL;
}

uint64_t session_deadline(const ckpt *s, int timeout_ms, uint32_t *ms)
{
	*ms = timeout_ms < 0 ? s->settings.timeout_ms : (uint32_t)timeout_ms;
	return clock_deadline(*ms * CLOCK_NS_PER_MS);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

/* A page that the kernel empties in a child: telling the two apart costs a load. */
static int make_alive(ckpt *s, struct err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic uint32_t *alive = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alive == MAP_FAILED)
		return err_set(err, -errno, "mmap: %s", err_name(errno));
	if (madvise((void *)alive, page, MADV_WIPEONFORK)) {
		int rc = -errno;
		munmap((void *)alive, page);
		return err_set(err, rc, "madvise: %s", err_name(rc));
	}
	atomic_store(alive, 1);
	s->alive = alive;
	return 0;
}

static void session_free(ckpt *s)
{
	stage_put(s->stage);
	table_free(&s->table);
	wire_joined_free(&s->joined);
	pthread_mutex_destroy(&s->stage_lock);
	pthread_mutex_destroy(&s->save);
	munmap((void *)s->alive, (size_t)sysconf(_SC_PAGESIZE));
	free(s);
}

static int session_open(const struct settings *settings, ckpt **out, struct err *err)
{
	ckpt *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "no memory for a session");
	int rc = make_alive(s, err);
	if (rc) {
		free(s);
		return rc;
	}
	s->token = clock_now();
	s->settings = *settings;
	s->layers = (struct device_layers){.host = &device_host, .cuda = device_cuda()};
	pthread_mutex_init(&s->save, NULL);
	pthread_mutex_init(&s->stage_lock, NULL);
	table_init(&s->table, settings->rank, settings->world);
	rc = service_start(s, clock_deadline(settings->timeout_ms * CLOCK_NS_PER_MS), err);
	if (rc) {
		service_stop(s);
		session_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

int ckpt_open(const ckpt_options *opts, ckpt **out, char *why, size_t why_size)
{
	struct settings settings;
	struct err err = {0};
	int rc = out ? 0 : err_set(&err, -EINVAL, "`out` is NULL: ckpt_open has nowhere to put the session");
	if (out)
		*out = NULL;
	log_init("libckpt");
	if (!rc)
		rc = settings_make(opts, &settings, &err);
	if (!rc)
		rc = session_open(&settings, out, &err);
	if (why && why_size)
		snprintf(why, why_size, "%s", rc ? err.text : "");
	return rc;
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

/* A save that gave way is no failure: to a later one that is on storage, or to an epoch that this process has entered since, as it was told by
 * -ESTALE; but for what it has gone on from there. In an epoch that it has not entered the others wait for it. -EALREADY: it is on
 * storage, as one of a later epoch. */
static bool gave_way(const ckpt *s, const struct ckpt_snapshot *snap, int rc, bool later_durable)
{
	bool left = snap->id.epoch < atomic_load(&s->epoch) && step_compare(snap->id, s->restored);
	return rc == -EALREADY || (rc == -ESTALE && left) || (rc == -ECANCELED && (left || later_durable));
}

/* The newest first: what became of it tells what an earlier one is worth. */
static int wait_pending(ckpt *s, struct err *err)
{
	uint32_t ms;
	uint64_t deadline = session_deadline(s, -1, &ms);
	bool durable = false;
	int first = 0;
	for (unsigned i = s->npending; i-- > 0;) {
		struct err why = {0};
		int rc = snapshot_wait_end(s->pending[i], deadline, ms, &why);
		durable |= !rc;
		if (!rc || rc == -EOPNOTSUPP) /* so the operator wants it */
			continue;
		if (gave_way(s, s->pending[i], rc, durable)) {
			log_debug("rank %u: close: %s", s->settings.rank, why.text);
			continue;
		}
		first = rc;
		*err = why;
	}
	return first;
}

static void drop_snapshots(ckpt *s)
{
	while (s->npending)
		snapshot_put(s->pending[--s->npending]);
	snapshot_put(s->unfenced);
	s->unfenced = NULL;
}

/* A handle that the caller keeps keeps the stage, too: what is registered must not be read any more all the same. */
static int end_captures(ckpt *s, struct err *err)
{
	uint32_t ms;
	struct patience patience = beat_patience(s, session_deadline(s, -1, &ms));
	return s->stage ? capture_end(&s->stage->capture, &patience, err) : 0;
}

static int say_bye(ckpt *s, struct err *err)
{
	struct frame *reply;
	int rc = service_call(s, WIRE_BYE, NULL, WIRE_BYE, clock_deadline(BYE_TIMEOUT), NULL, &reply, err);
	if (rc)
		return rc == -ETIMEDOUT ? err_set(err, rc, "the daemon did not answer the goodbye") : rc;
	frame_free(reply);
	free(reply);
	return 0;
}

int ckpt_close(ckpt *s)
{
	if (!s)
		return 0;
	struct err err = {0}, bye = {0};
	int rc = session_check(s, &err);
	if (rc)
		return session_fail(s, rc, &err);
	if (s->unfenced)
		stage_give_up(s->unfenced->stage, s->unfenced->slot, s->unfenced->id);
	rc = wait_pending(s, &err);
	int goodbye = say_bye(s, &bye);
	if (!rc && goodbye) {
		rc = goodbye;
		err = bye;
	}
	struct err slow;
	int ended = end_captures(s, &slow);
	if (!rc && ended) {
		rc = ended;
		err = slow;
	}
	drop_snapshots(s);
	service_stop(s);
	/* The session that could be asked for the sentence is gone. */
	if (rc)
		log_warn("rank %u: close: %s", s->settings.rank, err.text);
	session_free(s);
	return rc;
}

static int no_session(const ckpt *s)
{
	struct err err = {0};
	return s ? 0 : session_fail(s, session_check(s, &err), &err);
}

int ckpt_rank(const ckpt *s)
{
	int rc = no_session(s);
	if (rc)
		return rc;
	return (int)s->settings.rank;
}

int ckpt_world(const ckpt *s)
{
	int rc = no_session(s);
	if (rc)
		return rc;
	return s->joined.world ? (int)s->joined.world : (int)s->settings.world;
}

uint32_t ckpt_epoch(const ckpt *s)
{
	return no_session(s) ? 0 : atomic_load(&s->epoch);
}

int ckpt_epoch_fd(const ckpt *s)
{
	struct err err = {0};
	int rc = session_check(s, &err);
	return rc ? session_fail(s, rc, &err) : s->service.over;
}

int ckpt_has_storage(const ckpt *s)
{
	struct wire_welcome daemon;
	struct err err = {0};
	int rc = session_check(s, &err);
	if (rc)
		return session_fail(s, rc, &err);
	/* Also while it is away: what it said holds. The lock is not what the caller's const is about. */
	service_check((ckpt *)s, &daemon, &err);
	return daemon.storage;
}
