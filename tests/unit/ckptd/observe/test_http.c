#include "observe/http.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "config/sources.h"
#include "daemon.h"
#include "observe/http_origin.h"
#include "runtime/loop.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 65536, WAIT_MS = 60000 };

static struct daemon d;
static struct http *http;
static struct err err;
static char answer[ANSWER_MAX];
static size_t len;
static int sock;
static uint64_t give_up;

static void setup(void)
{
	err = (struct err){{0}};
	daemon_init(&d);
	d.runtime.config = (struct config){.node = "n0", .memory_limit = 100};
	d.storage.root = 0;
	list_init(&d.jobs.list);
	cr_assert_eq(sources_new(&d.runtime.sources, &err), 0);
	cr_assert_eq(loop_new(&d.runtime.loop, &err), 0);
	cr_assert_eq(http_start(&d.observe, "127.0.0.1:0", &http, &err), 0, "%s", err.text);
	d.observe.http = http;
}

static void teardown(void)
{
	http_stop(http);
	loop_free(d.runtime.loop);
	sources_free(d.runtime.sources);
}

TestSuite(http, .init = setup, .fini = teardown);

static int connect_to(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	to.sin_port = htons((uint16_t)strtoul(strrchr(http_address(http), ':') + 1, NULL, 10));
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(s, (struct sockaddr *)&to, sizeof(to)), 0);
	return s;
}

static void on_answer(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	ssize_t n = recv(sock, answer + len, ANSWER_MAX - 1 - len, MSG_DONTWAIT);
	if (n > 0)
		len += (size_t)n;
	if (n == 0 || (n < 0 && errno != EAGAIN))
		loop_stop(d.runtime.loop);
}

static void on_tick(void *arg)
{
	(void)arg;
	http_tick(http, clock_now());
	if (clock_now() > give_up)
		loop_stop(d.runtime.loop);
}

