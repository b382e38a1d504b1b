#include "ckptd/job_of.h"
#include "observe/status.h"

#include "base/cleanup.h"
#include "daemon.h"
#include "job/job.h"
#include "job/restoring.h"
#include "job/saving.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct daemon d;
static struct job job;
static struct rank ranks[2];

static void setup(void)
{
	struct err err = {{0}};
	daemon_init(&d);
	d.runtime.config = (struct config){.store = "/store", .node = "n0", .memory_limit = 100};
	d.runtime.memory.arenas = 7;
	d.storage.root = 0;
	list_init(&d.jobs.list);
	cr_assert_eq(sources_new(&d.runtime.sources, &err), 0, "%s", err.text);
	job = (struct job){JOB_OF(d), .name = "main", .world = 2, .nlocal = 2, .epoch = 3, .ranks = ranks};
	for (uint32_t r = 0; r < 2; r++)
		ranks[r] = (struct rank){.job = &job, .id = r, .pidfd = -1, .doorbell = -1};
	copying_init(&job);
	job_init_saves(&job);
	job_init_restore(&job);
}

static void teardown(void)
{
	sources_free(d.runtime.sources);
}

TestSuite(status, .init = setup, .fini = teardown);

static json_t *status(void)
{
	AUTO_WBUF struct wbuf out = {0};
	json_error_t error;
	cr_assert_eq(status_encode(&d.observe, &out), 0);
	json_t *j = json_loadb((const char *)out.data, out.len, JSON_REJECT_DUPLICATES, &error);
	cr_assert(j, "%s", error.text);
	return j;
}

Test(status, an_idle_daemon_tells_its_node_store_and_memory)
{
	json_t *j = status();
	cr_assert_eq(json_integer_value(json_object_get(j, "schema")), 1);
	cr_assert_str_eq(json_string_value(json_object_get(j, "node")), "n0");
	cr_assert_str_eq(json_string_value(json_object_get(j, "store")), "/store");
	cr_assert_eq(json_integer_value(json_object_get(json_object_get(j, "memory"), "used")), 7);
	cr_assert_eq(json_array_size(json_object_get(j, "jobs")), 0u);
	json_decref(j);
}

Test(status, without_a_store_it_says_null)
{
	d.runtime.config.store = NULL;
	json_t *j = status();
	cr_assert(json_is_null(json_object_get(j, "store")));
	json_decref(j);
}

static json_t *first_job(json_t *j)
{
	json_t *jobs = json_object_get(j, "jobs");
	cr_assert_eq(json_array_size(jobs), 1u);
	return json_array_get(jobs, 0);
}

Test(status, a_job_tells_its_ranks_and_epoch)
{
	list_push(&d.jobs.list, &job.link);
	ranks[1].state = RANK_JOINED;
	json_t *j = status(), *of = first_job(j);
	cr_assert_eq(json_integer_value(json_object_get(of, "epoch")), 3);
	json_t *rank = json_array_get(json_object_get(of, "ranks"), 1);
	cr_assert_str_eq(json_string_value(json_object_get(rank, "state")), "joined");
	json_decref(j);
}

Test(status, a_rank_tells_the_pages_of_its_arena)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	struct memory mem = {.head = head, .size = 4 << 20, .reserved = true};
	list_push(&d.jobs.list, &job.link);
	ranks[1].mem = &mem;
	for (int known = 0; known < 3; known++) {
		json_t *j = status();
		json_t *rank = json_array_get(json_object_get(first_job(j), "ranks"), 1);
		cr_assert_eq(json_integer_value(json_object_get(rank, "arena_bytes")), 4 << 20);
		cr_assert_eq(json_integer_value(json_object_get(rank, "page_bytes")),
			     known == 1 ? sysconf(_SC_PAGESIZE) : 2 << 20, "%d", known);
		json_decref(j);
		mem.reserved = false; /* first half, then all of it transparent */
		mem.huge_bytes += 2 << 20;
	}
	free(head);
}

