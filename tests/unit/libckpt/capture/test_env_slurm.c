#include "client/capture/env_slurm.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* A task on that node of a step of `world` tasks; NULL: the variable is not set. */
static int asked(const char *tasks, const char *node, uint32_t world, uint32_t *out, const char **name, struct err *err)
{
	setenv("SLURM_STEP_NUM_TASKS", "11", 1);
	unsetenv("SLURM_STEP_TASKS_PER_NODE");
	unsetenv("SLURM_NODEID");
	if (tasks)
		setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1);
	if (node)
		setenv("SLURM_NODEID", node, 1);
	return env_slurm_local(world, out, name, err);
}

Test(env_slurm, the_place_of_the_node_in_the_list_is_the_number)
{
	static const struct {
		const char *tasks, *node;
		uint32_t local;
	} rows[] = {{"11", "0", 11},     {"11", NULL, 11},    {"3,1", "0", 3},       {"3,1", "1", 1},
		    {"4(x2),3", "1", 4}, {"4(x2),3", "2", 3}, {"1,2(x4),2", "5", 2}, {"8(x1000)", "999", 8}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *name;
		struct err err = {0};
		uint32_t local = 0;
		cr_assert_eq(asked(rows[i].tasks, rows[i].node, 11, &local, &name, &err), 0, "%s", err.text);
		cr_assert_str_eq(name, "SLURM_STEP_TASKS_PER_NODE");
		cr_assert_eq(local, rows[i].local, "%s on %s: %u", rows[i].tasks, rows[i].node, local);
	}
}

Test(env_slurm, nothing_is_told_without_a_step_or_of_other_ranks_than_its_tasks)
{
	static const struct {
		const char *tasks;
		uint32_t world;
	} rows[] = {{NULL, 11}, {"", 11}, {"11", 12}, {"11", 1}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *name = "x";
		struct err err = {0};
		uint32_t local = 77;
		cr_assert_eq(asked(rows[i].tasks, "0", rows[i].world, &local, &name, &err), 0, "%s", err.text);
		cr_assert_null(name);
		cr_assert_eq(local, 77);
	}
}

Test(env_slurm, what_is_no_list_is_named)
{
	static const char *const bad[][3] = {
		{"x", "0", "TASKS_PER_NODE is"},        {"3,", "1", "TASKS_PER_NODE is"},
		{"0", "0", "TASKS_PER_NODE is"},        {"3(x", "0", "TASKS_PER_NODE is"},
		{"3(x2", "1", "TASKS_PER_NODE is"},     {"3(y2)", "1", "TASKS_PER_NODE is"},
		{"3(x0)", "0", "TASKS_PER_NODE is"},    {"3(x2)4", "2", "TASKS_PER_NODE is"},
		{"99999999", "0", "TASKS_PER_NODE is"}, {"3 ", "0", "TASKS_PER_NODE is"},
		{"3(x2)", "2", "has no node 2"},        {"3", "-1", "SLURM_NODEID is"},
		{"3", "1x", "SLURM_NODEID is"}};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *name;
		struct err err = {0};
		uint32_t local;
		cr_assert_eq(asked(bad[i][0], bad[i][1], 11, &local, &name, &err), -EINVAL, "%s", bad[i][0]);
		cr_assert(strstr(err.text, bad[i][2]), "\"%s\" does not name %s", err.text, bad[i][2]);
	}
}
