#include "observe/http.h"

#include "base/address.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "observe/health.h"
#include "observe/http_origin.h"
#include "observe/http_page.h"
#include "observe/http_reserve.h"
#include "observe/metrics.h"
#include "observe/observe.h"
#include "observe/status.h"
#include "runtime/room.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Who comes to a full queue is not answered for a second or more. */
enum { ROUNDS = 8, BACKLOG = 4096, ARRIVALS = 128 };

enum page { PAGE_METRICS, PAGE_HEALTH, PAGE_STATUS, PAGE_END };

/* What was made of a page last. */
struct made {
	struct wbuf text;
	uint64_t at_ns; /* 0: never */
	unsigned code;
};

/* An open connection, so that its life can be bounded. */
struct visitor {
	int fd; /* -1: none */
	uint64_t since_ns;
	bool leaves; /* it was told to go */
	struct http_origin origin;
};

struct http {
	struct observe *observe;
	struct MHD_Daemon *mhd;
	struct watch *watch, *arrivals;
	int listener;
	int asker; /* of http_origin.h, or -errno */
	bool loopback;
	char address[ADDRESS_MAX];
	struct http_origin arriving; /* of the connection that the library is being given */
	struct made made[PAGE_END];
	struct http_reserve reserve;
	struct visitor visitors[HTTP_CONNECTIONS];
};

/* ---- addresses ------------------------------------------------------------------------------------------------- */

static int listen_at(struct http *http, union address *a)
{
	socklen_t len = address_size(a);
	int sock = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(sock, &a->any, len) < 0 || listen(sock, BACKLOG) < 0 || getsockname(sock, &a->any, &len) < 0) {
		int rc = -errno;
		close(sock);
		return rc;
	}
	address_print(a, http->address, sizeof(http->address));
	http->loopback = address_is_loopback(a);
	return sock;
}

/* A page of the web whose name was made to resolve to this machine must not read what only this machine may. */
static bool host_is_local(const char *host)
{
	char name[ADDRESS_MAX + 8];
	union address ignored;
	if (!host)
		return true; /* HTTP/1.0 */
	if (!strncmp(host, "localhost", 9) && (!host[9] || host[9] == ':'))
		return true;
	snprintf(name, sizeof(name), "%s%s", host,
		 strchr(host, ']')   ? (strstr(host, "]:") ? "" : ":0")
		 : strchr(host, ':') ? ""
				     : ":0");
	return !address_parse(name, &ignored);
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static struct MHD_Response *new_response(const void *data, size_t len, const char *type, const char *policy)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, (void *)data, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return NULL;
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(r, "Content-Security-Policy", policy);
	MHD_add_response_header(r, "Connection", "close");
	return r;
}

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned code, struct MHD_Response *r)
{
	if (!r)
		return MHD_NO; /* without memory: the connection ends */
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	enum MHD_Result result = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return result;
}

#define NOTHING_ALLOWED "default-src 'none'; frame-ancestors 'none'"

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned code, const char *text)
{
	return send_response(c, code, new_response(text, strlen(text), "text/plain; charset=utf-8", NOTHING_ALLOWED));
}

static int make(struct http *http, enum page page, struct made *made)
{
	enum health_severity severity;
	made->code = MHD_HTTP_OK;
	int rc = page == PAGE_METRICS  ? metrics_encode(http->observe, &made->text)
		 : page == PAGE_STATUS ? status_encode(http->observe, &made->text)
				       : health_json(http->observe, &made->text, &severity);
	if (!rc && page == PAGE_HEALTH && severity == HEALTH_FAILING)
		made->code = MHD_HTTP_SERVICE_UNAVAILABLE;
	return rc;
}

static enum MHD_Result send_made(struct http *http, struct MHD_Connection *c, enum page page)
{
	static const char *const types[PAGE_END] = {"text/plain; version=0.0.4; charset=utf-8", "application/json",
						    "application/json"};
	struct made *made = &http->made[page];
	uint64_t now = clock_now();
	if (!made->at_ns || now - made->at_ns > HTTP_CACHE_MS * CLOCK_NS_PER_MS) {
		wbuf_free(&made->text);
		made->text = (struct wbuf){0};
		made->at_ns = 0;
		if (make(http, page, made))
			return send_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
		made->at_ns = now;
	}
	return send_response(c, made->code,
			     new_response(made->text.data, made->text.len, types[page], NOTHING_ALLOWED));
}

