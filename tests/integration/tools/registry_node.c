/* registry_node URL LEASE_MS TIMEOUT_MS [CA CERT KEY [USER PASSWORD_FILE]]: one user of a registry, driven by lines on stdin; what happens is
 * told in lines on stdout. "-" stands for none.
 *
 *	put KEY VALUE                     committed N RC, later: result N RC APPLIED REVISION WHY
 *	lease KEY VALUE                   the same, under our lease
 *	make KEY VALUE                    if it does not stand
 *	claim KEY VALUE                   the same, under our lease
 *	swap KEY REVISION VALUE           if it was last changed in this revision
 *	hold KEY REVISION VALUE           if it was created in this revision
 *	drop KEY                          deletes it
 *	fill PREFIX COUNT BYTES           puts so many records of so many bytes, then: filled COUNT FAILED
 *	get KEY                           got VALUE CREATED CHANGED OURS | none
 *	list PREFIX                       listed COUNT KEY...
 *	state                             state SYNCED LEASE_MS        LEASE_MS: for how long the lease stands, 0: none
 *	counts                            counts TRANSACTIONS APPLIED FAILED RENEWALS OUTAGES RECORDS
 *	suspend MS                        suspended                    its machine was, for so long
 *	quiet                             quiet                        records are not told any more
 *	end                               ended
 * Unasked: record KEY VALUE CREATED CHANGED OURS, gone KEY CHANGED, synced, away WHY, leased, lapsed MILLISECONDS_SINCE_UNTIL. */
#include "base/clock.h"
#include "registry/registry.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { LINE_BYTES = 1 << 20, SHOWN = 64 };

static struct registry *registry;
static uint64_t number, until;
static unsigned filling, failed_fills, filled;
static bool quiet;

/* ---- a machine that is suspended ---------------------------------------------------------------------------------------- */

/* What its clock says beyond that of this machine; and its timer, which goes by that clock. */
static uint64_t suspended_ns, armed_ns;
static int timer = -1;

uint64_t __real_clock_since_boot(void);
uint64_t __wrap_clock_since_boot(void);
uint64_t __wrap_clock_since_boot(void)
{
	return __real_clock_since_boot() + suspended_ns;
}

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *was);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *was);

static int arm(uint64_t at)
{
	uint64_t here = at > suspended_ns ? at - suspended_ns : 1;
	struct itimerspec when = {
		.it_value = {.tv_sec = (time_t)(here / CLOCK_NS_PER_S), .tv_nsec = (long)(here % CLOCK_NS_PER_S)}};
	return __real_timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *was)
{
	timer = fd;
	armed_ns = (uint64_t)when->it_value.tv_sec * CLOCK_NS_PER_S + (uint64_t)when->it_value.tv_nsec;
	return armed_ns ? arm(armed_ns) : __real_timerfd_settime(fd, flags, when, was);
}

static void suspend(uint64_t ms)
{
	suspended_ns += ms * CLOCK_NS_PER_MS;
	if (armed_ns)
		arm(armed_ns);
	printf("suspended\n");
}

/* ---- what happens ------------------------------------------------------------------------------------------------------ */

static const char *shown(const void *value, size_t len)
{
	static char text[SHOWN + 1];
	snprintf(text, sizeof(text), "%.*s", (int)(len < SHOWN ? len : SHOWN), len ? (const char *)value : "-");
	return text;
}

static void on_record(void *arg, const struct registry_record *record, bool gone)
{
	(void)arg;
	if (quiet)
		return;
	if (gone)
		printf("gone %s %" PRIu64 "\n", record->key, record->changed);
	else
		printf("record %s %s %" PRIu64 " %" PRIu64 " %d\n", record->key, shown(record->value, record->len),
		       record->created, record->changed, record->ours);
}

static void on_synced(void *arg)
{
	(void)arg;
	printf("synced\n");
}

static void on_away(void *arg, const char *why)
{
	(void)arg;
	printf("away %s\n", why);
}

static void on_leased(void *arg)
{
	(void)arg;
	printf("leased\n");
}

static void on_lapsed(void *arg)
{
	uint64_t now = clock_since_boot();
	(void)arg;
	printf("lapsed %" PRId64 "\n", ((int64_t)now - (int64_t)until) / (int64_t)CLOCK_NS_PER_MS);
}

static void on_result(void *arg, const struct registry_result *result)
{
	printf("result %" PRIuPTR " %d %d %" PRIu64 " %s\n", (uintptr_t)arg, result->rc, result->applied,
	       result->revision, result->why);
}

static void commit(const char *key, const struct registry_compare *compare, const char *value, bool leased)
{
	struct registry_change change = {key, value, value ? strlen(value) : 0, leased};
	number++;
	int rc = registry_commit(registry, compare, compare != NULL, &change, 1, on_result, (void *)(uintptr_t)number);
	printf("committed %" PRIu64 " %d\n", number, rc);
}

static void note_filled(unsigned n, bool failed)
{
	filling -= n;
	failed_fills += failed ? n : 0;
	if (!filling)
		printf("filled %u %u\n", filled, failed_fills);
}

static void on_filled(void *arg, const struct registry_result *result)
{
	note_filled((unsigned)(uintptr_t)arg, result->rc != 0);
}

