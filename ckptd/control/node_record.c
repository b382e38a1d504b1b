#include "control/node_record.h"

#include "base/clock.h"
#include "cluster/room.h"
#include "daemon.h"
#include "registry/room.h"

#include <stdio.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)

static void key_of(const struct daemon *d, uint32_t node, char key[REGISTRY_KEY_MAX])
{
	snprintf(key, REGISTRY_KEY_MAX, "nodes/%s", d->peers.roster->nodes[node].name);
}

/* The mirror tells what has become of it. */
static void asked(void *arg, const struct registry_result *result)
{
	(void)result;
	((struct daemon *)arg)->control.node_record_ns = clock_deadline(RETRY_NS);
}

void node_record_tick(struct daemon *daemon)
{
	const struct roster_node *self = &daemon->peers.roster->nodes[daemon->peers.self];
	uint64_t now = clock_now();
	char key[REGISTRY_KEY_MAX], address[ROSTER_HOST_MAX + 16];
	struct registry_record record;
	key_of(daemon, daemon->peers.self, key);
	if (now < daemon->control.node_record_ns || !registry_is_synced(daemon->control.registry) ||
	    registry_lease_until(daemon->control.registry) <= now ||
	    (registry_get(daemon->control.registry, key, &record) && record.ours))
		return;
	snprintf(address, sizeof(address), "%s:%u", self->host, self->port);
	struct registry_change put = {.key = key, .value = address, .len = strlen(address), .leased = true};
	int rc = registry_commit(daemon->control.registry, NULL, 0, &put, 1, asked, daemon);
	daemon->control.node_record_ns = rc ? clock_deadline(RETRY_NS) : UINT64_MAX;
}

static bool is_absent(const struct daemon *daemon, uint32_t node)
{
	char key[REGISTRY_KEY_MAX];
	struct registry_record record;
	key_of(daemon, node, key);
	return !registry_get(daemon->control.registry, key, &record);
}

bool node_records_settled(const struct daemon *d)
{
	if (!d->control.registry || !registry_is_synced(d->control.registry))
		return false;
	for (uint32_t n = 0; n < d->peers.roster->n; n++)
		if (n != d->peers.self && !net_is_up(d->peers.net, n) && !is_absent(d, n))
			return false;
	return true;
}
