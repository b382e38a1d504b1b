#include "node_of_three.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "fake_etcd.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void node_open(struct daemon *d, struct job *job, void (*moved)(struct dispatch *dispatch, const char *job))
{
	static const char text[] = "a 10.0.0.1:7\nb 10.0.0.2:8\nc 10.0.0.3:9\n";
	static char url[] = "etcd://10.0.0.9/ckpt", name[] = "b";
	const struct election_events heard = {.moved = moved};
	struct err err = {{0}};
	log_set_level(LOG_ERROR);
	etcd_reset();
	daemon_init(d);
	d->peers.self = SELF;
	d->runtime.config.registry = url;
	d->runtime.config.registry_lease_ms = LEASE_MS;
	d->runtime.config.node = name;
	cr_assert_eq(roster_parse("test", text, strlen(text), &d->peers.roster, &err), 0, "%s", err.text);
	cr_assert_eq(election_open(&d->control, &heard, &err), 0, "%s", err.text);
	job->spread = true;
	snprintf(job->name, sizeof(job->name), "gpt");
	list_push(&d->jobs.list, &job->link);
	etcd_put("nodes/b", "10.0.0.2:8", true); /* so that nothing but elections is asked for */
}

void node_close(struct daemon *d)
{
	election_close(&d->control);
	roster_free(d->peers.roster);
}

void node_tick(struct daemon *d, uint64_t ms)
{
	clock_skip(ms * CLOCK_NS_PER_MS);
	election_tick(&d->control);
}