/* As many at once as one transaction takes. */
static void fill(const char *prefix, unsigned count, size_t bytes)
{
	char keys[REGISTRY_CHANGES_MAX][REGISTRY_KEY_MAX];
	struct registry_change changes[REGISTRY_CHANGES_MAX];
	char *value = malloc(bytes + 1);
	if (!value)
		return;
	memset(value, 'v', bytes);
	filling = filled = count;
	failed_fills = 0;
	for (unsigned at = 0; at < count;) {
		unsigned n = 0;
		for (; n < REGISTRY_CHANGES_MAX && at + n < count; n++) {
			snprintf(keys[n], sizeof(keys[n]), "%.200s%06u", prefix, at + n);
			changes[n] = (struct registry_change){keys[n], value, bytes, false};
		}
		if (registry_commit(registry, NULL, 0, changes, n, on_filled, (void *)(uintptr_t)n))
			note_filled(n, true);
		at += n;
	}
	free(value);
}

static void get(const char *key)
{
	struct registry_record record;
	if (registry_get(registry, key, &record))
		printf("got %s %" PRIu64 " %" PRIu64 " %d\n", shown(record.value, record.len), record.created,
		       record.changed, record.ours);
	else
		printf("none\n");
}

static void list(const char *prefix)
{
	struct registry_record record;
	const void *at = NULL;
	unsigned n = 0;
	while (registry_next(registry, prefix, &at, &record))
		n++;
	printf("listed %u", n);
	for (at = NULL; n <= SHOWN && registry_next(registry, prefix, &at, &record);)
		printf(" %s", record.key);
	printf("\n");
}

static void state(void)
{
	printf("state %d %" PRIu64 "\n", registry_is_synced(registry),
	       (uint64_t)(registry_lease_left(registry) / CLOCK_NS_PER_MS));
}

static void obey(const char *line)
{
	static char key[LINE_BYTES], value[LINE_BYTES];
	char word[16] = "";
	uint64_t revision = 0;
	sscanf(line, "%15s %1048000s", word, key);
	if (!strcmp(word, "state")) {
		state();
	} else if (!strcmp(word, "counts")) {
		struct registry_counts c = registry_counts(registry);
		printf("counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       c.transactions, c.applied, c.failed, c.renewals, c.outages, c.records);
	} else if (!strcmp(word, "get")) {
		get(key);
	} else if (!strcmp(word, "list")) {
		list(sscanf(line, "%*s %255s", key) == 1 ? key : "");
	} else if (!strcmp(word, "suspend")) {
		suspend(strtoull(key, NULL, 10));
	} else if (!strcmp(word, "quiet")) {
		quiet = true;
		printf("quiet\n");
	} else if (!strcmp(word, "drop")) {
		commit(key, NULL, NULL, false);
	} else if (!strcmp(word, "fill") && sscanf(line, "%*s %*s %" SCNu64 " %1048000s", &revision, value) == 2) {
		fill(key, (unsigned)revision, strtoul(value, NULL, 10));
	} else if ((!strcmp(word, "put") || !strcmp(word, "lease")) && sscanf(line, "%*s %*s %1048000s", value) == 1) {
		commit(key, NULL, value, word[0] == 'l');
	} else if ((!strcmp(word, "make") || !strcmp(word, "claim")) && sscanf(line, "%*s %*s %1048000s", value) == 1) {
		commit(key, &(struct registry_compare){key, true, 0}, value, word[0] == 'c');
	} else if ((!strcmp(word, "swap") || !strcmp(word, "hold")) &&
		   sscanf(line, "%*s %*s %" SCNu64 " %1048000s", &revision, value) == 2) {
		commit(key, &(struct registry_compare){key, word[0] == 'h', revision}, value, false);
	} else {
		printf("not understood: %s\n", line);
	}
}

static void poll_registry(void)
{
	registry_poll(registry);
	uint64_t left = registry_lease_left(registry);
	until = left ? clock_since_boot() + left : until;
}

static void serve(void)
{
	static char line[LINE_BYTES];
	size_t have = 0;
	struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = registry_event_fd(registry), .events = POLLIN}};
	for (;;) {
		fflush(stdout);
		if (poll(fds, 2, 60000) <= 0)
			return;
		if (fds[1].revents)
			poll_registry();
		if (!fds[0].revents)
			continue;
		ssize_t n = read(0, line + have, sizeof(line) - 1 - have);
		if (n <= 0)
			return;
		have += (size_t)n;
		line[have] = 0;
		for (char *end; (end = strchr(line, '\n'));) {
			*end = 0;
			if (!strcmp(line, "end"))
				return;
			obey(line);
			have -= (size_t)(end + 1 - line);
			memmove(line, end + 1, have + 1);
		}
	}
}

static const char *argument(int argc, char **argv, int at)
{
	return at < argc && strcmp(argv[at], "-") != 0 ? argv[at] : NULL;
}

int main(int argc, char **argv)
{
	const struct registry_events events = {on_record, on_synced, on_away, on_leased, on_lapsed, NULL};
	struct err err = {{0}};
	if (argc < 4)
		return 2;
	struct registry_config config = {.url = argv[1],
					 .lease_ns = strtoull(argv[2], NULL, 10) * CLOCK_NS_PER_MS,
					 .timeout_ns = strtoull(argv[3], NULL, 10) * CLOCK_NS_PER_MS,
					 .ca = argument(argc, argv, 4),
					 .cert = argument(argc, argv, 5),
					 .key = argument(argc, argv, 6),
					 .user = argument(argc, argv, 7),
					 .password_file = argument(argc, argv, 8)};
	int rc = registry_new(&config, &events, &registry, &err);
	if (rc) {
		printf("failed %d %s\n", rc, err.text);
		return 1;
	}
	printf("ready\n");
	serve();
	registry_free(registry);
	printf("ended\n");
	return 0;
}
