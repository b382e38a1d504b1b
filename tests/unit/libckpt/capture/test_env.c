#include "base/args.h"
#include "client/capture/env.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void clean(void)
{
	static const char *const names[] = {"CKPT_JOB",
					    "SLURM_JOB_ID",
					    "TORCHELASTIC_RUN_ID",
					    "CKPT_SOCKET",
					    "XDG_RUNTIME_DIR",
					    "CKPT_RANK",
					    "RANK",
					    "SLURM_PROCID",
					    "OMPI_COMM_WORLD_RANK",
					    "PMI_RANK",
					    "CKPT_WORLD",
					    "WORLD_SIZE",
					    "SLURM_STEP_NUM_TASKS",
					    "SLURM_STEP_TASKS_PER_NODE",
					    "SLURM_NODEID",
					    "OMPI_COMM_WORLD_SIZE",
					    "PMI_SIZE",
					    "CKPT_LOCAL_WORLD",
					    "LOCAL_WORLD_SIZE",
					    "MPI_LOCALNRANKS",
					    "OMPI_COMM_WORLD_LOCAL_SIZE",
					    "CKPT_TIMEOUT_MS",
					    "CKPT_SLOTS",
					    "CKPT_STRICT"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
}

TestSuite(env, .init = clean);

static struct settings made(const ckpt_options *o)
{
	struct settings s;
	struct err err = {0};
	cr_assert_eq(settings_make(o, &s, &err), 0, "%s", err.text);
	return s;
}

/* Refused, and the sentence holds the word. */
static void refused(const ckpt_options *o, int rc, const char *word)
{
	struct settings s;
	struct err err = {0};
	cr_assert_eq(settings_make(o, &s, &err), rc, "%s", word);
	cr_assert(strstr(err.text, word), "\"%s\" does not name %s", err.text, word);
}

Test(env, nothing_set_is_one_rank_of_one)
{
	struct settings s = made(NULL);
	cr_assert_str_eq(s.job, "default");
	cr_assert_str_eq(s.socket, "/run/ckptd.sock");
	cr_assert_eq(s.rank, 0);
	cr_assert_eq(s.world, 1);
	cr_assert_eq(s.local_world, 1);
	cr_assert_eq(s.slots, 3);
	cr_assert_eq(s.timeout_ms, 120000);
	cr_assert_not(s.strict);
}

static void set_torchrun(void)
{
	setenv("TORCHELASTIC_RUN_ID", "none", 1);
	setenv("RANK", "5", 1);
	setenv("WORLD_SIZE", "16", 1);
	setenv("LOCAL_WORLD_SIZE", "8", 1);
}

Test(env, torchrun)
{
	set_torchrun();
	struct settings s = made(NULL);
	cr_assert_str_eq(s.job, "torch-none");
	cr_assert_eq(s.rank, 5);
	cr_assert_eq(s.world, 16);
	cr_assert_eq(s.local_world, 8);
}

Test(env, slurm)
{
	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_PROCID", "3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "4", 1);
	setenv("SLURM_STEP_TASKS_PER_NODE", "3,1", 1);
	setenv("SLURM_NODEID", "1", 1);
	struct settings s = made(NULL);
	cr_assert_str_eq(s.job, "slurm-4711");
	cr_assert_eq(s.rank, 3);
	cr_assert_eq(s.world, 4);
	cr_assert_eq(s.local_world, 1);
}