Test(status, a_rank_tells_its_collective_and_what_it_waits_for)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	struct memory mem = {.head = head, .size = 4 << 20};
	list_push(&d.jobs.list, &job.link);
	ranks[1].mem = &mem;
	json_t *j = status(), *rank = json_array_get(json_object_get(first_job(j), "ranks"), 1);
	cr_expect(json_is_null(json_object_get(rank, "collective")), "it has told of none");
	cr_expect(json_is_null(json_object_get(rank, "waits")));
	json_decref(j);
	head->flight.coll_seq = 7;
	head->flight.coll_bytes = 4096;
	head->flight.coll_since_ns = 1;
	head->flight.in_collective = 1;
	memcpy(head->flight.coll_op, "all_\xff", 6);
	ranks[1].joining.seq = 3;
	j = status();
	rank = json_array_get(json_object_get(first_job(j), "ranks"), 1);
	const json_t *collective = json_object_get(rank, "collective");
	cr_expect_str_eq(json_string_value(json_object_get(collective, "op")), "all_?");
	cr_expect_eq(json_integer_value(json_object_get(collective, "number")), 7);
	cr_expect_eq(json_integer_value(json_object_get(collective, "bytes")), 4096);
	cr_expect(json_is_null(json_object_get(collective, "dtype")));
	cr_expect(json_is_true(json_object_get(collective, "in")));
	cr_expect(json_is_real(json_object_get(collective, "entered_ms")));
	cr_expect_str_eq(json_string_value(json_object_get(rank, "waits")), "join");
	json_decref(j);
	head->typed = arena_typed(7, DTYPE_BF16);
	head->flight.beat_ns = head->flight.coll_since_ns = UINT64_MAX; /* while the document is written */
	j = status();
	rank = json_array_get(json_object_get(first_job(j), "ranks"), 1);
	collective = json_object_get(rank, "collective");
	cr_expect(json_is_integer(json_object_get(rank, "beat_age_ms")), "it is not silent");
	cr_expect_eq(json_integer_value(json_object_get(rank, "beat_age_ms")), 0);
	cr_expect(json_is_real(json_object_get(collective, "entered_ms")));
	cr_expect_float_eq(json_real_value(json_object_get(collective, "entered_ms")), 0, 1e-9);
	cr_expect_str_eq(json_string_value(json_object_get(collective, "dtype")), "BF16");
	json_decref(j);
	free(head);
}

Test(status, stragglers_are_told_of_ranks_and_of_the_job)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	struct memory mem = {.head = head, .size = 4 << 20};
	list_push(&d.jobs.list, &job.link);
	ranks[1].mem = &mem;
	ranks[1].index = 1;
	json_t *j = status(), *rank = json_array_get(json_object_get(first_job(j), "ranks"), 1);
	cr_expect(json_is_null(json_object_get(rank, "straggler")), "nothing was compared");
	json_decref(j);
	job.stragglers.ranks[1] =
		(struct straggler_rank){.compared = true, .late = true, .own = 0.9, .ratio = 1.8, .cost = 0.3};
	job.stragglers.episodes[0] = (struct straggler_episode){
		.rank = 1, .node = "a", .since_wall_ns = 7, .lasted_ns = 2000000, .lost_ns = 1000000, .ratio = 1.8};
	job.stragglers.episodes[1] = (struct straggler_episode){.whole = true, .node = "b"};
	job.stragglers.nepisodes = 2;
	j = status();
	rank = json_object_get(json_array_get(json_object_get(first_job(j), "ranks"), 1), "straggler");
	cr_expect(json_is_true(json_object_get(rank, "is")));
	cr_expect_float_eq(json_number_value(json_object_get(rank, "ratio")), 1.8, 1e-9);
	const json_t *e = json_array_get(json_object_get(first_job(j), "stragglers"), 0);
	cr_expect_eq(json_integer_value(json_object_get(e, "since_ns")), 7);
	cr_expect(json_is_null(json_object_get(e, "until_ns")));
	cr_expect_float_eq(json_number_value(json_object_get(e, "cost")), 0.5, 1e-9);
	cr_expect_float_eq(json_number_value(json_object_get(e, "cost_ms")), 1, 1e-9);
	cr_expect_eq(json_integer_value(json_object_get(e, "rank")), 1);
	cr_expect_str_eq(json_string_value(json_object_get(e, "node")), "a");
	e = json_array_get(json_object_get(first_job(j), "stragglers"), 1);
	cr_expect(json_is_null(json_object_get(e, "rank")), "all of its node are late");
	cr_expect_str_eq(json_string_value(json_object_get(e, "node")), "b");
	cr_expect(strstr(json_string_value(json_object_get(e, "text")), "node b is a straggler"));
	json_decref(j);
	free(head);
}

