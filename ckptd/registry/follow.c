/* Follow: keeps the mirror up to date. What was changed since the mirror's revision is read page by page; if the mirror then has more than
 * there is, or the registry was away, all keys are read, too, and what they lack is gone; then a watch goes on from there. So an outage, a
 * watch that has ended, a compaction and a registry that was restored from an old copy are one case. Such a registry may have come to later
 * revisions than the mirror's since: then its keys are not those of the mirror, and all records are read. */
#include "registry/registry_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "registry/request_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	PAGE_MIN = 64, /* the first one, so that a member that does not answer is left soon */
	PAGE_MAX = 1024,
	GAP_MIN_MS = 50,
	GAP_MAX_MS = 1000,
	STOOD_S = 1,           /* a watch that stood so long was a good one */
	QUIET_MAX_S = 15 * 60, /* etcd tells of its progress every 10 minutes */
};

/* ---- trouble ----------------------------------------------------------------------------------------------------- */

/* Nodes that lose the same member do not all come back at the same time. */
static uint64_t any_below(uint64_t n)
{
	uint64_t number = 0;
	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? number % n : 0;
}

static void rest(struct registry *r, const char *why)
{
	struct follow *f = &r->follow;
	uint64_t now = clock_since_boot();
	if (f->created && now - f->stood >= STOOD_S * CLOCK_NS_PER_S)
		f->gap = 0;
	f->due = now + f->gap / 2 + any_below(f->gap / 2 + 1);
	f->gap = min_u64(max_u64(2 * f->gap, GAP_MIN_MS * CLOCK_NS_PER_MS), GAP_MAX_MS * CLOCK_NS_PER_MS);
	f->trouble = f->trouble ? f->trouble : now;
	f->state = FOLLOW_REST;
	f->created = false;
	if (why != r->complaint.text)
		err_set(&r->complaint, 0, "%s", why);
	stream_close(r);
}

/* The watch is no good where it is. */
static void break_watch(struct registry *r, const char *why)
{
	call_avoid(r, r->stream.endpoint);
	rest(r, why);
}

static void tell_away(struct registry *r, uint64_t now)
{
	struct follow *f = &r->follow;
	if (!f->trouble || f->told_away || now < f->trouble + r->timeout_ns)
		return;
	f->told_away = true;
	f->synced = false;
	r->counts.outages++;
	r->events.away(r->events.arg,
		       r->complaint.text[0] ? r->complaint.text : "no member of it has answered in time");
}

static void tell_synced(struct registry *r)
{
	struct follow *f = &r->follow;
	f->trouble = 0;
	f->told_away = false;
	r->complaint.text[0] = 0;
	if (f->synced)
		return;
	f->synced = true;
	r->events.synced(r->events.arg);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void tell_gone(struct registry *r, struct mirror_record *record, uint64_t revision)
{
	struct registry_record told = {.key = record->key, .changed = revision};
	r->events.record(r->events.arg, &told, true);
	mirror_record_free(record);
}

/* The record's key may have gone into the mirror. */
static int put(struct registry *r, struct answer_record *record, struct err *why)
{
	struct registry_record told;
	char key[REGISTRY_KEY_MAX];
	memcpy(key, record->key, strlen(record->key) + 1);
	int news = mirror_put(&r->mirror, record);
	if (news == -ENOSPC)
		return err_set(why, news, "there are more than %d records or %d MiB under %s", REGISTRY_RECORDS_MAX,
			       REGISTRY_BYTES_MAX >> 20, r->url.prefix);
	if (news < 0)
		return err_set(why, news, "no memory for what the registry has");
	if (news && registry_get(r, key, &told))
		r->events.record(r->events.arg, &told, false);
	return 0;
}

static int apply(struct registry *r, struct answer_record *records, size_t n, struct err *why)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		struct mirror_record *old;
		if (!records[i].gone)
			rc = put(r, &records[i], why);
		else if ((old = mirror_remove(&r->mirror, records[i].key, records[i].changed)))
			tell_gone(r, old, records[i].changed);
	}
	return rc;
}

/* False: there is a key that the mirror does not have so, although all changes were read. */
static bool mark(struct registry *r, const struct answer_page *page)
{
	bool known = true;
	for (size_t i = 0; i < page->n; i++)
		known &= mirror_mark(&r->mirror, page->records[i].key, page->records[i].created,
				     page->records[i].changed);
	return known;
}

