/* A call: one request over HTTP, at the current endpoint; if that does not serve, at the others in turn while there is time. What may
 * have been applied and may not be twice is never sent again. */
#include "registry/registry_private.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MIN_MS = 50, PAUSE_MAX_MS = 500 };

struct call {
	struct list list;
	const char *path;
	struct wbuf body, answer;
	size_t sent_bytes;
	uint64_t deadline, try_ns;
	bool once, anonymous;
	call_done *done;
	void *arg;

	CURL *easy; /* NULL: it waits */
	struct curl_slist *headers;
	unsigned endpoint, tries;
	uint64_t sent, due; /* when it left; not before */
	bool full;
	char token[ANSWER_TOKEN_MAX];
	char detail[CURL_ERROR_SIZE];

	bool over; /* outcome holds */
	enum failure failure;
	int rc;
	struct err why;
};

/* ---- libcurl's callbacks ----------------------------------------------------------------------------------------- */

static size_t on_read(char *to, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	size_t some = min_u64(size * n, c->body.len - c->sent_bytes);
	memcpy(to, c->body.data + c->sent_bytes, some);
	c->sent_bytes += some;
	return some;
}

/* libcurl sends a request again if a connection that it had kept ends before the answer: the other side may have heard it all the same. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
	struct call *c = arg;
	if (c->once || offset != 0 || origin != SEEK_SET)
		return CURL_SEEKFUNC_FAIL;
	c->sent_bytes = 0;
	return CURL_SEEKFUNC_OK;
}

static size_t on_write(char *data, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	c->full = c->answer.len + size * n > ANSWER_BYTES_MAX;
	if (!c->full)
		wbuf_put(&c->answer, data, size * n);
	return c->full || c->answer.failed ? 0 : size * n;
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static void add_header(struct curl_slist **headers, const char *text)
{
	struct curl_slist *more = curl_slist_append(*headers, text);
	if (more)
		*headers = more;
}

/* hasleader: a member that is cut off from the others says so, instead of keeping the call. */
static void set_headers(struct registry *r, CURL *easy, struct curl_slist **headers)
{
	char text[ANSWER_TOKEN_MAX + 32];
	add_header(headers, "Content-Type: application/json");
	add_header(headers, "Grpc-Metadata-hasleader: true");
	add_header(headers, "Expect:");
	if (r->login.token[0]) {
		snprintf(text, sizeof(text), "Authorization: %s", r->login.token);
		add_header(headers, text);
		explicit_bzero(text, sizeof(text));
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
}

static void set_tls(struct registry *r, CURL *easy)
{
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, r->url.tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (r->ca) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, r->ca);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* these authorities alone */
		curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0l);
	}
	if (r->cert) {
		curl_easy_setopt(easy, CURLOPT_SSLCERT, r->cert);
		curl_easy_setopt(easy, CURLOPT_SSLKEY, r->key);
	}
}

CURL *call_handle(struct registry *r, const char *path, unsigned endpoint, struct curl_slist **headers)
{
	enum { CONNECT_PART = 2, CONNECT_MIN_MS = 300 };
	char address[URL_HOST_MAX + 64];
	CURL *easy = curl_easy_init();
	if (!easy)
		return NULL;
	snprintf(address, sizeof(address), "%s://%s%s", r->url.tls ? "https" : "http", r->url.endpoints[endpoint],
		 path);
	curl_easy_setopt(easy, CURLOPT_URL, address);
	curl_easy_setopt(easy, CURLOPT_POST, 1l);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* what the environment says is for the job */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1l); /* a look-up that is given up is not waited for */
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1l);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)max_u64(registry_try_ns(r) / CONNECT_PART / CLOCK_NS_PER_MS, CONNECT_MIN_MS));
	set_tls(r, easy);
	set_headers(r, easy, headers);
	return easy;
}

