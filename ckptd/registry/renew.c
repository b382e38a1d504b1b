/* Renew: carries out what lease.c wants. */
#include "registry/registry_private.h"

#include "base/clock.h"
#include "registry/request_private.h"

#include <sys/random.h>

enum { TRIES = 3, TRY_MIN_MS = 100, GOODBYE_MS = 300 };

static void lapse(struct registry *r)
{
	r->events.lapsed(r->events.arg);
}

void renew_look(struct registry *r, uint64_t now)
{
	if (lease_look(&r->lease, now))
		lapse(r);
}

void renew_lost(struct registry *r, uint64_t id)
{
	if (r->lease.id == id && lease_lost(&r->lease, clock_since_boot()))
		lapse(r);
}

/* A lease's id is what tells which one is answered about. */
static void *as_arg(uint64_t id)
{
	return (void *)(uintptr_t)id;
}

static uint64_t as_id(const void *arg)
{
	return (uintptr_t)arg;
}

/* To a grant or a renewal. */
static void on_lease(struct registry *r, void *arg, const struct outcome *outcome)
{
	struct err why = {{0}};
	uint64_t ttl_s = 0, id = as_id(arg), now = clock_since_boot();
	bool held = r->lease.state == LEASE_HELD;
	bool ended = outcome->failure == FAILURE_LEASE;
	if (outcome->failure != FAILURE_NONE || answer_lease(outcome->body, outcome->len, id, &ttl_s, &why))
		ttl_s = 0;
	else
		ended = !ttl_s;
	if (held && ended)
		renew_lost(r, id);
	else if (!ttl_s)
		lease_failed(&r->lease, id, now);
	else if (lease_answered(&r->lease, id, ttl_s * CLOCK_NS_PER_S, outcome->sent, now))
		r->events.leased(r->events.arg);
	else if (held)
		r->counts.renewals++;
}

/* What is refused for good is no lease that we could end. */
static void on_revoked(struct registry *r, void *arg, const struct outcome *outcome)
{
	enum failure failure = outcome->failure;
	if (failure == FAILURE_NONE || failure == FAILURE_LEASE || failure == FAILURE_DENIED ||
	    failure == FAILURE_REQUEST)
		lease_revoked(&r->lease, as_id(arg), clock_since_boot());
	else
		lease_failed(&r->lease, as_id(arg), clock_since_boot());
}

static uint64_t make_id(void)
{
	uint64_t id = 0;
	while (!id) {
		if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
			id = clock_wall();
		id &= INT64_MAX;
	}
	return id;
}

static void ask(struct registry *r, enum lease_want want, uint64_t now)
{
	static const char *const paths[] = {[LEASE_GRANT] = "/v3/lease/grant",
					    [LEASE_RENEW] = "/v3/lease/keepalive",
					    [LEASE_REVOKE] = "/v3/lease/revoke"};
	struct wbuf body = {0};
	uint64_t id = want == LEASE_GRANT ? make_id() : r->lease.id;
	uint64_t end = want == LEASE_RENEW ? min_u64(r->lease.until, now + r->timeout_ns) : now + r->timeout_ns;
	uint64_t try = max_u64(min_u64(registry_try_ns(r), (end - now) / TRIES), TRY_MIN_MS * CLOCK_NS_PER_MS);
	if (want == LEASE_GRANT)
		request_grant(&body, id, r->lease.ttl_s);
	else
		request_lease(&body, id);
	lease_ask(&r->lease, id);
	if (call_begin(r, &(struct call_plan){.path = paths[want],
					      .body = &body,
					      .deadline = end,
					      .try_ns = try,
					      .once = want == LEASE_GRANT,
					      .done = want == LEASE_REVOKE ? on_revoked : on_lease,
					      .arg = as_arg(id)}))
		lease_failed(&r->lease, id, now);
}

uint64_t renew_turn(struct registry *r, uint64_t now)
{
	enum lease_want want = lease_wants(&r->lease, now);
	if (want != LEASE_REST && login_ready(r))
		ask(r, want, now);
	uint64_t next = lease_next(&r->lease);
	return next > now                     ? next
	       : r->lease.state == LEASE_HELD ? r->lease.until
					      : UINT64_MAX; /* it waits for a token */
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static size_t ignore(char *data, size_t size, size_t n, void *arg)
{
	(void)data, (void)arg;
	return size * n;
}

/* For as long as it may take; whoever is not there then lets the lease run out. */
static void wait_for(CURLM *multi, uint64_t deadline)
{
	int running = 1;
	while (running && clock_now() < deadline)
		if (curl_multi_perform(multi, &running) != CURLM_OK ||
		    (running && curl_multi_poll(multi, NULL, 0, clock_ms_until(deadline), NULL) != CURLM_OK))
			return;
}

void renew_end(struct registry *r)
{
	struct wbuf body = {0};
	struct curl_slist *headers = NULL;
	CURLM *multi = r->lease.state == LEASE_HELD && r->follow.created ? curl_multi_init() : NULL;
	CURL *easy = multi ? call_handle(r, "/v3/lease/revoke", r->endpoint, &headers) : NULL;
	if (easy) {
		request_lease(&body, r->lease.id);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data);
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
		if (!wbuf_finish(&body) && curl_multi_add_handle(multi, easy) == CURLM_OK) {
			wait_for(multi, clock_now() + GOODBYE_MS * CLOCK_NS_PER_MS);
			curl_multi_remove_handle(multi, easy);
		}
		curl_easy_cleanup(easy);
	}
	curl_slist_free_all(headers);
	wbuf_free(&body);
	curl_multi_cleanup(multi);
}
