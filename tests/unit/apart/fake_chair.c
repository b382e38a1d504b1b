#include "fakes.h"

#include "control/coordinator_host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct fake_chair fake_chair;

bool chair_has(const struct daemon *daemon, const char *job)
{
	(void)daemon;
	(void)job;
	return fake_chair.has;
}

bool chair_busy(const struct daemon *daemon, const char *job)
{
	(void)daemon;
	(void)job;
	return fake_chair.busy;
}

struct coord_view chair_view(const struct daemon *daemon, const char *job)
{
	(void)daemon;
	(void)job;
	return fake_chair.view;
}

void chair_order(struct daemon *daemon, bool spread, uint32_t node, const struct peer_order *order)
{
	(void)daemon;
	(void)spread;
	cr_assert(fake_chair.norders < FAKE_ORDERS);
	fake_chair.orders[fake_chair.norders++] = (struct fake_order){.node = node, .order = *order};
	if (fake_chair.answers)
		fake_chair.answers(node, order);
}

void chair_hold(struct daemon *daemon, const char *job, const char *why)
{
	(void)daemon;
	(void)job;
	(void)why;
	fake_chair.holds++;
	fake_chair.held = true;
}

void chair_release(struct daemon *daemon, const char *job)
{
	(void)daemon;
	(void)job;
	fake_chair.releases++;
	fake_chair.held = false;
}

int chair_remake(struct daemon *daemon, const char *job, uint32_t world, bool spread, struct err *err)
{
	(void)daemon;
	(void)job;
	(void)spread;
	if (fake_chair.remake_rc)
		return err_set(err, fake_chair.remake_rc, "the store says no");
	fake_chair.remakes++;
	fake_chair.has = true;
	fake_chair.held = false;
	fake_chair.view = (struct coord_view){
		.epoch = fake_chair.view.epoch + 1, .world = world, .attending = world, .not_rescued = ""};
	return 0;
}

void chair_rescue(struct daemon *daemon, const char *job, bool give_up)
{
	(void)daemon;
	(void)job;
	fake_chair.rescues++;
	fake_chair.given_up += give_up;
}

void chair_vacate(struct daemon *daemon, const char *job, uint32_t plan)
{
	(void)daemon;
	(void)job;
	(void)plan;
	fake_chair.vacated++;
	fake_chair.view.attending = 0;
}

void chair_abandon(struct daemon *daemon, const char *job)
{
	(void)daemon;
	(void)job;
	fake_chair.abandoned++;
}

void chair_preface(struct daemon *daemon, const char *job, const char *text)
{
	(void)daemon;
	(void)job;
	snprintf(fake_chair.preface, sizeof(fake_chair.preface), "%s", text);
}
