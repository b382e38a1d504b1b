#include "fake_etcd.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_MAX = 1024, ASKED_MAX = 4 };

struct stands {
	char key[REGISTRY_KEY_MAX], value[VALUE_MAX];
	size_t len;
	uint64_t created, changed;
	bool ours;
};

struct records {
	struct stands list[ETCD_RECORDS];
	unsigned n;
};

struct fake_etcd fake_etcd;
static struct records truth, mirror;
static struct registry_events events;
static uint64_t revision, shown, now_ns;
static struct {
	struct registry_compare compare[ASKED_MAX];
	struct stands change[ASKED_MAX];
	bool gone[ASKED_MAX], leased[ASKED_MAX];
	char compared[ASKED_MAX][REGISTRY_KEY_MAX];
	unsigned ncompare, nchange;
	registry_done *done;
	void *arg;
} asked;
static char self; /* nobody looks into it */

void etcd_reset(void)
{
	memset(&truth, 0, sizeof(truth));
	memset(&mirror, 0, sizeof(mirror));
	memset(&asked, 0, sizeof(asked));
	shown = revision = 100;
	now_ns = CLOCK_NS_PER_S;
	fake_etcd = (struct fake_etcd){.synced = true, .lease_until = UINT64_MAX};
}

/* ---- clock ------------------------------------------------------------------------------------------------------ */

void clock_skip(uint64_t ns)
{
	now_ns += ns;
}

uint64_t clock_now(void)
{
	return now_ns;
}

uint64_t clock_wall(void)
{
	return now_ns;
}

void clock_wall_jump(int64_t ahead_ns)
{
	(void)ahead_ns;
}

int clock_ms_until(uint64_t deadline)
{
	return deadline > now_ns ? (int)((deadline - now_ns) / CLOCK_NS_PER_MS) : 0;
}