/* Client and server share the loop. Returns the status, 0 when the connection ended without one. */
static int ask_over(int connection, const char *request)
{
	sock = connection;
	len = 0;
	cr_assert_eq(send(sock, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	struct watch *watch = loop_watch(d.runtime.loop, sock, EPOLLIN, on_answer, NULL);
	give_up = clock_deadline(WAIT_MS * CLOCK_NS_PER_MS);
	loop_tick(d.runtime.loop, 5, on_tick, NULL);
	cr_assert_eq(loop_run(d.runtime.loop), 0);
	watch_remove(watch);
	close(sock);
	answer[len] = 0;
	cr_assert_lt(clock_now(), give_up, "no answer");
	return len > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static int ask(const char *request)
{
	return ask_over(connect_to(), request);
}

#define GET(path) ask("GET " path " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

Test(http, each_page_is_there)
{
	cr_assert_eq(GET("/metrics"), 200);
	cr_assert(strstr(answer, "text/plain; version=0.0.4") && strstr(answer, "ckpt_memory_limit_bytes 100\n"));
	cr_assert_eq(GET("/status.json"), 200);
	cr_assert(strstr(answer, "\"node\":\"n0\"") && strstr(answer, http_address(http)));
	cr_assert_eq(GET("/healthz"), 200);
	cr_assert(strstr(answer, "\"status\":\"ok\"") && strstr(answer, "NO_STORE"));
	cr_assert_eq(GET("/nothing"), 404);
}

static void nonce_of(char dst[33])
{
	const char *at = strstr(answer, "script-src 'nonce-");
	cr_assert(at);
	snprintf(dst, 33, "%s", at + strlen("script-src 'nonce-"));
}

Test(http, the_page_has_a_number_drawn_for_it)
{
	char first[33], second[33], tag[64];
	cr_assert_eq(GET("/"), 200);
	nonce_of(first);
	snprintf(tag, sizeof(tag), "<script nonce=\"%s\">", first);
	cr_assert(strstr(answer, tag) && !strstr(answer, "@NONCE@"));
	cr_assert_eq(GET("/"), 200);
	nonce_of(second);
	cr_assert_str_neq(first, second);
}

Test(http, it_is_for_reading_only)
{
	cr_assert_eq(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"), 405);
	cr_assert_eq(ask("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
	cr_assert_eq(ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
}

Test(http, a_foreign_name_is_refused_on_loopback)
{
	cr_assert_eq(ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
	cr_assert_eq(ask("GET /metrics HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n"), 403);
	cr_assert_eq(ask("GET /metrics HTTP/1.1\r\nHost: localhost:80\r\n\r\n"), 200);
	cr_assert_eq(ask("GET /metrics HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 200);
	cr_assert_eq(ask("GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n"), 200);
}

Test(http, a_head_without_end_is_refused)
{
	static char request[3 * HTTP_CONNECTION_BYTES];
	memset(request, 'a', sizeof(request) - 1);
	memcpy(request, "GET /", 5);
	int code = ask(request);
	cr_assert(code == 0 || (code >= 400 && code < 500), "%d", code);
}

/* It says nothing, or a byte now and then: it is not kept longer than any other. */
Test(http, a_connection_that_goes_on_and_on_is_cut)
{
	sock = connect_to();
	for (int i = 0; i < 4; i++) /* until it is accepted */
		http_tick(http, clock_now());
	http_tick(http, clock_now() + (HTTP_LIFE_MS + 1) * CLOCK_NS_PER_MS);
	http_tick(http, clock_now());
	char byte;
	struct pollfd p = {.fd = sock, .events = POLLIN};
	cr_assert_eq(poll(&p, 1, WAIT_MS), 1);
	cr_assert_leq(recv(sock, &byte, 1, MSG_DONTWAIT), 0);
	close(sock);
}

Test(http, more_connections_than_the_bound_do_not_keep_the_next_one_out_for_ever)
{
	int idle[HTTP_CONNECTIONS + 4];
	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		idle[i] = connect_to();
		http_tick(http, clock_now());
	}
	http_tick(http, clock_now() + (HTTP_LIFE_MS + 1) * CLOCK_NS_PER_MS);
	cr_assert_eq(GET("/metrics"), 200);
	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
		close(idle[i]);
}

/* What is full of them answers at once, and not when they have been idle for too long. */
Test(http, idle_connections_make_room_for_one_that_asks)
{
	int idle[6 * HTTP_CONNECTIONS];
	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		idle[i] = connect_to();
		if (i % 16 == 15)
			http_tick(http, clock_now());
	}
	uint64_t since = clock_now();
	cr_assert_eq(GET("/healthz"), 200);
	cr_expect_lt(clock_now() - since, HTTP_IDLE_S * CLOCK_NS_PER_S);
	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
		close(idle[i]);
}

/* Many come from here, before another one has said what it wants. */
static void expect_answered_among_many(int other)
{
	int many[6 * HTTP_CONNECTIONS];
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		http_tick(http, clock_now());
		many[i] = connect_to();
	}
	cr_expect_eq(ask_over(other, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 200);
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		close(many[i]);
}

Test(http, many_connections_of_one_user_take_no_place_from_another)
{
	AUTO_CLOSE int asker = http_origin_asker();
	if (geteuid() || asker < 0)
		cr_skip_test("%s", geteuid() ? "only root can be another user"
					     : "the kernel does not tell whose a socket is");
	cr_assert_eq(seteuid(65534), 0);
	int other = connect_to();
	cr_assert_eq(seteuid(0), 0);
	expect_answered_among_many(other);
}

/* They come all at once, before anybody is served: who asks is among those that lose their place, or that get none. */
static void expect_health_of(unsigned which)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
	int many[4 * HTTP_CONNECTIONS];
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		many[i] = connect_to();
		if (i == which)
			cr_assert_eq(send(many[i], request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	}
	http_tick(http, clock_now());
	http_tick(http, clock_now());
	ssize_t n = recv(many[which], answer, ANSWER_MAX - 1, MSG_DONTWAIT);
	answer[n > 0 ? n : 0] = 0;
	cr_expect(strstr(answer, "HTTP/1.1 200 OK\r\n") && strstr(answer, "\"status\":\"ok\""), "the %uth: %s", which,
		  answer);
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		close(many[i]);
}

Test(http, health_is_told_whoever_takes_the_places)
{
	expect_health_of(0);
	expect_health_of(HTTP_OF_ONE + 2);
	expect_health_of(2 * HTTP_CONNECTIONS);
	expect_health_of(4 * HTTP_CONNECTIONS - 1);
}

Test(http, an_address_that_is_taken_is_told)
{
	struct http *second = NULL;
	cr_assert_eq(http_start(&d.observe, http_address(http), &second, &err), -EADDRINUSE);
	cr_assert(strstr(err.text, http_address(http)));
	cr_assert_null(second);
}
