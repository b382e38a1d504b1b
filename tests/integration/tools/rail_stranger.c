/* rail_stranger FROM HOST PORT COUNT [WORDS]: somebody who has libfabric, and calls a node's endpoint of copies from the address FROM, so many times, with
 * these words (hexadecimal), else with those that a node would say, but for the token. Prints how many calls were taken. */
#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/link/rail_words.h"
#include "cluster/net/fabric.h"
#include "cluster/net/rail.h"

#include <arpa/inet.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_S = 20 };

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
	if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
		exit(2);
	return at;
}

static size_t forge(unsigned n, uint8_t words[RAIL_WORDS])
{
	struct wbuf w = wbuf_over(words, RAIL_WORDS);
	uint8_t token[LINK_TOKEN] = {0};
	if (n % 2 && RAND_bytes(token, sizeof(token)) != 1)
		exit(2);
	wbuf_u32(&w, n % 3);
	wbuf_u64(&w, n % 5 ? 1000u + n : UINT64_MAX);
	wbuf_put(&w, token, sizeof(token));
	return w.len;
}

static size_t unhex(const char *text, uint8_t words[RAIL_WORDS])
{
	size_t n = 0;
	for (unsigned byte; n < RAIL_WORDS && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
		words[n] = (uint8_t)byte;
	return n;
}

/* Whether it is taken. */
static bool call(struct rail *rail, const struct hello_address *to, const uint8_t *words, size_t len)
{
	struct rail_event event;
	struct rail_done done[8];
	struct fid_ep *ep;
	uint64_t limit = clock_deadline(LIMIT_S * CLOCK_NS_PER_S);
	int rc = rail_call(rail, to, words, len, &ep);
	if (rc) {
		fprintf(stderr, "rail_stranger: %s\n", fabric_error(rc));
		exit(1);
	}
	while (!rail_event(rail, &event) && clock_now() < limit)
		rail_read(rail, done, 8);
	if (clock_now() >= limit)
		exit(3); /* neither taken nor refused */
	rail_hang_up(ep);
	return event.news == RAIL_CONNECTED;
}

int main(int argc, char **argv)
{
	struct rail rail;
	struct err err = {{0}};
	uint8_t words[RAIL_WORDS];
	unsigned taken = 0;
	if (argc < 5)
		return 2;
	struct sockaddr_in from = address(argv[1], "0"), to = address(argv[2], argv[3]);
	struct hello_address there = {.len = sizeof(to)};
	memcpy(there.bytes, &to, sizeof(to));
	if (rail_open(&rail, "tcp", (struct sockaddr *)&from, &err)) {
		fprintf(stderr, "rail_stranger: %s\n", err.text);
		return 1;
	}
	for (unsigned n = 0; n < strtoul(argv[4], NULL, 10); n++) {
		size_t len = argc > 5 ? unhex(argv[5], words) : forge(n, words);
		taken += call(&rail, &there, words, n % 7 == 6 && argc < 6 ? n % len : len);
	}
	printf("%u\n", taken);
	rail_close(&rail);
	return 0;
}
