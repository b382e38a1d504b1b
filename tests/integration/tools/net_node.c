/* net_node ROSTER NAME KEY|CERT,CERT_KEY,CA TIMEOUT_MS sealed|bare|fabric [IDLE_MS]: one node of a net, driven by lines on stdin; what happens is told in lines on stdout.
 *
 *	send NODE TYPE TEXT               sent RC
 *	flood NODE COUNT BYTES [TYPE]     flooded RC TAKEN       stops at the first that is refused
 *	share BYTES                       shared RC RC           one body to the first two nodes
 *	expose NODE BYTES r|w SEED        exposed ID KEY ADDRESS SIZE | exposed RC
 *	fill ID SEED                      filled
 *	check ID SEED                     checked match | checked BYTE      the first that differs
 *	withdraw ID                       withdrawn MILLISECONDS
 *	write|read|stream NODE KEY ADDRESS SIZE OFFSET BYTES SEED MILLISECONDS
 *	                                  begun, later: done RESULT MILLISECONDS match|BYTE
 *	                                  stream: writes it again and again, each time done, until that fails; something is on the
 *	                                  way however late its peer is told to end it
 *	drop NODE RC                      dropped
 *	counts                            counts SESSIONS IN OUT REFUSED
 *	clocks                            asked                             the time of day of the others
 *	jump NANOSECONDS                  jumped                            the time of day of this one is so far ahead
 *	open NODE                         open 0|1                          whether their session has a connection
 *	mind NODE 0|1                     minding                           whether its loss matters at once
 *	renew                             renewed RC                        reads its key or certificates again
 *	deaf                              deaf                              the loop stands still until the next line
 * Unasked: up NODE, down NODE RC, message NODE TYPE BYTES TEXT, clock NODE ROUND_TRIP_NS AHEAD_NS. */
#include "base/clock.h"
#include "cluster/net.h"
#include "cluster/net_body.h"
#include "cluster/roster.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REGIONS = 64, LINE_BYTES = 4096, NODES = 64 };

struct shown {
	struct net_region *region;
	uint64_t *base;
	uint64_t size;
};

struct copy {
	struct net_op op;
	uint64_t begun, seed, ms;
	bool again;
};

static struct net *net;
static struct net_credentials files;
static struct shown shown[REGIONS];
static unsigned nshown;
static bool minded[NODES];

static void fill(uint64_t *base, uint64_t size, uint64_t seed)
{
	for (uint64_t i = 0; i < size / 8; i++)
		base[i] = seed * 0x9e3779b97f4a7c15ull + i;
}

/* "match", or the first byte that differs. */
static const char *compare(const uint64_t *base, uint64_t size, uint64_t seed)
{
	static char text[32];
	for (uint64_t i = 0; i < size / 8; i++) {
		if (base[i] == seed * 0x9e3779b97f4a7c15ull + i)
			continue;
		snprintf(text, sizeof(text), "%" PRIu64, 8 * i);
		return text;
	}
	return "match";
}

static void *map(uint64_t size)
{
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		abort();
	return base;
}

static double ms_since(uint64_t begun)
{
	return (double)(clock_now() - begun) / 1e6;
}

/* KEY, or CERT,CERT_KEY,CA. */
static struct net_credentials credentials(char *text)
{
	char *cert_key = strchr(text, ',');
	char *ca = cert_key ? strchr(cert_key + 1, ',') : NULL;
	if (!ca)
		return (struct net_credentials){.key = text};
	*cert_key = *ca = 0;
	return (struct net_credentials){.cert = text, .cert_key = cert_key + 1, .ca = ca + 1};
}

static enum net_copies way(const char *word)
{
	return !strcmp(word, "fabric") ? NET_COPIES_FABRIC
	       : !strcmp(word, "bare") ? NET_COPIES_BARE
				       : NET_COPIES_SEALED;
}

static void on_up(void *arg, unsigned node)
{
	(void)arg;
	printf("up %u\n", node);
}

static void on_down(void *arg, unsigned node, int rc)
{
	(void)arg;
	printf("down %u %d\n", node, rc);
}

static void on_message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	(void)arg;
	printf("message %u %u %zu %.*s\n", node, type, len, len < 64 ? (int)len : 64, (const char *)body);
}

static void on_clock(void *arg, unsigned node, const struct net_clock *clock)
{
	(void)arg;
	printf("clock %u %" PRIu64 " %" PRId64 "\n", node, clock->round_trip_ns, clock->ahead_ns);
}

static bool on_minds(void *arg, unsigned node)
{
	(void)arg;
	return node < NODES && minded[node];
}

