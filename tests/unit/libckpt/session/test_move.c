#include "libckpt/ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
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

/* ---- beside other threads ------------------------------------------------------------------------------------------ */

enum { MANY = 20000, BLOB = 64 << 20 };

struct beside {
	ckpt *s;
	ckpt_snapshot *snap;
	char *room;
	_Atomic unsigned turns;
	_Atomic bool stop;
	int last;
};

static void *fence_groups(void *arg)
{
	struct beside *b = arg;
	for (; !atomic_load(&b->stop); b->turns++)
		b->last = ckpt_fence_group(b->snap, "no such group", NULL);
	return NULL;
}

static void *get_blobs(void *arg)
{
	struct beside *b = arg;
	for (; !atomic_load(&b->stop); b->turns++)
		b->last = (int)ckpt_get_blob(b->s, "queue", b->room, BLOB);
	return NULL;
}

static void register_many(ckpt *s)
{
	static float one;
	ckpt_tensor t = {.size = sizeof(t),
			 .dtype = CKPT_F32,
			 .npieces = 1,
			 .pieces = &(ckpt_piece){.data = &one},
			 .device = CKPT_HOST};
	for (int i = 0; i < MANY; i++) {
		char name[16];
		snprintf(name, sizeof(name), "t%d", i);
		t.name = name;
		cr_assert_eq(ckpt_register_tensor(s, &t), 0, "%s", ckpt_error(s));
	}
	cr_assert_eq(ckpt_register_sized_blob(s, "queue", CKPT_SCOPE_RANK, BLOB), 0);
}

/* It is told of its new place while another thread is in a call of the former one. */
static int move_beside(void *(*calls)(void *arg))
{
	struct ranks c;
	struct beside b = {.room = malloc(BLOB)};
	pthread_t other;
	ranks_open(&c, 1, NULL);
	b.s = c.s[0];
	register_many(b.s);
	memset(b.room, 7, BLOB);
	cr_assert_eq(ckpt_set_blob(b.s, "queue", b.room, BLOB), 0);
	ranks_join(&c);
	cr_assert_eq(ckpt_begin(b.s, 5, CKPT_MEMORY, NULL, &b.snap), 0, "%s", ckpt_error(b.s));
	cr_assert_eq(ckpt_fence(b.snap, NULL), 0, "%s", ckpt_error(b.s));
	cr_assert_eq(pthread_create(&other, NULL, calls, &b), 0);
	while (!atomic_load(&b.turns))
		sched_yield();
	fake_epoch(c.f, 2, "the world changes");
	fake_shrink(c.f, 0);
	cr_assert_eq(ckpt_join(b.s, NULL, 0, NULL, -1), -EREMCHG, "%s", ckpt_error(b.s));
	unsigned turns = b.turns;
	while (atomic_load(&b.turns) < turns + 2)
		sched_yield();
	atomic_store(&b.stop, true);
	pthread_join(other, NULL);
	ckpt_snapshot_free(b.snap);
	free(b.room);
	ranks_down(&c);
	return b.last;
}

Test(move, while_another_thread_fences_a_group)
{
	cr_assert_eq(move_beside(fence_groups), -EINVAL);
}

Test(move, while_another_thread_gets_a_blob)
{
	cr_assert_eq(move_beside(get_blobs), -ENOENT);
}
