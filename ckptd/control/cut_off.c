#include "control/cut_off.h"

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

enum { TEXT_MAX = 48 };

static void prefix_of(const char *job, char prefix[REGISTRY_KEY_MAX])
{
	snprintf(prefix, REGISTRY_KEY_MAX, "jobs/%s/cut-off/", job);
}

/* Others may have written anything. */
static bool read_text(const struct registry_record *record, uint64_t *term, uint32_t *ranks)
{
	char text[TEXT_MAX], end;
	if (record->len >= sizeof(text))
		return false;
	memcpy(text, record->value, record->len);
	text[record->len] = '\0';
	return sscanf(text, "%" SCNu64 " %" SCNu32 "%c", term, ranks, &end) == 2;
}

/* ---- as one of the nodes ----------------------------------------------------------------------------------------- */

static void asked(void *arg, const struct registry_result *result)
{
	struct cut_off *c = arg;
	(void)result; /* the mirror tells what has become of it */
	c->asked = false;
	c->retry_ns = clock_deadline(RETRY_NS);
}

static uint32_t ranks_here(const struct control *control, const char *name)
{
	const struct job *job = job_find(control->jobs, name);
	return job && job->spread ? job->nlocal : 0;
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
	int len = snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu32, term, ranks);
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

static bool has_session(const struct control *control, unsigned node)
{
	return control->peers->net && net_is_up(control->peers->net, node);
}

bool cut_off_gives_way(const struct control *control, const char *job, uint64_t term, uint32_t reached, char *why,
		       size_t size)
{
	char prefix[REGISTRY_KEY_MAX];
	struct registry_record record;
	const void *at = NULL;
	uint64_t said, cut = 0;
	uint32_t ranks;
	prefix_of(job, prefix);
	while (registry_next(control->registry, prefix, &at, &record)) {
		int node = roster_find(control->peers->roster, record.key + strlen(prefix));
		if (node >= 0 && !has_session(control, (unsigned)node) && read_text(&record, &said, &ranks) &&
		    said == term)
			cut += ranks;
	}
	snprintf(why, size, "%" PRIu64 " of its ranks are on nodes that cannot reach this one, which reaches %" PRIu32,
		 cut, reached);
	return cut > reached;
}
