/* What the daemon of this node says about itself that a rank should know before it starts. */
#include "operate/doctor.h"

#include "frame/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_store(struct doctor *d, const json_t *status)
{
	const char *store = json_string_value(json_object_get(status, "store"));
	doctor_add(d, "job-store", store ? RESULT_FINE : RESULT_NOTE,
		   "Checkpoints stay in memory: none outlives ckptd, and none a job that goes on elsewhere.",
		   "Give ckptd --store, or CKPT_STORE.", "%.250s", store ? store : "this ckptd has none");
}

/* How many of the ranks are on this node, of how many: by who starts them. False: it does not tell. */
static bool ranks_here(unsigned long *here, unsigned long *all)
{
	static const char *const pairs[][2] = {{"LOCAL_WORLD_SIZE", "WORLD_SIZE"},
					       {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
					       {"MPI_LOCALNRANKS", "PMI_SIZE"}};
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const char *local = getenv(pairs[i][0]), *world = getenv(pairs[i][1]);
		*here = local ? strtoul(local, NULL, 10) : 0;
		*all = world ? strtoul(world, NULL, 10) : 0;
		if (*here && *all)
			return true;
	}
	*here = 1;
	*all = nodes ? strtoul(nodes, NULL, 10) : 0;
	return *all > 0;
}

static void count_nodes(const json_t *cluster, size_t *all, size_t *up)
{
	const json_t *nodes = json_object_get(cluster, "nodes"), *node;
	size_t i;
	*all = json_array_size(nodes);
	*up = 0;
	json_array_foreach(nodes, i, node) *up += json_is_true(json_object_get(node, "up"));
}

static void check_nodes(struct doctor *d, const json_t *status)
{
	const json_t *cluster = json_object_get(status, "cluster");
	unsigned long here, ranks;
	size_t all, up;
	bool several = ranks_here(&here, &ranks) && here < ranks;
	count_nodes(cluster, &all, &up);
	if (several && all < 2)
		doctor_add(
			d, "job-nodes", RESULT_BROKEN,
			"Ranks of other nodes never meet these: all wait for join-timeout, and end.",
			"Make a cluster of the ckptd of all nodes: the setting cluster, or registry and node-address.",
			"the ranks are on several nodes, and this ckptd is in no cluster");
	else
		doctor_add(d, "job-nodes", up < all ? RESULT_DEGRADED : RESULT_FINE,
			   "Ranks of a node that is missing cannot join, and it holds no copies.",
			   "Look into the log of ckptd here and there: roster, key and network must fit.",
			   all ? "%zu of %zu nodes of the cluster are there" : "this node alone", up, all);
}

/* The first of its worst findings. */
static void check_health(struct doctor *d, const json_t *status)
{
	static const struct {
		const char *name;
		enum result result;
	} levels[] = {{"failing", RESULT_DEGRADED}, {"degraded", RESULT_NOTE}};
	const json_t *findings = json_object_get(json_object_get(status, "health"), "findings"), *finding;
	size_t i;
	for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]); level++) {
		json_array_foreach(findings, i, finding)
		{
			if (strcmp(field_text(finding, "severity"), levels[level].name) != 0)
				continue;
			snprintf(d->health, sizeof(d->health), "%s", field_text(finding, "remedy"));
			doctor_add(d, "job-health", levels[level].result, "What /healthz and ckpt status say of it.",
				   d->health, "%.64s: %.180s", field_text(finding, "code"),
				   field_text(finding, "text"));
			return;
		}
	}
	doctor_add(d, "job-health", RESULT_FINE, NULL, NULL, "ckptd complains of nothing");
}

void doctor_daemon(struct doctor *d, const json_t *status)
{
	check_store(d, status);
	check_nodes(d, status);
	check_health(d, status);
}
