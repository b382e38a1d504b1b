#include "observe/http_page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

extern const unsigned char http_page_html[];
extern const size_t http_page_html_len;

/* Stands in the page wherever the number belongs. */
#define PLACE "@NONCE@"

enum { NONCE_BYTES = 16, PLACE_LEN = sizeof(PLACE) - 1 };

int http_page(struct wbuf *out, char policy[HTTP_POLICY_MAX])
{
	uint8_t random[NONCE_BYTES];
	char nonce[2 * NONCE_BYTES + 1];
	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return -EAGAIN;
	for (unsigned i = 0; i < NONCE_BYTES; i++)
		snprintf(nonce + 2 * i, 3, "%02x", random[i]);
	const unsigned char *at = http_page_html, *end = http_page_html + http_page_html_len, *found;
	while ((found = memmem(at, (size_t)(end - at), PLACE, PLACE_LEN))) {
		wbuf_put(out, at, (size_t)(found - at));
		wbuf_put(out, nonce, sizeof(nonce) - 1);
		at = found + PLACE_LEN;
	}
	wbuf_put(out, at, (size_t)(end - at));
	snprintf(
		policy, HTTP_POLICY_MAX,
		"default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; base-uri 'none'; "
		"form-action 'none'; frame-ancestors 'none'",
		nonce, nonce);
	return wbuf_finish(out);
}