static void send_text(unsigned node, unsigned type, const char *text)
{
	struct wbuf body = {0};
	wbuf_put(&body, text, strlen(text));
	printf("sent %d\n", net_send(net, node, (uint16_t)type, &body));
	wbuf_free(&body);
}

static void flood(unsigned node, unsigned count, size_t bytes, uint64_t type)
{
	struct wbuf body = {.data = calloc(1, bytes + 1), .len = bytes, .cap = bytes + 1};
	unsigned taken = 0;
	int rc = 0;
	while (taken < count) {
		snprintf((char *)body.data, bytes + 1, "%06u", taken);
		rc = net_send(net, node, (uint16_t)type, &body);
		if (rc)
			break;
		taken++;
	}
	printf("flooded %d %u\n", rc, taken);
	wbuf_free(&body);
}

/* The same to the first two nodes, held once. */
static void share(size_t bytes)
{
	struct wbuf text = {.data = calloc(1, bytes + 1), .len = bytes, .cap = bytes + 1};
	struct net_body *body = net_body_new(&text);
	printf("shared");
	for (unsigned node = 0; node < 2; node++)
		printf(" %d", net_send_body(net, node, 8, body));
	printf("\n");
	net_body_drop(body);
	wbuf_free(&text);
}

static void expose(unsigned node, uint64_t size, const char *access, uint64_t seed)
{
	struct err err = {{0}};
	struct shown *s = &shown[nshown];
	*s = (struct shown){.base = map(size), .size = size};
	fill(s->base, size, seed);
	int rc = net_expose(net, node, s->base, size, access[0] == 'w' ? NET_WRITABLE : NET_READABLE, &s->region, &err);
	if (rc) {
		printf("exposed %d\n", rc);
		munmap(s->base, size);
		return;
	}
	struct net_ticket t = net_region_ticket(s->region);
	printf("exposed %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", nshown++, t.key, t.address, t.size);
}

static void begin(struct copy *copy)
{
	copy->begun = clock_now();
	copy->op.deadline = clock_deadline(copy->ms * CLOCK_NS_PER_MS);
	net_submit(net, &copy->op);
}

static void on_done(struct net_op *op)
{
	struct copy *copy = list_entry(op, struct copy, op);
	double ms = ms_since(copy->begun);
	const char *how = op->kind == NET_READ && op->result > 0 ? compare(op->buf, op->len, copy->seed) : "match";
	printf("done %" PRId64 " %.3f %s\n", op->result, ms, how);
	if (copy->again && op->result > 0) {
		begin(copy);
		return;
	}
	munmap(op->buf, op->len + 8);
	free(copy);
}

static void submit(const char *word, unsigned node, struct net_ticket ticket, uint64_t offset, uint64_t len,
		   uint64_t seed, uint64_t ms)
{
	struct copy *copy = calloc(1, sizeof(*copy));
	enum net_kind kind = strcmp(word, "read") ? NET_WRITE : NET_READ;
	copy->seed = seed;
	copy->ms = ms;
	copy->again = !strcmp(word, "stream");
	copy->op = (struct net_op){.kind = kind,
				   .node = node,
				   .buf = map(len + 8),
				   .len = len,
				   .ticket = ticket,
				   .offset = offset,
				   .done = on_done};
	fill(copy->op.buf, len, kind == NET_WRITE ? seed : ~seed);
	begin(copy);
	printf("begun\n");
}

static void withdraw(unsigned id)
{
	uint64_t begun = clock_now();
	net_withdraw(shown[id].region);
	shown[id].region = NULL;
	printf("withdrawn %.3f\n", ms_since(begun));
}

static void renew(void)
{
	struct err err = {{0}};
	printf("renewed %d\n", net_renew(net, &files, &err));
}

static void deaf(void)
{
	struct pollfd next = {.fd = STDIN_FILENO, .events = POLLIN};
	printf("deaf\n");
	fflush(stdout);
	poll(&next, 1, -1);
}