Test(status, the_loss_is_told_of_ranks_and_of_the_job_also_one_that_is_no_number)
{
	struct arena_head *head = calloc(1, sizeof(*head));
	struct memory mem = {.head = head, .size = 4 << 20};
	struct loss_watch *w = &job.loss;
	list_push(&d.jobs.list, &job.link);
	ranks[1].mem = &mem;
	ranks[1].index = 1;
	json_t *j = status();
	cr_expect(json_is_null(json_object_get(first_job(j), "loss")));
	cr_expect(json_is_null(json_object_get(json_array_get(json_object_get(first_job(j), "ranks"), 1), "loss")));
	json_decref(j);
	w->ranks.ranks[1] = (struct loss_rank){.known = true, .said = {.step = 40, .loss = NAN, .gradient_norm = 2}};
	for (uint64_t step = 1; step <= LOSS_KNOWN; step++)
		loss_step(&w->now, step, 2.5, -1);
	loss_step(&w->now, 40, NAN, 2);
	w->episodes[0] = (struct loss_episode){.found = w->now.found, .by_rank = true, .rank = 1, .since_wall_ns = 7};
	w->nepisodes = 1;
	j = status();
	const json_t *rank = json_object_get(json_array_get(json_object_get(first_job(j), "ranks"), 1), "loss");
	cr_expect_eq(json_integer_value(json_object_get(rank, "step")), 40);
	cr_expect(json_is_null(json_object_get(rank, "loss")));
	cr_expect_float_eq(json_number_value(json_object_get(rank, "gradient_norm")), 2, 1e-9);
	const json_t *all = json_object_get(first_job(j), "loss");
	cr_expect(json_is_null(json_object_get(all, "loss")));
	cr_expect_str_eq(json_string_value(json_object_get(all, "trouble")), "not-finite");
	cr_expect_float_eq(json_number_value(json_object_get(all, "median")), 2.5, 1e-9);
	cr_expect_float_eq(json_number_value(json_object_get(all, "best")), 2.5, 1e-9);
	const json_t *e = json_array_get(json_object_get(all, "episodes"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(e, "kind")), "not-finite");
	cr_expect_eq(json_integer_value(json_object_get(e, "rank")), 1);
	cr_expect_eq(json_integer_value(json_object_get(e, "since_ns")), 7);
	cr_expect(json_is_null(json_object_get(e, "until_ns")));
	cr_expect_str_eq(json_string_value(json_object_get(e, "text")), "the loss of step 40 is NaN, as rank 1 says");
	json_decref(j);
	free(head);
}

/* A sentence that was cut in the middle of a character must not cost the whole answer. */
Test(status, a_cut_character_does_not_spoil_the_document)
{
	struct snapshot *s;
	list_push(&d.jobs.list, &job.link);
	cr_assert_eq(snapshot_new(&job.saves, (struct step_id){5, 3}, 2, &s), 0);
	list_push(&job.saves.snapshots, &s->link);
	s->rc = -EIO;
	snprintf(s->err.text, sizeof(s->err.text),
		 "tensor m\xc3\xb6"
		 "del\xe2\x82");
	json_t *j = status();
	json_t *snapshot = json_array_get(json_object_get(first_job(j), "snapshots"), 0);
	cr_assert(strstr(json_string_value(json_object_get(snapshot, "error")), "tensor m"));
	json_decref(j);
	snapshot_free(s);
}

Test(status, a_store_path_of_any_bytes_does_not_spoil_the_document)
{
	d.runtime.config.store = "/st\xff\xfe";
	json_t *j = status();
	cr_assert_str_eq(json_string_value(json_object_get(j, "store")), "/st??");
	json_decref(j);
}

Test(status, it_tells_the_settings_in_effect_and_where_they_come_from)
{
	json_t *j = status(), *limit = NULL, *entry;
	size_t i;
	json_array_foreach(json_object_get(j, "config"), i,
			   entry) if (!strcmp(json_string_value(json_object_get(entry, "key")), "memory-limit") &&
				      !limit) limit = entry;
	cr_assert_str_eq(json_string_value(json_object_get(limit, "section")), "node");
	cr_assert_str_eq(json_string_value(json_object_get(limit, "value")), "100");
	cr_assert_str_eq(json_string_value(json_object_get(limit, "from")), "default");
	json_decref(j);
}

Test(status, a_job_tells_its_policies)
{
	list_push(&d.jobs.list, &job.link);
	job.policy = (struct policy){.persist_every = 4, .save_policy = SAVE_REFUSE};
	json_t *j = status(), *policy = json_object_get(first_job(j), "policy");
	cr_assert_str_eq(json_string_value(json_object_get(policy, "persist-every")), "4");
	cr_assert_str_eq(json_string_value(json_object_get(policy, "save-policy")), "refuse");
	json_decref(j);
}
