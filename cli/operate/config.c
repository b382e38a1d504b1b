#include "frame/order.h"

#include "base/clock.h"
#include "config/file.h"
#include "format/tensor/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the daemon uses ------------------------------------------------------------------------------------------ */

/* The entry of its list, or of the policy of a job that it has; NULL: it does not say. */
static const json_t *daemon_entry(const json_t *doc, const struct setting *s)
{
	size_t i;
	const json_t *entry;
	json_array_foreach(json_object_get(doc, "config"), i, entry)
	{
		const char *section = json_string_value(json_object_get(entry, "section"));
		const char *key = json_string_value(json_object_get(entry, "key"));
		if (section && key && !strcmp(section, scope_name(s->scope)) && !strcmp(key, s->key))
			return entry;
	}
	return NULL;
}

/* NULL: no daemon, or one that does not know: a job that it does not have will be given what the files say then. */
static const char *daemon_value(const json_t *doc, const struct setting *s, const char *job)
{
	if (s->scope == SCOPE_JOB && job)
		return json_string_value(json_object_get(json_object_get(order_job(doc, job), "policy"), s->key));
	return json_string_value(json_object_get(daemon_entry(doc, s), "value"));
}

/* Why the daemon has another value, and what would change it; "" when it has none or the same. */
static const char *remedy(const json_t *doc, const struct setting *s, const char *mine, const char *theirs)
{
	const char *from = json_string_value(json_object_get(daemon_entry(doc, s), "from"));
	if (!theirs || !strcmp(mine, theirs))
		return "";
	if (from && (!strncmp(from, "--", 2) || !strncmp(from, "CKPT_", 5)))
		return from;
	return s->restart ? "restart ckptd" : "reload: SIGHUP";
}

/* NULL when none answers. */
static json_t *ask_daemon(const char *socket, uint64_t ms, struct err *err)
{
	json_t *doc = NULL;
	char path[CONTACT_PATH_MAX];
	if (!contact_path(socket, path, err))
		contact_status(path, NULL, clock_deadline(ms * CLOCK_NS_PER_MS), &doc, err);
	return doc;
}

/* ---- showing ------------------------------------------------------------------------------------------------------- */

static void show_table(const struct sources *sources, const char *job, const json_t *doc)
{
	static const struct column columns[] = {
		{"SETTING", ALIGN_LEFT}, {"VALUE", ALIGN_LEFT}, {"FROM", ALIGN_LEFT}, {"DAEMON", ALIGN_LEFT}};
	struct table *t = table_new(columns, doc ? 4 : 3);
	for (const struct setting *s = settings; s->key; s++) {
		const struct given *g = sources_find(sources, s, s->scope == SCOPE_JOB ? job : NULL);
		char value[SETTING_TEXT_MAX], from[SETTING_TEXT_MAX];
		value_print(s, &g->value, value, sizeof(value));
		table_cell(t, TONE_PLAIN, "%s.%s", scope_name(s->scope), s->key);
		table_cell(t, TONE_PLAIN, "%s", value);
		table_cell(t, g->origin ? TONE_PLAIN : TONE_DIM, "%s", given_from(g, from, sizeof(from)));
		const char *theirs = daemon_value(doc, s, job), *why = remedy(doc, s, value, theirs);
		if (doc && *why)
			table_cell(t, TONE_WARN, "%s (%s)", theirs, why);
		else if (doc)
			table_cell(t, TONE_DIM, "%s", theirs ? "the same" : "-");
	}
	table_print(t);
}