uint64_t clock_deadline(uint64_t ns)
{
	return ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + ns;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static struct stands *find(struct records *records, const char *key)
{
	for (unsigned i = 0; i < records->n; i++)
		if (!strcmp(records->list[i].key, key))
			return &records->list[i];
	return NULL;
}

static void set(const char *key, const void *value, size_t len, bool ours)
{
	struct stands *s = find(&truth, key);
	if (!s) {
		cr_assert_lt(truth.n, (unsigned)ETCD_RECORDS);
		s = &truth.list[truth.n++];
		*s = (struct stands){.created = revision};
		snprintf(s->key, sizeof(s->key), "%s", key);
	}
	cr_assert_lt(len, sizeof(s->value));
	memcpy(s->value, value, len);
	s->value[len] = 0;
	s->len = len;
	s->changed = revision;
	s->ours = ours;
}

static void drop(struct records *records, const char *key)
{
	struct stands *s = find(records, key);
	if (s)
		*s = records->list[--records->n];
}

static struct registry_record record_of(const struct stands *s)
{
	return (struct registry_record){.key = s->key,
					.value = s->value,
					.len = s->len,
					.created = s->created,
					.changed = s->changed,
					.ours = s->ours};
}

static void tell_gone(struct stands was)
{
	drop(&mirror, was.key);
	if (events.record)
		events.record(events.arg, &(struct registry_record){.key = was.key, .changed = revision}, true);
}

static void tell(const struct stands *s)
{
	struct registry_record record = record_of(s);
	struct stands *known = find(&mirror, s->key);
	if (!known)
		known = &mirror.list[mirror.n++];
	*known = *s;
	if (events.record)
		events.record(events.arg, &record, false);
}

void etcd_show(void)
{
	shown = revision;
	for (unsigned i = 0; i < mirror.n;) {
		if (find(&truth, mirror.list[i].key))
			i++;
		else
			tell_gone(mirror.list[i]);
	}
	for (unsigned i = 0; i < truth.n; i++) {
		const struct stands *known = find(&mirror, truth.list[i].key);
		if (!known || known->changed != truth.list[i].changed || known->ours != truth.list[i].ours)
			tell(&truth.list[i]);
	}
}

void etcd_put_unseen(const char *key, const char *value, bool ours)
{
	revision++;
	if (value)
		set(key, value, strlen(value), ours);
	else
		drop(&truth, key);
}

void etcd_put(const char *key, const char *value, bool ours)
{
	etcd_put_unseen(key, value, ours);
	etcd_show();
}

const char *etcd_value(const char *key)
{
	const struct stands *s = find(&truth, key);
	return s ? s->value : NULL;
}

uint64_t etcd_created(const char *key)
{
	const struct stands *s = find(&truth, key);
	return s ? s->created : 0;
}

void etcd_back(void)
{
	fake_etcd.synced = true;
	events.synced(events.arg);
}

void etcd_lapse(void)
{
	fake_etcd.lease_until = 0;
	events.lapsed(events.arg);
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

static bool holds(unsigned i)
{
	const struct registry_compare *c = &asked.compare[i];
	const struct stands *s = find(&truth, asked.compared[i]);
	return c->revision == (!s ? 0 : c->created ? s->created : s->changed);
}

static void answer(struct registry_result result)
{
	registry_done *done = asked.done;
	cr_assert(fake_etcd.waits, "nothing was asked for");
	fake_etcd.waits = false;
	done(asked.arg, &result);
}

bool etcd_decide(void)
{
	bool applied = true;
	cr_assert(fake_etcd.waits, "nothing was asked for");
	for (unsigned i = 0; i < asked.ncompare; i++)
		applied = applied && holds(i);
	revision += applied;
	for (unsigned i = 0; applied && i < asked.nchange; i++) {
		if (asked.gone[i])
			drop(&truth, asked.change[i].key);
		else
			set(asked.change[i].key, asked.change[i].value, asked.change[i].len, asked.leased[i]);
	}
	answer((struct registry_result){.applied = applied, .revision = revision, .why = ""});
	etcd_show();
	return applied;
}

void etcd_lose(int rc)
{
	answer((struct registry_result){.rc = rc, .why = "nobody has answered"});
}

int registry_commit(struct registry *registry, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg)
{
	(void)registry;
	fake_etcd.asked++;
	if (fake_etcd.commit_rc)
		return fake_etcd.commit_rc;
	cr_assert(!fake_etcd.waits && ncompare <= ASKED_MAX && nchange <= ASKED_MAX, "one at a time");
	asked.ncompare = ncompare;
	asked.nchange = nchange;
	for (unsigned i = 0; i < ncompare; i++) {
		asked.compare[i] = compare[i];
		snprintf(asked.compared[i], REGISTRY_KEY_MAX, "%s", compare[i].key);
	}
	for (unsigned i = 0; i < nchange; i++) {
		struct stands *s = &asked.change[i];
		cr_assert_lt(change[i].len, sizeof(s->value));
		snprintf(s->key, sizeof(s->key), "%s", change[i].key);
		if (change[i].value)
			memcpy(s->value, change[i].value, change[i].len);
		s->len = change[i].len;
		asked.gone[i] = !change[i].value;
		asked.leased[i] = change[i].leased;
	}
	fake_etcd.own_leased = change[0].leased;
	asked.done = done;
	asked.arg = arg;
	fake_etcd.waits = true;
	return 0;
}

/* ---- the rest of the interface ------------------------------------------------------------------------------------ */

int registry_new(const struct registry_config *config, const struct registry_events *heard, struct registry **out,
		 struct err *err)
{
	(void)config, (void)err;
	events = *heard;
	*out = (struct registry *)&self;
	return 0;
}

void registry_free(struct registry *registry)
{
	(void)registry;
	events = (struct registry_events){0};
}

int registry_prefix(const char *url, char out[REGISTRY_PREFIX_MAX], struct err *err)
{
	(void)url, (void)err;
	*out = 0;
	return 0;
}

int registry_event_fd(const struct registry *registry)
{
	(void)registry;
	return -1;
}

void registry_poll(struct registry *registry)
{
	(void)registry;
}

bool registry_get(const struct registry *registry, const char *key, struct registry_record *record)
{
	const struct stands *s = find(&mirror, key);
	(void)registry;
	if (s)
		*record = record_of(s);
	return s != NULL;
}

bool registry_next(const struct registry *registry, const char *prefix, const void **at, struct registry_record *record)
{
	const struct stands *s = *at ? (const struct stands *)*at + 1 : mirror.list;
	(void)registry;
	while (s < mirror.list + mirror.n && strncmp(s->key, prefix, strlen(prefix)) != 0)
		s++;
	if (s == mirror.list + mirror.n)
		return false;
	*at = s;
	*record = record_of(s);
	return true;
}

bool registry_is_synced(const struct registry *registry)
{
	(void)registry;
	return fake_etcd.synced;
}

uint64_t registry_revision(const struct registry *registry)
{
	(void)registry;
	return shown;
}

uint64_t registry_lease_left(const struct registry *registry)
{
	uint64_t now = clock_now();
	(void)registry;
	return fake_etcd.lease_until > now ? fake_etcd.lease_until - now : 0;
}

struct registry_counts registry_counts(const struct registry *registry)
{
	(void)registry;
	return (struct registry_counts){.transactions = fake_etcd.asked};
}
