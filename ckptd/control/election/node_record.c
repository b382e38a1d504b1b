#include "control/election/node_record.h"

#include "base/clock.h"
#include "cluster/room.h"
#include "control/control.h"
#include "registry/room.h"
#include "replication/room.h"

#include <stdio.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)

static void key_of(const struct control *control, uint32_t node, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, NODE_RECORDS "%s", control->peers->roster->nodes[node].name);
}

char *node_record_text(const struct roster_node *node, char *dst, size_t size)
{
	struct roster_node bare = *node;
	*bare.rack = *bare.switch_name = '\0';
	return roster_print(&bare, dst, size);
}

/* The mirror tells what has become of it. */
static void asked(void *arg, const struct registry_result *result)
{
	(void)result;
	((struct control *)arg)->node_record_ns = clock_deadline(RETRY_NS);
}

void node_record_tick(struct control *control)
{
	const struct roster_node *self = &control->peers->roster->nodes[control->peers->self];
	uint64_t now = clock_now();
	char key[REGISTRY_KEY_MAX], address[ROSTER_TEXT_MAX];
	struct registry_record record;
	key_of(control, control->peers->self, key);
	if (now < control->node_record_ns || !registry_is_synced(control->registry) ||
	    !registry_lease_left(control->registry) || (registry_get(control->registry, key, &record) && record.ours))
		return;
	node_record_text(self, address, sizeof(address));
	struct registry_change put = {.key = key, .value = address, .len = strlen(address), .leased = true};
	int rc = registry_commit(control->registry, NULL, 0, &put, 1, asked, control);
	control->node_record_ns = rc ? clock_deadline(RETRY_NS) : UINT64_MAX;
}

bool node_record_is_gone(const struct control *control, uint32_t node)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	if (!control->registry || !registry_is_synced(control->registry) || net_is_up(control->peers->net, node))
		return false;
	key_of(control, node, key);
	return !registry_get(control->registry, key, &record);
}

bool node_records_settled(const struct control *control)
{
	if (!control->registry || !registry_is_synced(control->registry))
		return false;
	for (uint32_t n = 0; n < control->peers->roster->n; n++)
		if (n != control->peers->self && roster_has(control->peers->roster, n) &&
		    !net_is_up(control->peers->net, n) && !node_record_is_gone(control, n))
			return false;
	return true;
}
