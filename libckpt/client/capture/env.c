#include "client/capture/env.h"

#include "base/args.h"
#include "base/quoted.h"
#include "client/capture/env_slurm.h"
#include "format/arena/arena.h"
#include "format/message/wire.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_DEFAULT_MS = 120000 };

/* The first variable of the list (NULL-terminated) that is set and not empty; NULL: none. */
static const char *first_set(const char *const *names, const char **value)
{
	for (; *names; names++) {
		*value = getenv(*names);
		if (*value && **value)
			return *names;
	}
	*value = NULL;
	return NULL;
}

static int parse_number(const char *name, const char *text, uint32_t min, uint32_t max, uint32_t *out, struct err *err)
{
	uint64_t v = 0;
	const char *p = text;
	while (*p >= '0' && *p <= '9' && v <= max)
		v = v * 10 + (uint64_t)(*p++ - '0');
	if (*p || p == text || v < min || v > max)
		return err_set(err, -EINVAL, "%s is %s, not a number from %u to %u", name, quoted(text).text, min, max);
	*out = (uint32_t)v;
	return 0;
}

/* *name tells where the value came from; NULL: none of the variables is set and *out is untouched. */
static int number_from(const char *const *names, uint32_t min, uint32_t max, uint32_t *out, const char **name,
		       struct err *err)
{
	const char *value;
	*name = first_set(names, &value);
	return *name ? parse_number(*name, value, min, max, out, err) : 0;
}

static int option_number(const char *field, int value, int min, int max, uint32_t *out, struct err *err)
{
	if (value < min || value > max)
		return err_set(err, -EINVAL, "ckpt_options.%s is %d, not from %d to %d", field, value, min, max);
	*out = (uint32_t)value;
	return 0;
}

/* Slurm's last: mpirun within an allocation starts its helpers as tasks of Slurm, and ranks inherit their variables. Of the step, not of
 * the job (SLURM_NTASKS): a batch script runs once, however many tasks the job may have. */
static const char *const world_names[] = {"CKPT_WORLD", "WORLD_SIZE",           "OMPI_COMM_WORLD_SIZE",
					  "PMI_SIZE",   "SLURM_STEP_NUM_TASKS", NULL};
