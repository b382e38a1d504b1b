#include "control/election/heir.h"

#include "base/clock.h"
#include "control/control.h"
#include "runtime/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void heir_key(const char *job, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, "jobs/%s/heir", job);
}

void heir_text(uint64_t term, const char *node, char text[HEIR_MAX])
{
	snprintf(text, HEIR_MAX, "%" PRIu64 " %s", term, node);
}

/* Others may have written anything. */
enum heir heir_of(const struct control *control, const char *job, uint64_t term, uint64_t since_ns)
{
	const struct config *config = &control->runtime->config;
	char key[REGISTRY_KEY_MAX], ours[HEIR_MAX];
	struct registry_record record;
	heir_key(job, key);
	heir_text(term, "", ours);
	size_t head = strlen(ours);
	if (!registry_get(control->registry, key, &record) || record.len <= head ||
	    memcmp(record.value, ours, head) != 0 ||
	    clock_now() - since_ns >= config->registry_lease_ms * CLOCK_NS_PER_MS)
		return HEIR_NOBODY;
	heir_text(term, config->node, ours);
	bool self = record.len == strlen(ours) && !memcmp(record.value, ours, record.len);
	return self ? HEIR_SELF : HEIR_OTHER;
}