static void obey(const char *line)
{
	char word[16] = "", text[LINE_BYTES] = "";
	unsigned node = 0;
	uint64_t n[8] = {0};
	int at = 0;
	sscanf(line, "%15s %n", word, &at);
	const char *rest = line + at;
	sscanf(rest, "%u", &node);
	if (!strcmp(word, "send") && sscanf(rest, "%*u %" SCNu64 " %4095[^\n]", &n[0], text) >= 1) {
		send_text(node, (unsigned)n[0], text);
	} else if (!strcmp(word, "flood") &&
		   sscanf(rest, "%*u %" SCNu64 " %" SCNu64 " %" SCNu64, &n[0], &n[1], &n[2]) >= 2) {
		flood(node, (unsigned)n[0], n[1], n[2] ? n[2] : 9);
	} else if (!strcmp(word, "share") && sscanf(rest, "%" SCNu64, &n[0]) == 1) {
		share(n[0]);
	} else if (!strcmp(word, "expose") && sscanf(rest, "%*u %" SCNu64 " %15s %" SCNu64, &n[0], text, &n[1]) == 3) {
		expose(node, n[0], text, n[1]);
	} else if (!strcmp(word, "fill") && sscanf(rest, "%*u %" SCNu64, &n[0]) == 1) {
		fill(shown[node].base, shown[node].size, n[0]);
		printf("filled\n");
	} else if (!strcmp(word, "check") && sscanf(rest, "%*u %" SCNu64, &n[0]) == 1) {
		printf("checked %s\n", compare(shown[node].base, shown[node].size, n[0]));
	} else if (!strcmp(word, "withdraw")) {
		withdraw(node);
	} else if ((!strcmp(word, "write") || !strcmp(word, "read") || !strcmp(word, "stream")) &&
		   sscanf(rest, "%*u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			  &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6]) == 7) {
		submit(word, node, (struct net_ticket){n[0], n[1], n[2]}, n[3], n[4], n[5], n[6]);
	} else if (!strcmp(word, "drop") && sscanf(rest, "%*u %d", &at) == 1) {
		net_drop(net, node, at);
		printf("dropped\n");
	} else if (!strcmp(word, "counts")) {
		struct net_counts c = net_counts(net);
		printf("counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c.sessions, c.messages_in,
		       c.messages_out, c.refused);
	} else if (!strcmp(word, "clocks")) {
		net_ask_clocks(net);
		printf("asked\n");
	} else if (!strcmp(word, "jump") && sscanf(rest, "%" SCNu64, &n[0]) == 1) {
		clock_wall_jump((int64_t)n[0]);
		printf("jumped\n");
	} else if (!strcmp(word, "renew")) {
		renew();
	} else if (!strcmp(word, "open")) {
		printf("open %d\n", net_is_open(net, node));
	} else if (!strcmp(word, "mind") && sscanf(rest, "%*u %" SCNu64, &n[0]) == 1 && node < NODES) {
		minded[node] = n[0];
		printf("minding\n");
	} else if (!strcmp(word, "deaf")) {
		deaf();
	} else {
		printf("not understood: %s\n", line);
	}
}

static int serve(void)
{
	char line[LINE_BYTES];
	size_t have = 0;
	struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = net_event_fd(net), .events = POLLIN}};
	for (;;) {
		fflush(stdout);
		if (poll(fds, 2, 60000) <= 0)
			return 1;
		net_poll(net);
		if (!fds[0].revents)
			continue;
		ssize_t n = read(0, line + have, sizeof(line) - 1 - have);
		if (n <= 0)
			return 0;
		have += (size_t)n;
		line[have] = 0;
		for (char *end; (end = strchr(line, '\n'));) {
			*end = 0;
			obey(line);
			have -= (size_t)(end + 1 - line);
			memmove(line, end + 1, have + 1);
		}
	}
}

int main(int argc, char **argv)
{
	struct err err = {{0}};
	struct roster *roster = NULL;
	const struct net_events events = {
		.up = on_up, .down = on_down, .message = on_message, .clock = on_clock, .minds = on_minds};
	if (argc != 6 && argc != 7)
		return 2;
	int rc = roster_read(argv[1], &roster, &err), self = rc ? rc : roster_find(roster, argv[2]);
	files = credentials(argv[3]);
	struct net_config config = {.roster = roster,
				    .self = (unsigned)self,
				    .provider = "tcp",
				    .copies = way(argv[5]),
				    .credentials = files,
				    .idle_ns = argc == 7 ? strtoull(argv[6], NULL, 10) * CLOCK_NS_PER_MS : 0,
				    .peer_timeout_ns = strtoull(argv[4], NULL, 10) * CLOCK_NS_PER_MS};
	if (self >= 0)
		rc = net_new(&config, &events, &net, &err);
	if (rc || self < 0) {
		printf("failed %d %s\n", rc ? rc : self, err.text);
		roster_free(roster);
		return 1;
	}
	printf("ready\n");
	rc = serve();
	for (unsigned i = 0; i < nshown; i++)
		net_withdraw(shown[i].region);
	net_free(net);
	for (unsigned i = 0; i < nshown; i++)
		munmap(shown[i].base, shown[i].size);
	roster_free(roster);
	return rc;
}
