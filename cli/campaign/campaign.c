/* ckpt campaign: a training job under a schedule of faults, and whether what was promised has held. */
#include "campaign/campaign_hosts.h"
#include "campaign/campaign_run.h"
#include "frame/progress.h"
#include "judge/judge.h"
#include "report/report.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the network --------------------------------------------------------------------------------------------------- */

/* Without one the nodes are on loopback, and what breaks networks is left out. */
static int make_network(struct campaign *c)
{
	struct err err = {""};
	if (c->hosts.n)
		return campaign_hosts_accept(c);
	if (c->file.nodes == 1)
		return EXIT_OK;
	if (campaign_net_make(&c->net, c->file.nodes, &err)) {
		c->no_network = campaign_file_leave_out_network(&c->file, 0);
		if (c->no_network)
			cli_note(c->cli, "%zu faults of the network are left out: the nodes are on loopback, since %s",
				 c->no_network, err.text);
	} else if (campaign_net_try_slow(&c->net, &err)) {
		c->no_network = campaign_file_leave_out_network(&c->file, FAULT_LINK_SLOW);
		if (c->no_network)
			cli_note(c->cli, "%zu faults link-slow are left out: %s", c->no_network, err.text);
	}
	return c->file.n ? EXIT_OK : cli_fail(c->cli, EXIT_FAILED, "no fault is left: run it as root, with iproute2");
}

/* What is left of it stands in the journal. */
static int close_network(struct campaign *c)
{
	char text[CAMPAIGN_NET_TEXT_MAX];
	struct err err = {""};
	int rc = 0;
	if (campaign_net_in_use(&c->net, text))
		rc = journal_put(&c->journal, json_pack("{s:s, s:s}", "event", "left", "text", text), &err);
	campaign_net_close(&c->net);
	return rc ? cli_fail(c->cli, EXIT_FAILED, "%s", err.text) : EXIT_OK;
}

/* When all processes should have ended. */
static int note_left_memory(struct campaign *c)
{
	char text[LEFT_MEMORY_TEXT_MAX];
	struct err err = {""};
	if (!left_memory_find(&c->memory, text) ||
	    !journal_put(&c->journal, json_pack("{s:s, s:o}", "event", "left", "text", json_text(text)), &err))
		return EXIT_OK;
	return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
}

/* ---- before it begins ---------------------------------------------------------------------------------------------- */

static int make_folder(const struct campaign *c, bool resume)
{
	char path[PATH_MAX], whole[PATH_MAX];
	bool there = !access(campaign_path(c, "journal", path), F_OK);
	if (resume && !there)
		return cli_fail(c->cli, EXIT_FAILED, "%s: there is no campaign to go on with", path);
	if (!resume && there)
		return cli_fail(c->cli, EXIT_FAILED,
				"%s: a campaign was here: go on with it by --resume, or give another --dir", path);
	if (mkdir(c->folder, 0700) && errno != EEXIST)
		return cli_fail(c->cli, EXIT_FAILED, "%s: %s", c->folder, err_name(-errno));
	if (!realpath(c->folder, whole) || strlen(whole) > 90)
		return cli_fail(c->cli, EXIT_USAGE,
				"--dir %s: the path is too long for a socket in it: at most 90 bytes", c->folder);
	return EXIT_OK;
}

/* What an earlier part of the campaign has done. */
static int take_line(void *arg, const json_t *line)
{
	struct campaign *c = arg;
	uint64_t i = journal_number(line, "index");
	const char *outcome = json_string_value(json_object_get(line, "outcome"));
	if (journal_is(line, "begin") &&
	    (journal_number(line, "seed") != c->file.seed || journal_number(line, "faults") != c->file.n ||
	     journal_nodes(line) != c->file.nodes || journal_number(line, "spares") != c->file.spares ||
	     journal_number(line, "min_ranks") != c->file.min_ranks))
		return -EINVAL;
	if (journal_is(line, "durable"))
		c->durable = (struct step_id){.step = journal_number(line, "step"),
					      .epoch = (uint32_t)journal_number(line, "epoch")};
	if (!journal_is(line, "fault") || i >= c->file.n || c->ended[i] || !outcome)
		return 0;
	c->ended[i] = true;
	if (!strcmp(outcome, "fired"))
		c->fired++;
	else
		c->not_fired++;
	return 0;
}