static enum MHD_Result send_page(struct MHD_Connection *c)
{
	AUTO_WBUF struct wbuf text = {0};
	char policy[HTTP_POLICY_MAX];
	if (http_page(&text, policy))
		return send_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return send_response(c, MHD_HTTP_OK, new_response(text.data, text.len, "text/html; charset=utf-8", policy));
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *upload, size_t *upload_size, void **request)
{
	struct http *http = cls;
	(void)version;
	(void)upload;
	(void)upload_size;
	(void)request;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return send_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "this is for reading only\n");
	if (http->loopback && !host_is_local(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
		return send_text(c, MHD_HTTP_FORBIDDEN, "ask by a numeric address or localhost\n");
	if (!strcmp(url, "/metrics"))
		return send_made(http, c, PAGE_METRICS);
	if (!strcmp(url, "/healthz"))
		return send_made(http, c, PAGE_HEALTH);
	if (!strcmp(url, "/status.json"))
		return send_made(http, c, PAGE_STATUS);
	if (!strcmp(url, "/"))
		return send_page(c);
	return send_text(c, MHD_HTTP_NOT_FOUND, "there are /, /status.json, /healthz and /metrics\n");
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

static bool is_there(const struct visitor *v)
{
	return v->fd >= 0;
}

static bool stays(const struct visitor *v)
{
	return v->fd >= 0 && !v->leaves;
}

/* of NULL: all of them. */
static unsigned count(const struct http *http, bool (*which)(const struct visitor *), const struct http_origin *of)
{
	unsigned n = 0;
	for (const struct visitor *v = http->visitors; v < http->visitors + HTTP_CONNECTIONS; v++)
		n += which(v) && (!of || http_origin_same(&v->origin, of));
	return n;
}

/* of NULL: of whom most are here. */
static struct visitor *oldest(struct http *http, const struct http_origin *of)
{
	struct visitor *found = NULL;
	unsigned most = 0;
	for (struct visitor *v = http->visitors; v < http->visitors + HTTP_CONNECTIONS; v++) {
		if (!stays(v) || (of && !http_origin_same(&v->origin, of)))
			continue;
		unsigned alike = of ? 1 : count(http, stays, &v->origin);
		if (alike > most || (alike == most && v->since_ns < found->since_ns)) {
			found = v;
			most = alike;
		}
	}
	return found;
}

/* Whoever wants something asks at once and is answered at once: who has been here longest makes room for the next, of its own origin first. The
 * places that are left are for those that come before the library has closed these. */
static void make_room(struct http *http, const struct http_origin *of)
{
	struct visitor *goes = NULL;
	if (count(http, stays, of) > HTTP_OF_ONE)
		goes = oldest(http, of);
	else if (count(http, stays, NULL) > HTTP_VISITORS)
		goes = oldest(http, NULL);
	if (!goes)
		return;
	goes->leaves = true;
	http_reserve_answer(&http->reserve, http->observe, goes->fd);
	shutdown(goes->fd, SHUT_RDWR); /* the library sees it and closes */
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
	struct http *http = cls;
	struct visitor *visitor = *context;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (visitor)
			visitor->fd = -1;
		return;
	}
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	for (unsigned i = 0; info && i < HTTP_CONNECTIONS; i++) {
		if (is_there(&http->visitors[i]))
			continue;
		http->visitors[i] =
			(struct visitor){.fd = info->connect_fd, .since_ns = clock_now(), .origin = http->arriving};
		*context = &http->visitors[i];
		make_room(http, &http->arriving);
		return;
	}
}

/* No descriptor, or no memory: until the next tick nobody hears of those that wait. */
static void leave_waiting(struct http *http)
{
	watch_remove(http->arrivals);
	http->arrivals = NULL;
}

static bool has_place(const struct http *http)
{
	return count(http, is_there, &http->arriving) < HTTP_OF_ONE + HTTP_OF_ONE / 2 &&
	       count(http, is_there, NULL) < HTTP_CONNECTIONS;
}

/* Of whom there are too many at a time are turned away, so that they fill neither the places nor the queue. False: nobody waits. */
static bool arrive(struct http *http)
{
	union address from;
	socklen_t len = sizeof(from);
	int sock = accept4(http->listener, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		leave_waiting(http);
	if (sock < 0)
		return errno == ECONNABORTED || errno == EINTR;
	http_origin_of(http->asker, sock, &http->arriving);
	if (!has_place(http) && count(http, stays, &http->arriving) < HTTP_OF_ONE)
		MHD_run(http->mhd); /* those that were told to go go */
	if (has_place(http)) {
		MHD_add_connection(http->mhd, sock, &from.any, len); /* closes it where it cannot */
		return true;
	}
	http_reserve_answer(&http->reserve, http->observe, sock);
	close(sock);
	return true;
}

/* What is left after the rounds the next tick does. */
static void serve(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;
	for (int i = 0; i < ARRIVALS && arrive(http); i++)
		;
	for (int i = 0; i < ROUNDS; i++) {
		if (MHD_run(http->mhd) != MHD_YES)
			return;
		if (MHD_get_timeout(http->mhd, &ms) != MHD_YES || ms)
			return;
	}
}

static void on_ready(void *arg, uint32_t events)
{
	(void)events;
	serve(arg);
}

void http_tick(struct http *http, uint64_t now)
{
	if (!http)
		return;
	for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) {
		const struct visitor *v = &http->visitors[i];
		if (v->fd >= 0 && now - v->since_ns > HTTP_LIFE_MS * CLOCK_NS_PER_MS)
			shutdown(v->fd, SHUT_RDWR); /* the library sees it and closes */
	}
	if (!http->arrivals)
		http->arrivals = loop_watch(http->observe->runtime->loop, http->listener, EPOLLIN, on_ready, http);
	serve(http);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static void on_log(void *cls, const char *fmt, va_list ap)
{
	char text[256];
	(void)cls;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = 0;
	log_debug("http: %s", text);
}

static int start_library(struct http *http)
{
	http->mhd = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, http,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)HTTP_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
	if (!http->mhd)
		return -ENOMEM;
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (info)
		http->watch = loop_watch(http->observe->runtime->loop, info->epoll_fd, EPOLLIN, on_ready, http);
	http->arrivals = loop_watch(http->observe->runtime->loop, http->listener, EPOLLIN, on_ready, http);
	return http->watch && http->arrivals ? 0 : -ENOMEM;
}

int http_start(struct observe *observe, const char *address, struct http **out, struct err *err)
{
	union address parsed;
	int rc = address_parse(address, &parsed);
	if (rc)
		return err_set(err, rc, "--http %s: expected ADDR:PORT with a numeric address", address);
	struct http *http = calloc(1, sizeof(*http));
	if (!http)
		return err_set(err, -ENOMEM, "no memory for HTTP");
	http->observe = observe;
	http->asker = http_origin_asker();
	for (unsigned i = 0; i < HTTP_CONNECTIONS; i++)
		http->visitors[i].fd = -1;
	http->listener = rc = listen_at(http, &parsed);
	if (rc >= 0)
		rc = start_library(http);
	if (rc) {
		http_stop(http);
		return err_set(err, rc, "--http %s: %s", address, err_name(rc));
	}
	*out = http;
	return 0;
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	watch_remove(http->arrivals);
	watch_remove(http->watch);
	if (http->listener >= 0)
		close(http->listener);
	if (http->mhd)
		MHD_stop_daemon(http->mhd);
	if (http->asker >= 0)
		close(http->asker);
	for (int i = 0; i < PAGE_END; i++)
		wbuf_free(&http->made[i].text);
	free(http);
}

const char *http_address(const struct http *http)
{
	return http ? http->address : NULL;
}
