#include "libckpt/ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_state(struct ranks_state *state)
{
	free(state->w);
	free(state->flat);
	free(state->box);
}

/* Rank 0 is lost for good; the others have learned it, with their memory freed. */
static void lose_first(struct ranks *c)
{
	cr_assert_eq(ckpt_close(c->s[0]), 0);
	fake_epoch(c->f, 2, "rank 0 is lost for good");
	fake_shrink(c->f, 1);
	for (uint32_t r = 1; r < c->world; r++) {
		char text[128];
		snprintf(text, sizeof(text), "world size %u, this process is rank %u", c->world - 1, r - 1);
		cr_assert_eq(ckpt_join(c->s[r], NULL, 0, NULL, -1), -EREMCHG);
		cr_assert(strstr(ckpt_error(c->s[r]), text), "%s", ckpt_error(c->s[r]));
	}
	for (uint32_t r = 0; r < c->world; r++)
		free_state(&c->state[r]);
	memmove(c->s, c->s + 1, (c->world - 1) * sizeof(*c->s));
	c->world--;
}

Test(move, a_process_goes_on_as_another_rank)
{
	struct ranks c;
	ckpt_snapshot *snap;
	ranks_up(&c, 3, NULL);
	ranks_fill(&c, 1);
	cr_assert_eq(ckpt_begin(c.s[1], 5, CKPT_MEMORY, NULL, &snap), 0);
	lose_first(&c);
	for (uint32_t r = 0; r < 2; r++) {
		cr_assert_eq(ckpt_rank(c.s[r]), (int)r);
		cr_assert_eq(ckpt_world(c.s[r]), 2);
		cr_assert_eq(ckpt_epoch(c.s[r]), 1, "the last one that it joined");
	}
	cr_assert_eq(ckpt_fence(snap, NULL), -ESTALE, "what was begun is over, and nothing reads the freed memory");
	ckpt_snapshot_free(snap);
	cr_assert_eq(ckpt_begin(c.s[0], 6, CKPT_MEMORY, NULL, &snap), -EINVAL, "nothing is registered");
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 2);
	ranks_fill(&c, 2);
	ranks_save(&c, 6, CKPT_MEMORY);
	fake_manners(c.f, &(struct fake_manners){.restored = {.step = 6,
							      .epoch = 2,
							      .source = WIRE_FROM_MEMORY,
							      .slots = {ranks_slot(&c, 0, 6)}}});
	ranks_fill(&c, 3);
	int rc[2];
	ranks_restore(&c, CKPT_LATEST, rc, NULL);
	cr_assert(rc[0] == 0 && rc[1] == 0);
	cr_assert(ranks_is(&c, 2), "all of it is of the new place");
	ranks_down(&c);
}

Test(move, a_view_says_that_it_was_there_before)
{
	struct ranks c;
	const ckpt_view *view;
	ranks_up(&c, 2, NULL);
	lose_first(&c);
	ranks_register(&c);
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, &view, -1), 0, "%s", ckpt_error(c.s[0]));
	cr_assert_eq(view->joined_before, 1);
	cr_assert(view->rank == 0 && view->world == 1);
	ranks_down(&c);
}

Test(move, who_had_not_joined_yet_is_told_when_it_registers)
{
	struct ranks c;
	ranks_open(&c, 2, NULL);
	ranks_register(&c);
	lose_first(&c);
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(fake_hello(c.f, 1).world, 2, "it had come as another");
	ranks_down(&c);
}

Test(move, a_daemon_that_comes_back_is_greeted_by_the_new_rank)
{
	struct ranks c;
	ranks_up(&c, 2, NULL);
	lose_first(&c);
	ranks_register(&c);
	ranks_join(&c);
	fake_die(c.f);
	fake_live(c.f);
	fake_await_hellos(c.f, 3);
	struct wire_hello hello = fake_hello(c.f, 0);
	cr_assert(hello.rank == 0 && hello.world == 1 && hello.local_world == 1);
	ranks_down(&c);
}

static _Atomic bool state_is_read;

static int slow_idle(struct device *dev, uint64_t deadline, struct err *err)
{
	return atomic_load(&state_is_read) ? err_set(err, -ETIMEDOUT, "the state is read")
					   : device_host.idle(dev, deadline, err);
}

/* It moves while its daemon, which was restarted, is still to answer what it was asked for the former place. */
Test(move, the_answer_to_the_former_place_comes_behind_the_move)
{
	struct ranks c;
	struct device_ops host = device_host;
	host.idle = slow_idle;
	ranks_open(&c, 1, NULL);
	c.s[0]->layers.host = &host;
	ranks_register(&c);
	ranks_join(&c);
	fake_epoch(c.f, 2, "the world changes");
	fake_shrink(c.f, 0);
	atomic_store(&state_is_read, true);
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, 20), -ETIMEDOUT);
	fake_die(c.f);
	fake_manners(c.f, &(struct fake_manners){.hold_register = true});
	fake_live_in(c.f, 2);
	fake_await(c.f, WIRE_REGISTER, 2);
	atomic_store(&state_is_read, false);
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, -1), -EREMCHG);
	free_state(&c.state[0]);
	fake_let_register(c.f);
	fake_await_hellos(c.f, 3); /* as what it is now */
	ranks_register(&c);
	ranks_join(&c);
	cr_assert_eq(ckpt_epoch(c.s[0]), 2);
	ranks_fill(&c, 2);
	ranks_save(&c, 6, CKPT_MEMORY);
	ranks_down(&c);
}
