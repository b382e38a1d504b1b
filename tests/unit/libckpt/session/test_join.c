#include "base/clock.h"
#include "libckpt/ranks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct joiner {
	ckpt *s;
	const char *address;
	const ckpt_view *view;
	int rc;
	char error[256];
};

static void *join_one(void *arg)
{
	struct joiner *j = arg;
	j->rc = ckpt_join(j->s, j->address, strlen(j->address), &j->view, -1);
	snprintf(j->error, sizeof(j->error), "%s", ckpt_error(j->s));
	return NULL;
}

static void join_all(struct ranks *c, struct joiner *joiners)
{
	static const char *const addresses[] = {"tcp://a:1", "", "tcp://c:3", "d"};
	pthread_t threads[FAKE_WORLD_MAX];
	for (uint32_t r = 0; r < c->world; r++) {
		joiners[r] = (struct joiner){.s = c->s[r], .address = addresses[r]};
		cr_assert_eq(pthread_create(&threads[r], NULL, join_one, &joiners[r]), 0);
	}
	for (uint32_t r = 0; r < c->world; r++)
		pthread_join(threads[r], NULL);
}

Test(join, everyone_learns_everyone_s_address)
{
	struct ranks c;
	struct joiner j[3];
	ranks_open(&c, 3, NULL);
	ranks_register(&c);
	join_all(&c, j);
	for (uint32_t r = 0; r < 3; r++) {
		const ckpt_view *v = j[r].view;
		cr_assert_eq(j[r].rc, 0);
		cr_assert_eq(v->size, sizeof(*v));
		cr_assert_eq(v->epoch, 1);
		cr_assert_eq(v->rank, (int)r);
		cr_assert_eq(v->world, 3);
		cr_assert_eq(v->joined_before, 0);
		cr_assert_eq(v->address_len[1], 0);
		cr_assert_eq(v->address_len[2], 9);
		cr_assert_arr_eq(v->addresses + 2 * CKPT_ADDRESS_MAX, "tcp://c:3", 9);
	}
	fake_epoch(c.f, 2, "again");
	join_all(&c, j);
	cr_assert_eq(j[0].rc, 0);
	cr_assert_eq(j[0].view->epoch, 2);
	cr_assert_eq(j[0].view->joined_before, 1);
	cr_assert_eq(fake_join(c.f, 0).epoch, 1, "it says where it was");
	cr_assert_eq(fake_count(c.f, WIRE_REGISTER), 3, "registration is once");
	ranks_down(&c);
}

Test(join, the_daemon_is_told_the_deadline_and_its_answer_names_who_is_late)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	fake_manners(c.f,
		     &(struct fake_manners){.join = {.rc = -ETIMEDOUT, .text = "rank 3 has not joined after 200 ms"}});
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, 200), -ETIMEDOUT);
	cr_assert_str_eq(ckpt_error(c.s[0]), "rank 3 has not joined after 200 ms");
	cr_assert_gt(fake_join(c.f, 0).timeout_ms, 0);
	cr_assert_leq(fake_join(c.f, 0).timeout_ms, 200);
	ranks_down(&c);
}

Test(join, a_daemon_that_does_not_answer_costs_the_deadline)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	fake_manners(c.f, &(struct fake_manners){.silent = true});
	uint64_t t = clock_now();
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, 30), -ETIMEDOUT);
	cr_assert_lt(clock_now() - t, 20 * CLOCK_NS_PER_S);
	cr_assert(strstr(ckpt_error(c.s[0]), "registered within 30 ms"), "%s", ckpt_error(c.s[0]));
	ranks_down(&c);
}

Test(join, a_refused_table_can_be_joined_again)
{
	struct ranks c;
	ranks_open(&c, 1, NULL);
	ranks_register(&c);
	fake_manners(c.f,
		     &(struct fake_manners){.register_ = {.rc = -ENOMEM, .text = "3 slots of 4 GiB do not fit 8 GiB"}});
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, -1), -ENOMEM);
	cr_assert(strstr(ckpt_error(c.s[0]), "do not fit"), "%s", ckpt_error(c.s[0]));
	fake_manners(c.f, &(struct fake_manners){0});
	ranks_join(&c);
	ranks_save(&c, 1, CKPT_MEMORY);
	ranks_down(&c);
}

Test(join, tables_that_contradict_each_other_are_told_to_all)
{
	struct ranks c;
	struct joiner j[2];
	static float data[16];
	ranks_open(&c, 2, NULL);
	for (uint64_t r = 0; r < 2; r++) {
		/* Rank 1 thinks that the tensor is longer. */
		uint64_t shape = 8 + 4 * r;
		ckpt_tensor t = {.size = sizeof(t),
				 .name = "w",
				 .dtype = CKPT_F32,
				 .ndim = 1,
				 .shape = &shape,
				 .npieces = 1,
				 .pieces = &(ckpt_piece){.data = data, .start = r * 4, .count = 4},
				 .device = CKPT_HOST};
		cr_assert_eq(ckpt_register_tensor(c.s[r], &t), 0);
	}
	join_all(&c, j);
	cr_assert_eq(j[0].rc, -EINVAL);
	cr_assert_eq(j[1].rc, -EINVAL);
	ranks_down(&c);
}

Test(join, an_overlap_within_a_rank_is_found_before_the_daemon_is_asked)
{
	struct ranks c;
	static float data[16];
	uint64_t shape = 8;
	ckpt_piece pieces[] = {{.data = data, .count = 5}, {.data = data, .start = 4, .count = 4}};
	ckpt_tensor t = {.size = sizeof(t),
			 .name = "w",
			 .dtype = CKPT_F32,
			 .ndim = 1,
			 .shape = &shape,
			 .npieces = 2,
			 .pieces = pieces,
			 .device = CKPT_HOST};
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0);
	cr_assert_eq(ckpt_join(c.s[0], NULL, 0, NULL, -1), -EEXIST);
	cr_assert(strstr(ckpt_error(c.s[0]), "w"), "%s", ckpt_error(c.s[0]));
	cr_assert_eq(fake_count(c.f, WIRE_REGISTER), 0);
	ranks_down(&c);
}

Test(join, an_address_has_a_bound)
{
	struct ranks c;
	static char longer[CKPT_ADDRESS_MAX + 1];
	ranks_open(&c, 1, NULL);
	cr_assert_eq(ckpt_join(c.s[0], longer, sizeof(longer), NULL, -1), -EINVAL);
	cr_assert_eq(ckpt_join(c.s[0], NULL, 3, NULL, -1), -EINVAL);
	cr_assert_eq(ckpt_join(c.s[0], longer, CKPT_ADDRESS_MAX, NULL, -1), 0, "%s", ckpt_error(c.s[0]));
	ranks_down(&c);
}

Test(join, a_blob_of_the_job_that_one_rank_lacks_is_told_to_all)
{
	struct ranks c;
	struct joiner j[2];
	static uint64_t step;
	ranks_open(&c, 2, NULL);
	cr_assert_eq(ckpt_register_blob(c.s[1], "step", CKPT_SCOPE_JOB, &step, sizeof(step)), 0);
	join_all(&c, j);
	for (int r = 0; r < 2; r++) {
		cr_assert_eq(j[r].rc, -EINVAL);
		cr_assert(strstr(j[r].error, "blob \"step\" of the job is registered on rank 1, but not on rank 0"),
			  "%s", j[r].error);
	}
	ranks_down(&c);
}
