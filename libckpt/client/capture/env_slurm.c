#include "client/capture/env_slurm.h"

#include "base/quoted.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stdlib.h>

#define TASKS "SLURM_STEP_TASKS_PER_NODE"
#define NODE "SLURM_NODEID"

static bool read_number(const char **at, uint32_t *out)
{
	const char *begin = *at;
	uint64_t v = 0;
	for (; **at >= '0' && **at <= '9' && v <= RANK_MAX; (*at)++)
		v = v * 10 + (uint64_t)(**at - '0');
	*out = (uint32_t)v;
	return *at > begin && v <= RANK_MAX;
}

/* One part of the list: `tasks` on each of the next `nodes` nodes. */
static bool read_part(const char **at, uint32_t *tasks, uint32_t *nodes)
{
	*nodes = 1;
	if (!read_number(at, tasks) || !*tasks)
		return false;
	if (**at == '(') {
		*at += 1;
		if (*(*at)++ != 'x' || !read_number(at, nodes) || !*nodes || *(*at)++ != ')')
			return false;
	}
	if (**at == ',')
		return *++*at != 0;
	return **at == 0;
}

static bool are_ranks(uint32_t world)
{
	const char *text = getenv("SLURM_STEP_NUM_TASKS");
	uint32_t tasks;
	return text && read_number(&text, &tasks) && !*text && tasks == world;
}

int env_slurm_local(uint32_t world, uint32_t *out, const char **name, struct err *err)
{
	const char *list = getenv(TASKS), *node = getenv(NODE), *at = list, *id = node;
	uint32_t place = 0, tasks, nodes;
	*name = NULL;
	if (!list || !*list || !are_ranks(world))
		return 0;
	*name = TASKS;
	if (node && *node && (!read_number(&id, &place) || *id))
		return err_set(err, -EINVAL, NODE " is %s, not a number from 0 to %d", quoted(node).text, RANK_MAX);
	while (*at) {
		if (!read_part(&at, &tasks, &nodes))
			return err_set(err, -EINVAL,
				       TASKS " is %s, not numbers of tasks as 4(x2),3: set CKPT_LOCAL_WORLD",
				       quoted(list).text);
		if (place < nodes) {
			*out = tasks;
			return 0;
		}
		place -= nodes;
	}
	return err_set(err, -EINVAL, TASKS " is %s, which has no node %s (" NODE "): set CKPT_LOCAL_WORLD",
		       quoted(list).text, node ? node : "0");
}
