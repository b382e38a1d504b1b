/* A registry that shows what the test says, and notes what it is asked for. */
#include "fakes.h"

#include "cluster/net.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct fake_registry fake_registry;
static registry_done *done;
static void *done_arg;

static int find(const char *key)
{
	for (unsigned i = 0; i < fake_registry.nrecords; i++)
		if (!strcmp(fake_registry.records[i].key, key))
			return (int)i;
	return -1;
}

void fake_record(const char *key, bool ours)
{
	int at = find(key);
	if (at < 0)
		at = (int)fake_registry.nrecords++;
	cr_assert(at < FAKE_RECORDS);
	snprintf(fake_registry.records[at].key, REGISTRY_KEY_MAX, "%s", key);
	fake_registry.records[at].ours = ours;
}

void fake_record_gone(const char *key)
{
	int at = find(key);
	cr_assert_geq(at, 0);
	*fake_registry.records[at].key = 0;
}

void fake_decided(struct registry_result result)
{
	registry_done *told = done;
	cr_assert(told, "nothing was asked for");
	done = NULL;
	told(done_arg, &result);
}

bool registry_get(const struct registry *registry, const char *key, struct registry_record *record)
{
	int at = find(key);
	(void)registry;
	*record = (struct registry_record){.key = key};
	if (at < 0)
		return false;
	record->ours = fake_registry.records[at].ours;
	return true;
}

int registry_commit(struct registry *registry, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *then, void *arg)
{
	(void)registry, (void)compare;
	cr_assert_eq(nchange, 1);
	cr_assert(!done, "one at a time");
	fake_registry.commits++;
	fake_registry.compares = ncompare;
	snprintf(fake_registry.key, sizeof(fake_registry.key), "%s", change->key);
	snprintf(fake_registry.value, sizeof(fake_registry.value), "%.*s", (int)change->len,
		 (const char *)change->value);
	fake_registry.leased = change->leased;
	if (fake_registry.commit_rc)
		return fake_registry.commit_rc;
	done = then;
	done_arg = arg;
	return 0;
}

bool registry_is_synced(const struct registry *registry)
{
	(void)registry;
	return fake_registry.synced;
}

uint64_t registry_lease_left(const struct registry *registry)
{
	uint64_t now = clock_now();
	(void)registry;
	return fake_registry.lease_until > now ? fake_registry.lease_until - now : 0;
}

bool net_is_up(const struct net *net, unsigned node)
{
	(void)net;
	return fake_registry.up[node];
}
