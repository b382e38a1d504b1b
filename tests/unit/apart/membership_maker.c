#include "membership_maker.h"

#include "base/clock.h"
#include "cluster/roster.h"
#include "config/file.h"
#include "config/sources.h"
#include "fakes.h"
#include "runtime/loop.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct daemon membership_daemon;

struct follower nodes[NODES];

void membership_maker_setup(void)
{
	static const char roster[] = "n0 10.0.0.1:1\nn1 10.0.0.2:1\nn2 10.0.0.3:1\nn3 10.0.0.4:1\n";
	static const char policies[] = "[job]\nnode-wait = 10s\n";
	struct err err = {{0}};
	fakes_reset();
	memset(nodes, 0, sizeof(nodes));
	daemon_init(&membership_daemon);
	cr_assert_eq(sources_new(&membership_daemon.runtime.sources, &err), 0, "%s", err.text);
	cr_assert_eq(file_parse(membership_daemon.runtime.sources, "test", policies, strlen(policies), &err), 0, "%s",
		     err.text);
	cr_assert_eq(loop_new(&membership_daemon.runtime.loop, &err), 0, "%s", err.text);
	cr_assert_eq(roster_parse("test", roster, strlen(roster), &membership_daemon.peers.roster, &err), 0, "%s",
		     err.text);
}

void membership_maker_teardown(void)
{
	memberships_free(&membership_daemon.control);
	roster_free(membership_daemon.peers.roster);
	loop_free(membership_daemon.runtime.loop);
	sources_free(membership_daemon.runtime.sources);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

void read_orders(void)
{
	for (unsigned i = 0; i < fake_host.norders; i++) {
		const struct peer_order *o = &fake_host.orders[i].order;
		struct follower *f = &nodes[fake_host.orders[i].node];
		if (o->type == PEER_PLAN) {
			f->plan = o->plan;
			f->told_plan = true;
		}
		f->over |= o->type == PEER_END;
		f->copies_stay |= o->type == PEER_END && o->word.flag;
		f->quiesce |= o->type == PEER_QUIESCE;
		f->flush |= o->type == PEER_COMMAND && o->command.kind == COMMAND_FLUSH;
		if (o->type == PEER_COMMAND && o->command.kind >= COMMAND_DRAIN) {
			f->drained = o->command.kind == COMMAND_DRAIN;
			f->drains++;
		}
		if (o->type == PEER_PAUSE) {
			f->pause = true;
			f->after = o->step;
		}
		if (o->type != PEER_REJECT)
			continue;
		f->away = o->word.rc;
		snprintf(f->text, sizeof(f->text), "%s", o->word.text);
	}
	fake_host.norders = 0;
}

void report(uint32_t node, const struct peer_capacity *assignment)
{
	struct peer_report r = {.type = PEER_CAPACITY, .job = "gpt", .assignment = *assignment};
	membership_report(&membership_daemon.control, node, true, &r);
	read_orders();
}

/* As a node that follows what it was told last, and has so many processes. */
struct peer_capacity assignment_of(uint32_t node, uint32_t processes)
{
	const struct wire_plan *plan = &nodes[node].plan;
	struct peer_capacity m = {.want = WANT,
				  .least = LEAST,
				  .processes = processes,
				  .drained = nodes[node].drained,
				  .plan = plan->number,
				  .world = plan->n ? plan->world : 0,
				  .n = plan->n < processes ? plan->n : processes};
	memcpy(m.ranks, plan->ranks, m.n * sizeof(m.ranks[0]));
	return m;
}

void offer(uint32_t node, uint32_t processes)
{
	struct peer_capacity m = assignment_of(node, processes);
	report(node, &m);
}

void offer_spare(uint32_t node)
{
	struct peer_capacity m = assignment_of(node, EACH);
	m.spare = true;
	report(node, &m);
}

void tick(void)
{
	memberships_tick(&membership_daemon.control);
	read_orders();
}

/* All who were told of a plan say that they follow it. */
void follow(void)
{
	for (uint32_t n = 0; n < NODES; n++) {
		if (!nodes[n].told_plan)
			continue;
		nodes[n].told_plan = false;
		offer(n, EACH);
	}
}

void begin(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		offer(i, EACH);
	follow();
}

void lose(uint32_t node)
{
	memberships_node_down(&membership_daemon.control, node);
	fake_host.view.attending -= EACH;
	nodes[node] = (struct follower){0};
	tick();
}

void quiesced(uint32_t node, int rc)
{
	struct peer_report r = {.type = PEER_QUIESCED,
				.job = "gpt",
				.quiesced = {.plan = membership_plan(&membership_daemon.control, "gpt"), .rc = rc}};
	snprintf(r.quiesced.text, sizeof(r.quiesced.text), "the disk is full");
	nodes[node].quiesce = false;
	membership_report(&membership_daemon.control, node, true, &r);
	read_orders();
}

void expect_ranks(uint32_t node, uint32_t number, uint32_t world, uint32_t n, const uint32_t *ranks)
{
	const struct wire_plan *plan = &nodes[node].plan;
	cr_assert(plan->number == number && plan->world == world && plan->n == n, "node %u: plan %u, %u of %u ranks",
		  node, plan->number, plan->n, plan->world);
	for (uint32_t i = 0; i < n; i++)
		cr_expect_eq(plan->ranks[i], ranks[i], "node %u: rank %u", node, plan->ranks[i]);
}

void shown(uint64_t step, uint32_t epoch, enum level_shown level)
{
	membership_shown(&membership_daemon.control, "gpt", (struct step_id){step, epoch}, level);
	tick();
}

/* The node's ranks wait in the next fence; they have begun saves up to this one. */
void paused(uint32_t node, uint64_t step)
{
	struct peer_report r = {.type = PEER_PAUSED, .job = "gpt", .epoch = fake_host.view.epoch, .step = step};
	nodes[node].pause = false;
	membership_report(&membership_daemon.control, node, true, &r);
	read_orders();
}

/* All have entered, and a save comes in whose fence all of them wait, if they were asked to. */
void occasion(void)
{
	fake_host.view.entered = fake_host.view.epoch;
	tick();
	for (uint32_t n = 0; n < NODES; n++)
		if (nodes[n].pause)
			paused(n, 10);
	shown(11, fake_host.view.epoch, LEVEL_REPLICATED);
}

void shrink(void)
{
	begin(3);
	lose(1);
	clock_skip((WAIT_S + 1) * CLOCK_NS_PER_S);
	tick();
	quiesced(0, 0);
	quiesced(2, 0);
	follow();
}

void node_join(uint32_t node)
{
	struct err err = {{0}};
	cr_expect_eq(membership_node_joins(&membership_daemon.control, "gpt", node, EACH, &err), 0, "%s", err.text);
}