static json_t *begin_json(const struct campaign *c)
{
	const struct campaign_file *file = &c->file;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"seed", file->seed},
		       {"faults", file->n},
		       {"left_out", file->left_out},
		       {"nodes", file->nodes},
		       {"ranks", file->ranks},
		       {"save_memory_every", file->memory_every},
		       {"save_storage_every", file->storage_every},
		       {"hang_ms", file->hang_ms},
		       {"peer_ms", CAMPAIGN_PEER_MS},
		       {"spares", file->spares},
		       {"min_ranks", file->min_ranks},
		       {"lasted_ms", file->lasted_ms},
		       {"span_ms", campaign_file_span(file)}};
	json_t *line = json_pack("{s:s, s:o}", "event", "begin", "file", json_text(c->cli->args[0]));
	for (size_t i = 0; line && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(line, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	return line;
}

static int begin(struct campaign *c, bool resume)
{
	char path[PATH_MAX];
	struct err err = {""};
	campaign_path(c, "journal", path);
	int rc = resume ? journal_read(path, take_line, c, &err) : 0;
	if (rc)
		return cli_fail(c->cli, EXIT_FAILED, "%s",
				*err.text
					? err.text
					: "the journal is of another campaign: seed, nodes or number of faults differ");
	rc = journal_open(path, &c->journal, &err);
	if (!rc && !resume)
		rc = journal_put(&c->journal, begin_json(c), &err);
	return rc ? cli_fail(c->cli, EXIT_FAILED, "%s", err.text) : EXIT_OK;
}

static void announce_factor(const struct campaign *c)
{
	double lasted = (double)c->file.lasted_ms, span = (double)campaign_file_span(&c->file);
	if (lasted > 0 && span > 0)
		cli_note(c->cli, "what lasted %.1f days comes in %.1f minutes: time is compressed %.0f times",
			 lasted / 86400000, span / 60000, lasted / span);
}

/* "90 s", "4000 steps" or "90 s and 4000 steps" */
static char *within(const struct campaign_file *file, char *dst, size_t size)
{
	unsigned long last = file->faults[file->n - 1].at_ms / 1000, steps = campaign_file_steps(file);
	int used = steps && !last ? 0 : snprintf(dst, size, "%lu s%s", last, steps ? " and " : "");
	if (steps)
		snprintf(dst + used, size - (size_t)used, "%lu steps", steps);
	return dst;
}

static void announce(const struct campaign *c)
{
	char nodes[32] = "", when[64];
	if (c->file.nodes > 1)
		snprintf(nodes, sizeof(nodes), " on %u nodes", c->file.nodes);
	cli_note(c->cli, "%zu faults in %s on %u ranks%s, seed %lu; all in %s", c->file.n,
		 within(&c->file, when, sizeof(when)), c->file.ranks, nodes, (unsigned long)c->file.seed, c->folder);
	if (c->file.left_out > c->no_network)
		cli_note(c->cli, "%lu more stand in its tables and cannot be caused on %s: they are left out",
			 (unsigned long)(c->file.left_out - c->no_network),
			 c->hosts.n          ? "hosts"
			 : c->file.nodes > 1 ? "nodes of one machine"
					     : "one node");
	announce_factor(c);
}

/* ---- after it has ended -------------------------------------------------------------------------------------------- */

static int note_end(struct campaign *c)
{
	struct err err = {""};
	if (!journal_put(&c->journal,
			 json_pack("{s:s, s:I, s:s, s:s}", "event", "end", "step", (json_int_t)c->end.step, "params",
				   c->end.params, "calm_params", c->calm.params),
			 &err))
		return EXIT_OK;
	return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
}

static json_t *invariants_json(const struct invariant *invariants)
{
	json_t *list = json_array();
	for (int i = 0; i < JUDGE_INVARIANTS; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:b, s:I, s:I, s:o, s:o}", "name", invariants[i].name, "held",
						invariants[i].held, "looked_at", (json_int_t)invariants[i].looked_at,
						"not_due", (json_int_t)invariants[i].not_due, "why",
						*invariants[i].why ? json_text(invariants[i].why) : json_null(), "text",
						*invariants[i].text ? json_text(invariants[i].text) : json_null()));
	return list;
}