Test(env, mpirun_within_slurm_counts_before_slurm)
{
	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_PROCID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_STEP_TASKS_PER_NODE", "1(x2)", 1);
	setenv("SLURM_NODEID", "0", 1);
	setenv("OMPI_COMM_WORLD_RANK", "5", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
	struct settings s = made(NULL);
	cr_assert_eq(s.rank, 5);
	cr_assert_eq(s.world, 6);
	cr_assert_eq(s.local_world, 3);
}

Test(env, open_mpi)
{
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
	struct settings s = made(NULL);
	cr_assert_eq(s.rank, 1);
	cr_assert_eq(s.world, 6);
	cr_assert_eq(s.local_world, 2);
}

Test(env, pmi)
{
	setenv("PMI_RANK", "1", 1);
	setenv("PMI_SIZE", "4", 1);
	setenv("MPI_LOCALNRANKS", "2", 1);
	struct settings s = made(NULL);
	cr_assert_eq(s.rank, 1);
	cr_assert_eq(s.world, 4);
	cr_assert_eq(s.local_world, 2);
}

Test(env, our_own_variables_win)
{
	set_torchrun();
	setenv("CKPT_JOB", "mine", 1);
	setenv("CKPT_RANK", "0", 1);
	setenv("CKPT_WORLD", "2", 1);
	setenv("CKPT_LOCAL_WORLD", "1", 1);
	setenv("CKPT_SOCKET", "/x/s", 1);
	setenv("CKPT_TIMEOUT_MS", "77", 1);
	setenv("CKPT_SLOTS", "4", 1);
	setenv("CKPT_STRICT", "1", 1);
	struct settings s = made(NULL);
	cr_assert_str_eq(s.job, "mine");
	cr_assert_eq(s.rank, 0);
	cr_assert_eq(s.world, 2);
	cr_assert_eq(s.local_world, 1);
	cr_assert_str_eq(s.socket, "/x/s");
	cr_assert_eq(s.timeout_ms, 77);
	cr_assert_eq(s.slots, 4);
	cr_assert(s.strict);
}

Test(env, options_win_over_everything)
{
	set_torchrun();
	setenv("CKPT_TIMEOUT_MS", "77", 1);
	struct settings s = made(&(ckpt_options){.size = sizeof(ckpt_options),
						 .job = "j",
						 .socket = "/s",
						 .rank = 2,
						 .world = 3,
						 .local_world = 3,
						 .timeout_ms = 5,
						 .slots = 8,
						 .strict = 1});
	cr_assert_str_eq(s.job, "j");
	cr_assert_eq(s.rank, 2);
	cr_assert_eq(s.world, 3);
	cr_assert_eq(s.local_world, 3);
	cr_assert_eq(s.timeout_ms, 5);
	cr_assert_eq(s.slots, 8);
	cr_assert(s.strict);
}

Test(env, replicas_are_compared_as_the_option_says_else_the_variable)
{
	ckpt_options o = CKPT_INIT(ckpt_options);
	cr_assert_eq(made(NULL).vote, VOTE_AUTO);
	setenv("CKPT_VOTE", "1", 1);
	cr_assert_eq(made(NULL).vote, VOTE_ALWAYS);
	o.vote = -1;
	cr_assert_eq(made(&o).vote, VOTE_NEVER);
	setenv("CKPT_VOTE", "0", 1);
	cr_assert_eq(made(NULL).vote, VOTE_NEVER);
	o.vote = 1;
	cr_assert_eq(made(&o).vote, VOTE_ALWAYS);
	o.vote = 2;
	refused(&o, -EINVAL, "vote");
	setenv("CKPT_VOTE", "2", 1);
	refused(NULL, -EINVAL, "CKPT_VOTE is \"2\"");
}

Test(env, an_empty_variable_is_not_set)
{
	setenv("CKPT_RANK", "", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	cr_assert_eq(made(NULL).rank, 1);
}

Test(env, the_runtime_directory_holds_the_socket)
{
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	cr_assert_str_eq(made(NULL).socket, "/run/user/7/ckptd.sock");
}

Test(env, a_variable_that_is_no_number_in_range_is_named)
{
	static const char *const bad[][2] = {{"RANK", "two"},
					     {"RANK", "-1"},
					     {"RANK", "1x"},
					     {"WORLD_SIZE", "0"},
					     {"WORLD_SIZE", "300000"},
					     {"CKPT_SLOTS", "2"},
					     {"CKPT_SLOTS", "9"},
					     {"CKPT_STRICT", "yes"},
					     {"CKPT_TIMEOUT_MS", "0"},
					     {"CKPT_TIMEOUT_MS", "99999999999999999999"},
					     {"LOCAL_WORLD_SIZE", "0"},
					     {"SLURM_PROCID", " 1"}};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		clean();
		setenv(bad[i][0], bad[i][1], 1);
		refused(NULL, -EINVAL, bad[i][0]);
	}
}

Test(env, ranks_that_contradict_each_other_are_refused)
{
	setenv("RANK", "2", 1);
	setenv("WORLD_SIZE", "2", 1);
	refused(NULL, -EINVAL, "RANK=2");
	setenv("RANK", "0", 1);
	setenv("LOCAL_WORLD_SIZE", "4", 1);
	refused(NULL, -EINVAL, "LOCAL_WORLD_SIZE");
	unsetenv("LOCAL_WORLD_SIZE");
	setenv("WORLD_SIZE", "1000", 1);
	refused(NULL, -EINVAL, "CKPT_LOCAL_WORLD");
}

Test(env, options_out_of_range_are_named)
{
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .rank = 2, .world = 2}, -EINVAL, "rank");
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .world = -1}, -EINVAL, "world");
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .timeout_ms = -1}, -EINVAL, "timeout_ms");
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .slots = 9}, -EINVAL, "slots");
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .strict = 2}, -EINVAL, "strict");
	refused(&(ckpt_options){.size = sizeof(ckpt_options), .job = "a/b"}, -EINVAL, "job");
	setenv("CKPT_JOB", "../x", 1);
	refused(NULL, -EINVAL, "CKPT_JOB");
}

Test(env, a_path_that_no_socket_can_have_is_refused)
{
	char longer[200];
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	setenv("CKPT_SOCKET", longer, 1);
	refused(NULL, -EINVAL, "CKPT_SOCKET");
}

/* ---- structs of other versions ----------------------------------------------------------------------------------- */

struct newer {
	ckpt_options known;
	uint64_t later;
};

Test(env, a_newer_caller_is_served_unless_it_uses_what_is_unknown)
{
	struct newer n = {.known = {.size = sizeof(n), .world = 2, .rank = 1}};
	cr_assert_eq(made(&n.known).rank, 1);
	n.later = 1;
	refused(&n.known, -E2BIG, "ckpt_options");
}

Test(env, an_older_caller_gets_zeros_for_what_it_lacks)
{
	struct {
		size_t size;
		uint32_t a, b;
	} old = {.size = 12, .a = 1, .b = 2}, now;
	cr_assert_eq(args_take(&now, sizeof(now), 12, &old, "thing", NULL), 0);
	cr_assert_eq(now.a, 1);
	cr_assert_eq(now.b, 0);
}

Test(env, a_size_that_was_never_set_is_refused)
{
	refused(&(ckpt_options){.world = 1}, -EINVAL, "CKPT_INIT");
	refused(&(ckpt_options){.size = 1 << 20}, -EINVAL, "CKPT_INIT");
}