static json_t *setting_json(const struct sources *sources, const struct setting *s, const char *job, const json_t *doc)
{
	const struct given *g = sources_find(sources, s, s->scope == SCOPE_JOB ? job : NULL);
	char value[SETTING_TEXT_MAX], from[SETTING_TEXT_MAX], allowed[256];
	json_t *j = json_object();
	value_print(s, &g->value, value, sizeof(value));
	const char *theirs = daemon_value(doc, s, job);
	json_object_set_new(j, "section", json_string(scope_name(s->scope)));
	json_object_set_new(j, "key", json_string(s->key));
	json_object_set_new(j, "value", json_text(value));
	json_object_set_new(j, "from", json_text(given_from(g, from, sizeof(from))));
	json_object_set_new(j, "daemon", theirs ? json_text(theirs) : json_null());
	json_object_set_new(j, "remedy", json_text(remedy(doc, s, value, theirs)));
	json_object_set_new(j, "default", json_string(s->fallback ? s->fallback : s->fallback_text));
	json_object_set_new(j, "flag", json_string(s->flag));
	json_object_set_new(j, "no_flag", json_boolean(s->type == SETTING_BOOL));
	json_object_set_new(j, "environment", json_string(s->env));
	json_object_set_new(j, "allowed", json_string(value_allowed(s, allowed, sizeof(allowed))));
	json_object_set_new(j, "restart", json_boolean(s->restart));
	json_object_set_new(j, "help", json_string(s->help));
	return j;
}

static void show_json(const struct cli *cli, const struct sources *sources, const char *job, const json_t *daemon)
{
	json_t *doc = json_document(cli), *list = json_array();
	for (const struct setting *s = settings; s->key; s++)
		json_array_append_new(list, setting_json(sources, s, job, daemon));
	json_object_set_new(doc, "job", job ? json_string(job) : json_null());
	json_object_set_new(doc, "daemon", json_boolean(daemon != NULL));
	json_object_set_new(doc, "settings", list);
	json_emit(doc);
}

/* ---- the command ----------------------------------------------------------------------------------------------------- */

static int check(const struct cli *cli, const char *path, struct sources *sources, struct err *err)
{
	if (file_read(sources, path, err))
		return cli_fail(cli, EXIT_FAILED, "%s", err->text);
	if (!cli->json) {
		out(TONE_GOOD, "%s: no mistakes\n", path);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "file", json_text(path));
	json_object_set_new(doc, "mistakes", json_integer(0));
	json_emit(doc);
	return EXIT_OK;
}

static int show(const struct cli *cli, struct sources *sources, uint64_t ms, struct err *err)
{
	const char *job = cli_text(cli, "job"), *socket = cli_text(cli, "socket");
	if (sources_environment(sources, err) || file_read_all(sources, cli_text(cli, "config"), err))
		return cli_fail(cli, EXIT_FAILED, "%s", err->text);
	const struct given *given = sources_find(sources, setting_find(SCOPE_NODE, "socket"), NULL);
	if (!socket && given->origin != ORIGIN_DEFAULT)
		socket = given->value.text;
	json_t *daemon = ask_daemon(socket, ms, err);
	if (!daemon)
		cli_note(cli, "what a daemon uses is not shown: %s", err->text);
	if (cli->json)
		show_json(cli, sources, job, daemon);
	else
		show_table(sources, job, daemon);
	json_decref(daemon);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct err err = {""};
	struct sources *sources;
	const char *path = cli_text(cli, "check"), *job = cli_text(cli, "job");
	uint64_t ms;
	int code = contact_timeout(cli, &ms);
	if (code)
		return code;
	if (job && name_check("job", job, NAME_JOB_MAX, &err))
		return cli_fail(cli, EXIT_USAGE, "--job: %s", err.text);
	if (sources_new(&sources, &err))
		return cli_fail(cli, EXIT_FAILED, "%s", err.text);
	code = path ? check(cli, path, sources, &err) : show(cli, sources, ms, &err);
	sources_free(sources);
	return code;
}

static const struct option_spec options[] = {
	{"job", OPTION_TEXT, "NAME", "with the sections that are meant for this job"},
	{"config", OPTION_TEXT, "FILE", "this file in place of the usual ones"},
	{"check", OPTION_TEXT, "FILE", "only look for mistakes in this file"},
	{"socket", OPTION_TEXT, "PATH", "the daemon's socket (else that of the settings)"},
	CONTACT_TIMEOUT_OPTION,
	{NULL},
};

const struct command command_config = {
	.name = "config",
	.summary = "show the settings, where each comes from, and what the daemon uses",
	.detail = "Reads files and environment as a ckptd does that is started now. If a daemon answers and uses "
		  "another\n"
		  "value, that value stands beside, with what would change it: a reload, a restart, or the option or\n"
		  "variable that it was started with. Nothing is changed.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