static json_t *document(const struct campaign *c, const struct invariant *invariants, int code)
{
	json_t *doc = json_document(c->cli);
	json_object_set_new(doc, "seed", json_integer((json_int_t)c->file.seed));
	json_object_set_new(doc, "faults", json_integer((json_int_t)c->file.n));
	json_object_set_new(doc, "fired", json_integer((json_int_t)c->fired));
	json_object_set_new(doc, "not_fired", json_integer((json_int_t)c->not_fired));
	json_object_set_new(doc, "left_out", json_integer((json_int_t)c->file.left_out));
	json_object_set_new(doc, "step", json_integer((json_int_t)c->end.step));
	json_object_set_new(doc, "params", json_text(c->end.params));
	json_object_set_new(doc, "calm_params", json_text(c->calm.params));
	json_object_set_new(doc, "invariants", invariants_json(invariants));
	json_object_set_new(doc, "exit", json_integer(code));
	return doc;
}

static void print(const struct campaign *c, const struct invariant *invariants)
{
	static const struct column columns[] = {{"INVARIANT", ALIGN_LEFT},
						{"HELD", ALIGN_LEFT},
						{"LOOKED AT", ALIGN_RIGHT},
						{"NOT DUE", ALIGN_RIGHT},
						{"WHAT", ALIGN_LEFT}};
	struct table *t = table_new(columns, 5);
	for (int i = 0; i < JUDGE_INVARIANTS; i++) {
		table_cell(t, TONE_PLAIN, "%s", invariants[i].name);
		table_cell(t, invariants[i].held ? TONE_GOOD : TONE_BAD, invariants[i].held ? "yes" : "no");
		table_cell(t, TONE_PLAIN, "%zu", invariants[i].looked_at);
		table_cell(t, TONE_PLAIN, "%zu", invariants[i].not_due);
		table_cell(t, TONE_PLAIN, "%s", invariants[i].held ? invariants[i].why : invariants[i].text);
	}
	out(TONE_PLAIN, "%zu of %zu faults fired; step %lu, parameters %s\n", c->fired, c->file.n,
	    (unsigned long)c->end.step, c->end.params);
	table_print(t);
}

/* What it came to is known without it, too. */
static void write_report(const struct campaign *c)
{
	struct report r;
	struct err err = {""};
	if (report_make(c->folder, &r, &err) || report_write(&r, &err))
		cli_fail(c->cli, EXIT_FAILED, "the report cannot be written: %s", err.text);
	else
		cli_note(c->cli, "the report is %s/report.html and report.json", c->folder);
	report_free(&r);
}

