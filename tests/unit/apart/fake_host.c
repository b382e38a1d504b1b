#include "fakes.h"

#include "cluster/roster.h"
#include "control/election/hand_over.h"
#include "control/election/node_record.h"
#include "control/host/coordinator_halt.h"
#include "control/host/coordinator_host.h"
#include "control/membership/membership.h"
#include "control/record/epoch_record.h"
#include "daemon.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct fake_host fake_host;

bool host_has(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return fake_host.has;
}

bool host_busy(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return fake_host.busy;
}

bool host_here(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return !fake_host.elsewhere;
}

uint32_t coordinator_of(const struct control *control, const char *job)
{
	return host_here(control, job) ? control->peers->self : NO_NODE;
}

uint64_t coordinator_term(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return fake_host.term;
}

bool coordinator_in_reach(const struct control *control, const char *job)
{
	return host_here(control, job);
}

struct coord_view host_view(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return fake_host.view;
}

void host_order(struct control *control, bool spread, uint32_t node, const struct peer_order *order)
{
	(void)control;
	(void)spread;
	cr_assert(fake_host.norders < FAKE_ORDERS);
	fake_host.orders[fake_host.norders++] = (struct fake_order){.node = node, .order = *order};
	if (fake_host.answers)
		fake_host.answers(node, order);
}

void host_hold(struct control *control, const char *job, const char *why)
{
	(void)control;
	(void)job;
	(void)why;
	fake_host.holds++;
	fake_host.held = true;
}

void host_release(struct control *control, const char *job)
{
	(void)control;
	(void)job;
	fake_host.releases++;
	fake_host.held = false;
}

int host_remake(struct control *control, const char *job, uint32_t world, bool spread, struct err *err)
{
	(void)control;
	(void)job;
	(void)spread;
	if (fake_host.remake_rc)
		return err_set(err, fake_host.remake_rc, "the store says no");
	fake_host.remakes++;
	fake_host.has = true;
	fake_host.held = false;
	fake_host.view = (struct coord_view){
		.epoch = fake_host.view.epoch + 1, .world = world, .attending = world, .not_spilled = ""};
	host_record(control, job);
	return 0;
}

void host_refuse(struct control *control, uint32_t node, const char *job, int rc, const char *why)
{
	(void)control, (void)node, (void)job, (void)rc, (void)why;
	fake_host.refused++;
}

void host_record(struct control *control, const char *job)
{
	if (!fake_host.has || fake_host.slow)
		return;
	membership_recorded(control, job, membership_plan(control, job));
	membership_asked_recorded(control, job, membership_asks(control, job));
}

int host_halt(struct control *control, const char *job, const struct wire_command *command, struct err *err)
{
	(void)control, (void)job, (void)err;
	cr_assert_eq(command->kind, COMMAND_HALT);
	fake_host.halts++;
	fake_host.ends = true;
	return 0;
}

bool host_ends(const struct control *control, const char *job)
{
	(void)control, (void)job;
	return fake_host.ends;
}

bool epochs_are_kept(const struct control *control)
{
	(void)control;
	return fake_host.kept;
}

int epochs_last(struct control *control, const char *job, struct begun *last, struct err *err)
{
	(void)control, (void)job;
	if (fake_host.last_rc)
		return err_set(err, fake_host.last_rc, "EPOCH: damaged");
	*last = fake_host.begun;
	fake_host.begun.plan = (struct plan_record){0};
	fake_host.begun.asked = (struct asked_record){0};
	return 0;
}

void host_spill(struct control *control, const char *job, bool give_up)
{
	(void)control;
	(void)job;
	fake_host.spills++;
	fake_host.given_up += give_up;
}

void host_moves(struct control *control, const char *job, uint32_t node, uint32_t plan)
{
	(void)control, (void)job, (void)plan;
	fake_host.moved |= 1u << node;
}

void host_invalidate_plan(struct control *control, const char *job, uint32_t plan)
{
	(void)control;
	(void)job;
	(void)plan;
	fake_host.vacated++;
	fake_host.view.attending = 0;
}

bool host_may_go(const struct control *control, const char *job)
{
	(void)control;
	(void)job;
	return false;
}

void host_let_go(struct control *control, const char *job)
{
	(void)control;
	(void)job;
}

void host_abandon(struct control *control, const char *job)
{
	(void)control;
	(void)job;
	fake_host.abandoned++;
}

void host_preface(struct control *control, const char *job, const char *text)
{
	(void)control;
	(void)job;
	snprintf(fake_host.preface, sizeof(fake_host.preface), "%s", text);
}

bool hand_over_doubts(const struct control *control, const char *job, uint32_t node)
{
	(void)control, (void)job, (void)node;
	return false;
}

bool hand_over_waits(const struct control *control, const char *job)
{
	(void)control, (void)job;
	return false;
}