static void sweep(struct registry *r)
{
	size_t at = 0;
	for (struct mirror_record *record; (record = mirror_sweep(&r->mirror, &at));)
		tell_gone(r, record, 0);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void on_page(struct registry *r, void *arg, const struct outcome *outcome);

static void read_page(struct registry *r)
{
	struct follow *f = &r->follow;
	struct wbuf body = {0};
	bool first = f->page == PAGE_MIN;
	uint64_t now = clock_since_boot();
	request_range(&body, &(struct request_range){.prefix = r->url.prefix,
						     .from = f->cursor,
						     .from_len = f->cursor_len,
						     .limit = f->page,
						     .revision = f->at,
						     .since = f->state == FOLLOW_CHANGES ? f->since : 0,
						     .keys_only = f->state == FOLLOW_KEYS});
	if (call_begin(r, &(struct call_plan){.path = "/v3/kv/range",
					      .body = &body,
					      .deadline = now + r->timeout_ns,
					      .try_ns = first ? registry_try_ns(r) : r->timeout_ns,
					      .done = on_page}))
		rest(r, "no memory to read the registry");
}

static void read_all(struct registry *r, enum follow_state state, uint64_t since)
{
	struct follow *f = &r->follow;
	f->state = state;
	f->since = since;
	free(f->cursor);
	f->cursor = NULL;
	read_page(r);
}

static void begin(struct registry *r)
{
	r->follow.at = 0;
	r->follow.page = PAGE_MIN;
	read_all(r, FOLLOW_CHANGES, r->follow.revision ? r->follow.revision + 1 : 0);
}

static bool turn_page(struct registry *r, const struct answer_page *page)
{
	struct follow *f = &r->follow;
	const char *last = page->records[page->n - 1].key;
	size_t cut = strlen(r->url.prefix), len = strlen(last);
	char *cursor = malloc(cut + len + 1);
	if (!cursor)
		return false;
	memcpy(cursor, r->url.prefix, cut);
	memcpy(cursor + cut, last, len + 1); /* the NUL makes it the next possible key */
	free(f->cursor);
	f->cursor = cursor;
	f->cursor_len = cut + len + 1;
	f->page = min_u64(2 * f->page, PAGE_MAX);
	return true;
}

static void watch(struct registry *r)
{
	struct follow *f = &r->follow;
	f->revision = f->at;
	f->expect = f->expect <= f->revision ? 0 : f->expect;
	f->state = FOLLOW_WATCH;
	f->heard = clock_since_boot();
	if (stream_open(r, f->revision + 1))
		rest(r, "no memory to watch the registry");
}

/* Those who restore a registry take longer than an outage that is not told. */
static bool wants_keys(const struct registry *r)
{
	return r->mirror.n > r->follow.count || (r->follow.since && r->follow.told_away);
}

static void end_of_pages(struct registry *r)
{
	struct follow *f = &r->follow;
	if (f->state == FOLLOW_KEYS) {
		sweep(r);
		watch(r);
	} else if (wants_keys(r)) {
		mirror_unmark(&r->mirror);
		read_all(r, FOLLOW_KEYS, 0);
	} else if (r->mirror.n < f->count) {
		f->revision = 0; /* it was changed behind our back: all of it again */
		rest(r, "the registry has records that it did not tell of");
	} else {
		watch(r);
	}
}

/* What the mirror has is of another registry, or of this one before it was restored. */
static void begin_anew(struct registry *r)
{
	r->follow.revision = 0;
	begin(r);
}

/* The first page says of when all of them are. True: they are read from the beginning, since this is not what the mirror is of. */
static bool is_other(struct registry *r, const struct answer_page *page)
{
	struct follow *f = &r->follow;
	bool other = f->since && (page->cluster != f->cluster || page->revision < f->revision);
	f->cluster = page->cluster;
	if (other) {
		begin_anew(r);
		return true;
	}
	f->at = page->revision;
	f->count = page->count;
	return false;
}

static void take_page(struct registry *r, struct answer_page *page)
{
	struct err why = {{0}};
	if (!r->follow.at && is_other(r, page))
		return;
	if (r->follow.state == FOLLOW_KEYS && !mark(r, page)) {
		begin_anew(r);
		return;
	}
	/* Where the last key goes into the mirror, the page must be turned before. */
	bool turned = page->more && turn_page(r, page);
	if (r->follow.state == FOLLOW_CHANGES && apply(r, page->records, page->n, &why))
		rest(r, why.text);
	else if (turned)
		read_page(r);
	else if (page->more)
		rest(r, "no memory to read the registry");
	else
		end_of_pages(r);
}

static void on_page(struct registry *r, void *arg, const struct outcome *outcome)
{
	struct follow *f = &r->follow;
	struct answer_page page;
	struct err why = {{0}};
	(void)arg;
	if (outcome->rc == -EMSGSIZE && f->page > 1) {
		f->page /= 2;
		read_page(r);
	} else if (outcome->failure != FAILURE_NONE) {
		rest(r, outcome->why);
	} else if (answer_range(outcome->body, outcome->len, r->url.prefix, &page, &why)) {
		rest(r, why.text);
	} else {
		take_page(r, &page);
		answer_page_free(&page);
	}
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

static void note_created(struct registry *r)
{
	struct follow *f = &r->follow;
	if (f->created)
		return;
	f->created = true;
	f->stood = f->heard;
	tell_synced(r);
}

static void note_records(struct registry *r, struct answer_message *message)
{
	struct follow *f = &r->follow;
	struct err why = {{0}};
	uint64_t last = message->n ? message->records[message->n - 1].changed : 0;
	if (apply(r, message->records, message->n, &why)) {
		rest(r, why.text);
		return;
	}
	if (!message->fragment)
		f->revision = max_u64(f->revision, last);
	f->expect = f->expect <= last ? 0 : f->expect;
}

static void take_message(struct registry *r, struct answer_message *message)
{
	struct follow *f = &r->follow;
	f->heard = clock_since_boot();
	if (message->cancelled) {
		enum failure failure = answer_words_mean(message->words);
		if (failure == FAILURE_TOKEN || failure == FAILURE_DENIED)
			login_expire(r, r->stream.token); /* of a watch etcd says denied where the token has expired */
		break_watch(r, message->words);
	} else if (message->cluster && message->cluster != f->cluster) {
		break_watch(r, "another cluster answers");
	} else {
		if (message->created)
			note_created(r);
		note_records(r, message);
	}
}

static void read_stream(struct registry *r)
{
	struct answer_message message;
	struct err why = {{0}};
	const char *text;
	size_t len;
	while (r->follow.state == FOLLOW_WATCH && stream_next(&r->stream, &text, &len)) {
		if (answer_watch(text, len, r->url.prefix, &message, &why)) {
			break_watch(r, why.text);
			return;
		}
		take_message(r, &message);
		answer_message_free(&message);
	}
	if (r->follow.state == FOLLOW_WATCH && stream_is_over(r, &why))
		break_watch(r, why.text);
}

/* Whether the watch says nothing where it should: it does not come about, does not tell of our own changes, or is silent for too long. */
static const char *watch_silence(struct registry *r, uint64_t now)
{
	struct follow *f = &r->follow;
	if (!f->created && now >= f->heard + r->timeout_ns)
		return "the watch does not begin";
	if (f->expect && now >= f->by)
		return "the watch does not tell of changes that were made";
	return now >= f->heard + QUIET_MAX_S * CLOCK_NS_PER_S ? "the watch is silent" : NULL;
}

static uint64_t watch_next(const struct registry *r)
{
	const struct follow *f = &r->follow;
	uint64_t next = f->heard + (f->created ? QUIET_MAX_S * CLOCK_NS_PER_S : r->timeout_ns);
	return f->expect ? min_u64(next, f->by) : next;
}

/* ---- for the others ---------------------------------------------------------------------------------------------- */

void follow_begin(struct registry *r, uint64_t now)
{
	r->follow.trouble = now;
}

uint64_t follow_turn(struct registry *r, uint64_t now)
{
	struct follow *f = &r->follow;
	const char *silent;
	if (f->state == FOLLOW_WATCH)
		read_stream(r);
	if (f->state == FOLLOW_WATCH && (silent = watch_silence(r, now)))
		break_watch(r, silent);
	if (f->state == FOLLOW_REST && now >= f->due && login_ready(r))
		begin(r);
	tell_away(r, now);
	uint64_t next = f->trouble && !f->told_away ? f->trouble + r->timeout_ns : UINT64_MAX;
	if (f->state == FOLLOW_WATCH)
		next = min_u64(next, watch_next(r));
	return f->state == FOLLOW_REST && login_ready(r) ? min_u64(next, f->due) : next;
}

void follow_expect(struct registry *r, uint64_t revision)
{
	struct follow *f = &r->follow;
	if (f->state == FOLLOW_REST || revision <= f->revision)
		return;
	f->by = f->expect ? f->by : clock_since_boot() + r->timeout_ns;
	f->expect = max_u64(f->expect, revision);
}

void follow_avoid(struct registry *r, unsigned endpoint)
{
	if (r->follow.state == FOLLOW_WATCH && r->stream.endpoint == endpoint)
		break_watch(r, "another call to it has failed");
}

void follow_end(struct registry *r)
{
	stream_close(r);
	free(r->follow.cursor);
}