static int judge(struct campaign *c)
{
	struct invariant invariants[JUDGE_INVARIANTS];
	struct err err = {""};
	bool held = true;
	if (campaign_judge(c->folder, invariants, &err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	for (int i = 0; i < JUDGE_INVARIANTS; i++)
		held &= invariants[i].held;
	bool weak = c->not_fired || c->end.step < c->file.least_steps;
	int code = !held ? EXIT_FAILED : weak ? EXIT_PARTIAL : EXIT_OK;
	if (journal_put(&c->journal,
			json_pack("{s:s, s:i, s:o}", "event", "judged", "exit", code, "invariants",
				  invariants_json(invariants)),
			&err))
		return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
	write_report(c);
	if (c->cli->json)
		json_emit(document(c, invariants, code));
	else
		print(c, invariants);
	if (!held)
		return cli_fail(c->cli, code, "an invariant was broken: the folder %s has all that shows it",
				c->folder);
	if (c->not_fired)
		return cli_fail(c->cli, code,
				"%zu faults did not fire: this campaign has not shown what it was to show",
				c->not_fired);
	if (weak)
		return cli_fail(c->cli, code, "training came to step %lu only, least-steps is %lu",
				(unsigned long)c->end.step, (unsigned long)c->file.least_steps);
	return EXIT_OK;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int conduct(struct campaign *c, bool resume)
{
	int code = make_folder(c, resume);
	proc_become_subreaper();
	if (!code && c->hosts.n)
		code = hosts_check(&c->hosts, c->folder);
	if (!code)
		code = begin(c, resume);
	if (!code)
		code = campaign_hosts_note(c);
	if (code)
		return code;
	cli_catch_interrupt();
	announce(c); /* whoever reads it may interrupt */
	code = campaign_disturb(c);
	int closed = close_network(c);
	if (!code)
		code = closed;
	if (!code) {
		cli_note(c->cli, "the same %lu steps without faults", (unsigned long)c->end.step);
		code = campaign_calm(c);
	}
	int left = campaign_hosts_end(c);
	if (!code)
		code = left;
	if (!code)
		code = note_left_memory(c);
	if (!code)
		code = note_end(c);
	return code ? code : judge(c);
}

static int run(struct cli *cli)
{
	struct campaign c = {.cli = cli, .folder = cli_text(cli, "dir"), .journal = {.fd = -1}};
	struct err err = {""};
	if (!c.folder)
		return cli_fail(
			cli, EXIT_USAGE,
			"--dir DIR is missing, the folder for store, logs and journal: options stand before FILE");
	int first = cli->nargs > 1 && !strcmp(cli->args[1], "--") ? 2 : 1; /* as ckpt run takes it */
	c.command = cli->nargs > first ? cli->args + first : NULL;
	int rc = campaign_file_read(cli->args[0], &c.file, &err);
	c.ended = rc ? NULL : calloc(c.file.n, sizeof(*c.ended));
	int code = rc         ? cli_fail(cli, EXIT_USAGE, "%s", err.text)
		   : !c.ended ? cli_fail(cli, EXIT_FAILED, "out of memory")
			      : hosts_parse(cli, &c.hosts);
	if (!code)
		code = make_network(&c);
	if (!code)
		code = conduct(&c, cli_flag(cli, "resume"));
	campaign_net_close(&c.net);
	hosts_free(&c.hosts);
	left_memory_free(&c.memory);
	journal_close(&c.journal);
	campaign_file_free(&c.file);
	free(c.ended);
	return code;
}

static const struct option_spec options[] = {
	{"dir", OPTION_TEXT, "DIR", "folder for store, logs and journal; it is made"},
	{"nodes", OPTION_TEXT, "HOSTS",
	 "run it on HOST,HOST,... (as many as FILE has nodes) rather than on this machine"},
	{"remote-shell", OPTION_TEXT, "COMMAND",
	 "how a command is run on a host (else CKPT_REMOTE_SHELL, else ssh; with --nodes HOSTS)"},
	{"resume", OPTION_FLAG, NULL, "go on with the campaign that was stopped in DIR"},
	{NULL},
};

const struct command command_campaign = {
	.name = "campaign",
	.summary = "train under a schedule of faults, and judge what has held",
	.detail =
		"FILE says which faults hit the job, and when. COMMAND is the trainer (default: ckpt-train); it takes\n"
		"the options of ckpt-train. The job runs on this machine, with daemons of its own, in --dir; or on "
		"the\n"
		"hosts of --nodes, which share --dir.\n"
		"Then the same steps are trained without faults, and what was promised is judged.",
	.args = "FILE [[--] COMMAND [ARG...]]",
	.min_args = 1,
	.max_args = -1,
	.rest = true,
	.no_repo = true,
	.options = options,
	.run = run,
};
