#include "campaign/campaign_run.h"

#include "base/clock.h"
#include "campaign/campaign_hosts.h"
#include "campaign/campaign_worlds.h"
#include "frame/contact.h"
#include "frame/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS (5 * CLOCK_NS_PER_S)
#define END_NS (300 * CLOCK_NS_PER_S)
#define ENDLESS 1000000000u

char *campaign_path(const struct campaign *c, const char *name, char dst[PATH_MAX])
{
	snprintf(dst, PATH_MAX, "%s/%s", c->folder, name);
	return dst;
}

char *campaign_node_path(const struct campaign *c, uint32_t node, const char *name, char dst[PATH_MAX])
{
	if (c->file.nodes == 1)
		return campaign_path(c, name, dst);
	snprintf(dst, PATH_MAX, "%s/node-%u.%s", c->folder, node, name);
	return dst;
}

static bool is_over(const struct campaign *c, size_t first, size_t n)
{
	bool over = true;
	for (size_t i = first; i < first + n; i++)
		over &= c->ended[i];
	return over;
}

/* Times count from here, and from the first fault that is left: what was before it is over. */
static int cause_all(struct campaign *c)
{
	uint64_t begin = clock_now(), first = UINT64_MAX;
	int code = EXIT_OK;
	for (size_t i = 0, n; !code && i < c->file.n; i += n) {
		n = campaign_file_together(&c->file, i);
		if (is_over(c, i, n))
			continue;
		if (first == UINT64_MAX)
			first = c->fired + c->not_fired ? c->file.faults[i].at_ms : 0;
		code = campaign_await_time(c, begin + (c->file.faults[i].at_ms - first) * CLOCK_NS_PER_MS);
		if (!code)
			code = campaign_await_work(c, (struct step_id){0});
		if (!code)
			code = campaign_await_steps(c, c->file.faults[i].steps);
		if (!code)
			code = campaign_cause(c, i, n);
	}
	return code;
}

static int halt(struct campaign *c, struct err *err)
{
	char sock[PATH_MAX];
	struct wire_command command = {.kind = COMMAND_HALT, .job = "campaign"};
	struct wire_answer answer;
	bool refused;
	return contact_command(campaign_node_path(c, 0, "s", sock), NULL, &command, clock_deadline(ASK_NS), &answer,
			       &refused, err);
}

/* Rank 0 says so, in the log of the node where it is. On another one it may have said so when the campaign was stopped before. */
static bool find_end(struct campaign *c, char log[PATH_MAX])
{
	bool found = false;
	for (uint32_t k = campaign_is_elastic(c) ? c->nnodes : 1; k-- > 0;) {
		struct campaign_end end;
		if (!campaign_final(campaign_node_path(c, k, c->nnodes > 1 ? "log" : "run.log", log), &end))
			continue;
		if (!found || end.step > c->end.step)
			c->end = end;
		found = true;
	}
	return found;
}

static int end_job(struct campaign *c)
{
	struct err err = {""};
	uint64_t lasts = 0;
	for (size_t i = 0; i < c->file.n; i++)
		lasts = max_u64(lasts,
				c->file.faults[i].entry->target == FAULT_AT_STORE ? c->file.faults[i].for_ms : 0);
	int status = 0,
	    code = campaign_await_time(c, clock_deadline(lasts * CLOCK_NS_PER_MS)); /* the disk is sound again */
	char text[64], log[PATH_MAX], who[320];
	if (!code)
		code = campaign_await_work(c, c->durable);
	if (code)
		return code;
	if (halt(c, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	int rc = campaign_await(c, clock_deadline(END_NS), &status, &err);
	if (rc == -ECANCELED)
		return EXIT_CANCELLED;
	if (rc || status)
		return cli_fail(c->cli, EXIT_FAILED, "the job did not end well: %s %s; see the logs in %s",
				campaign_hosts_who(c, who, sizeof(who)),
				rc ? "is still there" : proc_status_text(text, sizeof(text), status), c->folder);
	if (!find_end(c, log))
		return cli_fail(c->cli, EXIT_FAILED, "%s does not say how training ended", log);
	return EXIT_OK;
}

/* When the job was started, was at work, and has ended. */
static int note_time(struct campaign *c, const char *event)
{
	struct err err = {""};
	if (!journal_put(&c->journal, json_pack("{s:s, s:I}", "event", event, "wall_ns", (json_int_t)clock_wall()),
			 &err))
		return EXIT_OK;
	return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
}

int campaign_disturb(struct campaign *c)
{
	struct err err = {""};
	int code = note_time(c, "started");
	if (code)
		return code;
	if (campaign_start(c, true, ENDLESS, &err) || campaign_note_ways(c, "joined", 0, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	code = campaign_await_work(c, (struct step_id){0});
	if (!code)
		code = note_time(c, "at-work");
	if (!code)
		code = cause_all(c);
	if (!code)
		code = end_job(c);
	campaign_stop(c);
	int noted = note_time(c, "stopped");
	return code ? code : noted;
}

/* Where ranks move, the worlds of the disturbed run; else that of the file. */
static int find_worlds(const struct campaign *c, struct campaign_stretches *all)
{
	struct err err = {""};
	char log[PATH_MAX];
	int rc = 0;
	for (uint32_t k = 0; !rc && c->file.min_ranks && k < c->file.nodes; k++)
		rc = campaign_worlds_read(campaign_node_path(c, k, c->file.nodes > 1 ? "log" : "run.log", log), all,
					  &err);
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	campaign_worlds_settle(all);
	return EXIT_OK;
}

/* Each run goes on from what the one before it has saved last. One that was done before the campaign was stopped is passed over. */
static int calm_until(struct campaign *c, uint32_t world, uint64_t step)
{
	struct err err = {""};
	int status = 0;
	char log[PATH_MAX];
	campaign_path(c, "calm.log", log);
	if (campaign_final(log, &c->calm) && c->calm.step >= step)
		return EXIT_OK;
	c->calm_world = world;
	if (campaign_start(c, false, step, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	int rc = campaign_await(c, clock_deadline(3600 * CLOCK_NS_PER_S), &status, &err);
	campaign_stop(c);
	if (rc == -ECANCELED)
		return EXIT_CANCELLED;
	if (rc || status || !campaign_final(log, &c->calm) || c->calm.step != step)
		return cli_fail(c->cli, EXIT_FAILED, "the undisturbed run did not end well; see %s", log);
	return EXIT_OK;
}

int campaign_calm(struct campaign *c)
{
	struct campaign_stretches all = {.n = 0};
	int code = find_worlds(c, &all);
	for (size_t i = 0; !code && i + 1 < all.n && all.of[i + 1].from < c->end.step; i++)
		code = calm_until(c, all.of[i].world, all.of[i + 1].from);
	size_t last = all.n;
	while (last > 1 && all.of[last - 1].from >= c->end.step)
		last--;
	if (!code)
		code = calm_until(c, last ? all.of[last - 1].world : c->file.ranks, c->end.step);
	free(all.of);
	return code;
}

bool campaign_final(const char *path, struct campaign_end *out)
{
	char line[512];
	bool found = false;
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "final step=");
		found |= at &&
			 sscanf(at, "final step=%" SCNu64 " loss=%*s params=%31[0-9a-f]", &out->step, out->params) == 2;
	}
	if (f)
		fclose(f);
	return found;
}