static void drop_handle(struct registry *r, struct call *c)
{
	if (c->easy) {
		curl_multi_remove_handle(r->pump.multi, c->easy);
		curl_easy_cleanup(c->easy);
	}
	curl_slist_free_all(c->headers);
	c->easy = NULL;
	c->headers = NULL;
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */

static void free_call(struct registry *r, struct call *c)
{
	drop_handle(r, c);
	list_remove(&c->list);
	if (c->body.data)
		explicit_bzero(c->body.data, c->body.len);
	if (c->answer.data && c->anonymous)
		explicit_bzero(c->answer.data, c->answer.len);
	wbuf_free(&c->body);
	wbuf_free(&c->answer);
	explicit_bzero(c->token, sizeof(c->token));
	free(c);
}

int call_begin(struct registry *r, const struct call_plan *plan)
{
	struct call *c = wbuf_finish(plan->body) ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		wbuf_free(plan->body);
		return -ENOMEM;
	}
	*c = (struct call){.path = plan->path,
			   .body = *plan->body,
			   .deadline = plan->deadline,
			   .try_ns = plan->try_ns,
			   .once = plan->once,
			   .anonymous = plan->anonymous,
			   .done = plan->done,
			   .arg = plan->arg};
	*plan->body = (struct wbuf){0};
	list_push(&r->calls, &c->list);
	return 0;
}

/* c->why says why it failed. */
static void end(struct call *c, enum failure failure, int rc)
{
	c->over = true;
	c->failure = failure;
	c->rc = rc;
}

static void end_without_memory(struct call *c)
{
	end(c, FAILURE_ELSEWHERE, err_set(&c->why, -ENOMEM, "no memory for a call to the registry"));
}

static void start(struct registry *r, struct call *c, uint64_t now)
{
	uint64_t left = c->deadline - now;
	c->endpoint = r->endpoint;
	c->sent_bytes = c->answer.len = 0;
	c->detail[0] = 0;
	snprintf(c->token, sizeof(c->token), "%s", r->login.token);
	c->easy = call_handle(r, c->path, c->endpoint, &c->headers);
	if (!c->easy) {
		end_without_memory(c);
		return;
	}
	curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(c->easy, CURLOPT_READDATA, c);
	curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, on_seek);
	curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, c);
	curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
	curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->detail);
	curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS,
			 (long)div_up(c->once ? left : min_u64(left, c->try_ns), CLOCK_NS_PER_MS));
	c->sent = clock_since_boot();
	c->tries++;
	if (curl_multi_add_handle(r->pump.multi, c->easy) != CURLM_OK) {
		drop_handle(r, c);
		end_without_memory(c);
	}
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

void call_avoid(struct registry *r, unsigned endpoint)
{
	if (r->endpoint == endpoint)
		r->endpoint = (endpoint + 1) % r->url.n;
}

void call_explain(const struct registry *r, unsigned endpoint, CURLcode code, const char *detail, struct err *why)
{
	err_set(why, 0, "%s: %s", r->url.endpoints[endpoint], detail[0] ? detail : curl_easy_strerror(code));
}

/* Nothing of the request can have arrived as a whole. */
static bool never_sent(struct call *c, CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CIPHER:
		return true;
	default:
		return c->sent_bytes == 0;
	}
}

static void again(struct registry *r, struct call *c, uint64_t now)
{
	uint64_t pause = 0;
	if (c->tries % r->url.n == 0) /* all of them have been tried */
		pause = min_u64((uint64_t)PAUSE_MIN_MS * (c->tries / r->url.n), PAUSE_MAX_MS) * CLOCK_NS_PER_MS;
	c->due = now + pause;
}

static int rc_of(enum failure failure)
{
	static const int rcs[] = {
		[FAILURE_UNKNOWN] = -ECONNRESET, [FAILURE_ELSEWHERE] = -EHOSTUNREACH, [FAILURE_TOKEN] = -EACCES,
		[FAILURE_LEASE] = -ESTALE,       [FAILURE_COMPACTED] = -ESTALE,       [FAILURE_DENIED] = -EACCES,
		[FAILURE_FULL] = -ENOSPC,        [FAILURE_REQUEST] = -EINVAL};
	return rcs[failure];
}

