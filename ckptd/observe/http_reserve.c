#include "observe/http_reserve.h"

#include "base/clock.h"
#include "observe/health.h"
#include "observe/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool begins_with(const char *text, const char *what)
{
	return !strncmp(text, what, strlen(what));
}

static bool asks_for_health(int sock)
{
	char said[32] = "";
	ssize_t n = recv(sock, said, sizeof(said) - 1, MSG_PEEK | MSG_DONTWAIT);
	return n > 0 && (begins_with(said, "GET /healthz ") || begins_with(said, "HEAD /healthz "));
}

/* Findings may be what only this machine is to read: see host_is_local() in http.c. */
static void make(struct http_reserve *reserve, struct observe *observe)
{
	struct finding worst;
	enum health_severity severity;
	char body[64];
	health_find(observe, &worst, 1, &severity);
	int len = snprintf(body, sizeof(body), "{\"schema\":1,\"status\":\"%s\"}\n", health_status_name(severity));
	reserve->len = (size_t)snprintf(reserve->text, sizeof(reserve->text),
					"HTTP/1.1 %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
					"Content-Length: %d\r\nConnection: close\r\n\r\n%s",
					severity == HEALTH_FAILING ? "503 Service Unavailable" : "200 OK", len, body);
}

bool http_reserve_answer(struct http_reserve *reserve, struct observe *observe, int sock)
{
	char rest[1024];
	uint64_t now = clock_now();
	if (!asks_for_health(sock))
		return false;
	if (!reserve->at_ns || now - reserve->at_ns > HTTP_CACHE_MS * CLOCK_NS_PER_MS) {
		make(reserve, observe);
		reserve->at_ns = now;
	}
	/* What is left unread would have the kernel cut the answer off. */
	for (int i = 0; i < 16 && recv(sock, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
		;
	return send(sock, reserve->text, reserve->len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)reserve->len;
}
