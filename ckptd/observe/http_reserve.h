/* Reserve: /healthz for those that get no place, or lose theirs before they were served, because strangers come in
 * numbers. It takes nothing but what has come already, and says nothing but the status. */
#ifndef CKPTD_OBSERVE_HTTP_RESERVE_H
#define CKPTD_OBSERVE_HTTP_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_RESERVE_MAX = 512 };

struct observe;

/* What was said last. */
struct http_reserve {
	char text[HTTP_RESERVE_MAX];
	size_t len;
	uint64_t at_ns; /* 0: never */
};

/* Answers if what waits in the socket asks for /healthz. Never waits; the caller closes. Whether it did. */
bool http_reserve_answer(struct http_reserve *reserve, struct observe *observe, int sock);

#endif