/* libcurl has no answer. */
static void judge_broken(struct registry *r, struct call *c, CURLcode code, uint64_t now)
{
	call_explain(r, c->endpoint, code, c->detail, &c->why);
	r->complaint = c->why;
	if (c->full || c->answer.failed) {
		end(c, c->once ? FAILURE_UNKNOWN : FAILURE_REQUEST, c->full ? -EMSGSIZE : -ENOMEM);
		return;
	}
	call_avoid(r, c->endpoint);
	follow_avoid(r, c->endpoint);
	if (!c->once || never_sent(c, code))
		again(r, c, now);
	else
		end(c, FAILURE_UNKNOWN, code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -ECONNRESET);
}

/* Of whom it wanted no token when it was asked for one (login.c): it does now. */
static bool lacks_token(const struct registry *r, const struct call *c, enum failure failure)
{
	return failure == FAILURE_DENIED && r->user && !c->token[0];
}

static void judge_refused(struct registry *r, struct call *c, long status, uint64_t now)
{
	char words[ANSWER_WORDS_MAX];
	enum failure failure = answer_failure(c->answer.data, c->answer.len, status, words);
	if (!c->anonymous && lacks_token(r, c, failure))
		failure = FAILURE_TOKEN;
	err_set(&c->why, 0, "%s: %s", r->url.endpoints[c->endpoint], words);
	r->complaint = c->why;
	if (failure == FAILURE_TOKEN && !c->anonymous) {
		login_expire(r, c->token);
		again(r, c, now);
	} else if (failure == FAILURE_ELSEWHERE || (failure == FAILURE_UNKNOWN && !c->once)) {
		call_avoid(r, c->endpoint);
		if (failure == FAILURE_ELSEWHERE)
			follow_avoid(r, c->endpoint);
		again(r, c, now);
	} else {
		end(c, failure, rc_of(failure));
	}
}

void call_finished(struct registry *r, CURL *easy, CURLcode code)
{
	enum { HTTP_OK = 200 };
	struct call *c = NULL;
	long status = 0;
	uint64_t now = clock_since_boot();
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	drop_handle(r, c);
	if (code != CURLE_OK)
		judge_broken(r, c, code, now);
	else if (status != HTTP_OK)
		judge_refused(r, c, status, now);
	else
		end(c, FAILURE_NONE, 0);
}

/* The deadline has passed while it waited, so that nothing of it is under way. */
static void give_up(struct registry *r, struct call *c)
{
	if (!c->anonymous && !login_ready(r) && r->login.why.text[0])
		c->why = r->login.why;
	if (!c->why.text[0])
		err_set(&c->why, 0, "no member of the registry could be reached in time");
	end(c, FAILURE_ELSEWHERE, -EHOSTUNREACH);
}

static void finish(struct registry *r, struct call *c)
{
	struct outcome outcome = {c->failure, c->rc, c->answer.data, c->answer.len, c->sent, c->why.text};
	list_remove(&c->list);
	c->done(r, c->arg, &outcome);
	free_call(r, c);
}

uint64_t call_turn(struct registry *r, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct list over = LIST_INIT(over);
	list_for_safe(node, &r->calls) {
		struct call *c = list_entry(node, struct call, list);
		bool may = c->anonymous || login_ready(r);
		if (!c->over && !c->easy && now >= c->deadline)
			give_up(r, c);
		else if (!c->over && !c->easy && may && now >= c->due)
			start(r, c, now);
		if (!c->over && !c->easy)
			next = min_u64(next, min_u64(c->deadline, may ? c->due : UINT64_MAX));
		if (c->over) {
			list_remove(&c->list);
			list_push(&over, &c->list);
		}
	}
	if (!list_empty(&over))
		next = 0; /* who is told may want something */
	for (struct list *node; (node = list_pop(&over));)
		finish(r, list_entry(node, struct call, list));
	return next;
}

void call_end_all(struct registry *r)
{
	list_for_safe(node, &r->calls)
		free_call(r, list_entry(node, struct call, list));
}
