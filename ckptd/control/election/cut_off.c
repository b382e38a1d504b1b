#include "control/election/cut_off.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/room.h"
#include "control/control.h"
#include "job/room.h"
#include "participant/room.h"
#include "registry/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)

enum { TEXT_MAX = 64 };

static void prefix_of(const char *job, char prefix[REGISTRY_KEY_MAX])
{
	snprintf(prefix, REGISTRY_KEY_MAX, "jobs/%s/cut-off/", job);
}

struct said {
	unsigned node;
	uint64_t term, ranks, reached;
};

/* Others may have written anything. */
static bool read_text(const struct registry_record *record, struct said *said)
{
	char text[TEXT_MAX], end;
	uint32_t ranks, reached;
	if (record->len >= sizeof(text))
		return false;
	memcpy(text, record->value, record->len);
	text[record->len] = '\0';
	if (sscanf(text, "%" SCNu64 " %" SCNu32 " %" SCNu32 "%c", &said->term, &ranks, &reached, &end) != 3)
		return false;
	said->ranks = ranks;
	said->reached = reached;
	return true;
}

/* The next node of the roster that has said something of that term. */
static bool next_said(const struct control *control, const char *job, uint64_t term, const void **at, struct said *said)
{
	char prefix[REGISTRY_KEY_MAX];
	struct registry_record record;
	prefix_of(job, prefix);
	while (registry_next(control->registry, prefix, at, &record)) {
		int node = roster_find(control->peers->roster, record.key + strlen(prefix));
		if (node < 0 || !read_text(&record, said) || said->term != term)
			continue;
		said->node = (unsigned)node;
		return true;
	}
	return false;
}

static bool has_session(const struct control *control, unsigned node)
{
	return control->peers->net && net_is_up(control->peers->net, node);
}

/* ---- as one of the nodes ----------------------------------------------------------------------------------------- */

static void asked(void *arg, const struct registry_result *result)
{
	struct cut_off *c = arg;
	(void)result; /* the mirror tells what has become of it */
	c->asked = false;
	c->retry_ns = clock_deadline(RETRY_NS);
}

/* Those of a process that is there: a job's ranks may have gone to other nodes. */
static uint32_t ranks_here(const struct control *control, const char *name)
{
	const struct job *job = job_find(control->jobs, name);
	uint32_t n = 0;
	for (uint32_t r = 0; job && job->spread && r < job->nlocal; r++)
		n += job->ranks[r].pid || job->ranks[r].launched;
	return n;
}

/* With those of the nodes that are cut off as this one is, and that it reaches. */
static uint32_t ranks_reached(const struct control *control, const char *job, uint64_t term, uint32_t here)
{
	const void *at = NULL;
	struct said said;
	uint64_t n = here;
	while (control->peers->net && next_said(control, job, term, &at, &said)) {
		if (said.node == control->peers->self)
			continue;
		if (net_is_open(control->peers->net, said.node)) /* to be believed there is not to be reached */
			n += said.ranks;
		else
			net_touch(control->peers->net, said.node);
	}
	return (uint32_t)min_u64(n, UINT32_MAX);
}

/* Each term has its time: to reach one coordinator says nothing of the next. */
static bool is_cut_off(const struct control *control, const char *job, uint32_t node, uint64_t term, struct cut_off *c)
{
	bool out = node != NO_NODE && !coordinator_in_reach(control, job);
	uint64_t now = clock_now();
	c->since_ns = !out ? 0 : c->since_ns && c->term == term ? c->since_ns : now;
	c->term = term;
	return out && now - c->since_ns >= control->runtime->config.registry_lease_ms * CLOCK_NS_PER_MS;
}

bool cut_off_tend(const struct control *control, const char *job, uint32_t node, uint64_t term, struct cut_off *c)
{
	char key[REGISTRY_KEY_MAX], text[TEXT_MAX];
	struct registry_record record;
	uint32_t ranks = is_cut_off(control, job, node, term, c) ? ranks_here(control, job) : 0;
	prefix_of(job, key);
	size_t at = strlen(key);
	snprintf(key + at, sizeof(key) - at, "%s", control->runtime->config.node);
	bool stands = registry_get(control->registry, key, &record) && record.ours;
	int len = snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu32 " %" PRIu32, term, ranks,
			   ranks_reached(control, job, term, ranks));
	bool right = ranks ? stands && record.len == (size_t)len && !memcmp(record.value, text, record.len) : !stands;
	if (right || c->asked || clock_now() < c->retry_ns || !registry_is_synced(control->registry))
		return right && !c->asked;
	struct registry_change change = {
		.key = key, .value = ranks ? text : NULL, .len = ranks ? (size_t)len : 0, .leased = ranks != 0};
	c->asked = !registry_commit(control->registry, NULL, 0, &change, 1, asked, c);
	c->retry_ns = clock_deadline(RETRY_NS);
	return false;
}

/* ---- as the coordinator ------------------------------------------------------------------------------------------ */

bool cut_off_gives_way(const struct control *control, const char *job, uint64_t term, uint32_t reached, char *why,
		       size_t size)
{
	const void *at = NULL;
	struct said said;
	uint64_t most = 0;
	while (next_said(control, job, term, &at, &said))
		if (!has_session(control, said.node))
			most = max_u64(most, said.reached);
	snprintf(why, size, "a node that cannot reach this one reaches %" PRIu64 " of its ranks, and this one %" PRIu32,
		 most, reached);
	return most > reached;
}