static const char *const rank_names[] = {"CKPT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
static const char *const local_names[] = {"CKPT_LOCAL_WORLD", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
					  "MPI_LOCALNRANKS", NULL};

static int set_rank_and_world(const ckpt_options *o, struct settings *out, struct err *err)
{
	const char *world_name, *rank_name;
	if (o->world) {
		int rc = option_number("world", o->world, 1, RANK_MAX, &out->world, err);
		return rc ? rc : option_number("rank", o->rank, 0, o->world - 1, &out->rank, err);
	}
	out->world = 1;
	int rc = number_from(world_names, 1, RANK_MAX, &out->world, &world_name, err);
	if (rc)
		return rc;
	rc = number_from(rank_names, 0, RANK_MAX - 1, &out->rank, &rank_name, err);
	if (rc)
		return rc;
	if (out->rank >= out->world)
		return err_set(err, -EINVAL, "%s=%u is not below the number of ranks, %u (%s)", rank_name, out->rank,
			       out->world, world_name ? world_name : "none of CKPT_WORLD, WORLD_SIZE, … is set");
	return 0;
}

static int set_local_world(const ckpt_options *o, struct settings *out, struct err *err)
{
	const char *name = "the number of ranks";
	out->local_world = out->world;
	if (o->local_world) {
		name = "ckpt_options.local_world";
		int rc = option_number("local_world", o->local_world, 1, RANK_MAX, &out->local_world, err);
		if (rc)
			return rc;
	} else {
		const char *found;
		int rc = number_from(local_names, 1, RANK_MAX, &out->local_world, &found, err);
		if (rc)
			return rc;
		if (!found)
			rc = env_slurm_local(out->world, &out->local_world, &found, err);
		if (rc)
			return rc;
		name = found ? found : name;
	}
	if (out->local_world > out->world)
		return err_set(err, -EINVAL, "%s says %u ranks on this node, but the job has %u", name,
			       out->local_world, out->world);
	if (out->local_world > WIRE_LOCAL_MAX)
		return err_set(err, -EINVAL,
			       "%s says %u ranks on this node; at most %d are possible: set CKPT_LOCAL_WORLD", name,
			       out->local_world, WIRE_LOCAL_MAX);
	return 0;
}

static int set_job(const ckpt_options *o, struct settings *out, struct err *err)
{
	static const struct {
		const char *name, *prefix;
	} sources[] = {{"CKPT_JOB", ""}, {"SLURM_JOB_ID", "slurm-"}, {"TORCHELASTIC_RUN_ID", "torch-"}};
	const char *name = "ckpt_options.job", *prefix = "", *value = o->job;
	for (size_t i = 0; !value && i < sizeof(sources) / sizeof(*sources); i++) {
		value = getenv(sources[i].name);
		if (value && !*value)
			value = NULL;
		name = sources[i].name;
		prefix = sources[i].prefix;
	}
	if (!value) {
		value = "default";
		prefix = "";
	}
	char job[2 * NAME_JOB_MAX];
	if ((size_t)snprintf(job, sizeof(job), "%s%s", prefix, value) >= sizeof(job))
		return err_set(err, -EINVAL, "%s: job name %s is longer than %d bytes; choose a shorter one", name,
			       quoted(job).text, NAME_JOB_MAX - 1);
	int rc = name_check("job", job, sizeof(out->job), err);
	if (rc)
		return err_prefix(err, rc, "%s", name);
	memcpy(out->job, job, strlen(job) + 1);
	return 0;
}

static int set_socket(const ckpt_options *o, struct settings *out, struct err *err)
{
	const char *path = o->socket ? o->socket : getenv("CKPT_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
	int n = 0;
	if (path && *path)
		n = snprintf(out->socket, sizeof(out->socket), "%s", path);
	else if (dir && *dir)
		n = snprintf(out->socket, sizeof(out->socket), "%s/ckptd.sock", dir);
	/* That of the service for all users, also where a user has no daemon of their own. */
	if (!n || (!(path && *path) && access(out->socket, F_OK) && !access("/run/ckptd.sock", F_OK)))
		n = snprintf(out->socket, sizeof(out->socket), "/run/ckptd.sock");
	if ((size_t)n < sizeof(out->socket))
		return 0;
	return err_set(err, -EINVAL,
		       "the path of the daemon's socket has %d bytes; at most %zu are possible (CKPT_SOCKET)", n,
		       sizeof(out->socket) - 1);
}

static int set_vote(const ckpt_options *o, struct settings *out, struct err *err)
{
	static const char *const votes[] = {"CKPT_VOTE", NULL};
	const char *name = NULL;
	uint32_t vote = (uint32_t)o->vote;
	int rc = o->vote < -1 || o->vote > 1 ? option_number("vote", o->vote, -1, 1, &vote, err)
		 : o->vote                   ? 0
					     : number_from(votes, 0, 1, &vote, &name, err);
	out->vote = vote == 1 ? VOTE_ALWAYS : o->vote || name ? VOTE_NEVER : VOTE_AUTO;
	return rc;
}

static int set_numbers(const ckpt_options *o, struct settings *out, struct err *err)
{
	static const char *const timeouts[] = {"CKPT_TIMEOUT_MS", NULL}, *const slots[] = {"CKPT_SLOTS", NULL};
	static const char *const stricts[] = {"CKPT_STRICT", NULL}, *const stagings[] = {"CKPT_STAGING", NULL};
	const char *name;
	uint32_t strict = 0, staging = 0;
	out->timeout_ms = TIMEOUT_DEFAULT_MS;
	out->slots = ARENA_SLOTS_MIN;
	int rc = o->timeout_ms ? option_number("timeout_ms", o->timeout_ms, 1, INT_MAX, &out->timeout_ms, err)
			       : number_from(timeouts, 1, INT_MAX, &out->timeout_ms, &name, err);
	if (rc)
		return rc;
	rc = o->slots ? option_number("slots", o->slots, ARENA_SLOTS_MIN, ARENA_SLOTS_MAX, &out->slots, err)
		      : number_from(slots, ARENA_SLOTS_MIN, ARENA_SLOTS_MAX, &out->slots, &name, err);
	if (rc)
		return rc;
	rc = o->strict ? option_number("strict", o->strict, 0, 1, &strict, err)
		       : number_from(stricts, 0, 1, &strict, &name, err);
	out->strict = strict;
	if (rc)
		return rc;
	rc = o->staging ? option_number("staging", o->staging, 0, 1, &staging, err)
			: number_from(stagings, 0, 1, &staging, &name, err);
	out->staging = staging;
	return rc;
}

int settings_make(const ckpt_options *opts, struct settings *out, struct err *err)
{
	ckpt_options o = CKPT_INIT(ckpt_options);
	int rc = opts ? args_take(&o, sizeof(o), sizeof(o), opts, "ckpt_options", err) : 0;
	*out = (struct settings){.on_epoch = o.on_epoch, .on_epoch_arg = o.on_epoch_arg};
	if (!rc)
		rc = set_rank_and_world(&o, out, err);
	if (!rc)
		rc = set_local_world(&o, out, err);
	if (!rc)
		rc = set_job(&o, out, err);
	if (!rc)
		rc = set_socket(&o, out, err);
	if (!rc)
		rc = set_numbers(&o, out, err);
	if (!rc)
		rc = set_vote(&o, out, err);
	return rc;
}
