/* ckpt doctor: what this machine lacks for ckptd, what that costs, and how to mend it. Asks the kernel as ckptd would, with this
 * user's rights and in this container; asks no daemon. */
#include "operate/doctor.h"

#include "config/file.h"
#include "frame/contact.h"
#include "frame/output.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const results[] = {"fine", "note", "degraded", "broken"};

void doctor_add(struct doctor *d, const char *name, enum result result, const char *costs, const char *remedy,
		const char *fmt, ...)
{
	if (d->n == DOCTOR_CHECKS)
		return;
	struct check *c = &d->checks[d->n++];
	c->name = name;
	c->result = result;
	c->costs = result ? costs : NULL;
	c->remedy = result ? remedy : NULL;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->found, sizeof(c->found), fmt, ap);
	va_end(ap);
}

static int code_of(const struct doctor *d)
{
	enum result worst = RESULT_FINE;
	for (unsigned i = 0; i < d->n; i++)
		worst = d->checks[i].result > worst ? d->checks[i].result : worst;
	return worst == RESULT_BROKEN ? EXIT_FAILED : worst == RESULT_DEGRADED ? EXIT_PARTIAL : EXIT_OK;
}

static void print(const struct doctor *d)
{
	static const struct column columns[] = {{"CHECK", ALIGN_LEFT}, {"RESULT", ALIGN_LEFT}, {"FOUND", ALIGN_LEFT}};
	static const enum tone tones[] = {TONE_GOOD, TONE_DIM, TONE_WARN, TONE_BAD};
	struct table *t = table_new(columns, 3);
	for (unsigned i = 0; i < d->n; i++) {
		const struct check *c = &d->checks[i];
		table_cell(t, TONE_PLAIN, "%s", c->name);
		table_cell(t, tones[c->result], "%s", results[c->result]);
		table_cell(t, TONE_PLAIN, "%s", c->found);
	}
	table_print(t);
	for (enum result v = RESULT_BROKEN; v > RESULT_FINE; v--) {
		for (unsigned i = 0; i < d->n; i++) {
			const struct check *c = &d->checks[i];
			if (c->result != v)
				continue;
			out(tones[v], "\n%s: %s\n", c->name, c->found);
			out(TONE_PLAIN, "  costs: %s\n  mend:  %s\n", c->costs, c->remedy);
		}
	}
}

static void emit(const struct cli *cli, const struct doctor *d)
{
	json_t *doc = json_document(cli), *checks = json_array();
	for (unsigned i = 0; i < d->n; i++) {
		const struct check *c = &d->checks[i];
		json_array_append_new(checks, json_pack("{s:s, s:s, s:o, s:s?, s:s?}", "name", c->name, "verdict",
							results[c->result], "found", json_text(c->found), "costs",
							c->costs, "remedy", c->remedy));
	}
	json_object_set_new(doc, "exit", json_integer(code_of(d)));
	json_object_set_new(doc, "checks", checks);
	json_emit(doc);
}

static int run(struct cli *cli)
{
	struct doctor d = {.n = 0};
	struct err err = {""};
	struct config config;
	struct sources *sources = NULL;
	int rc = sources_new(&sources, &err);
	if (!rc)
		rc = sources_environment(sources, &err);
	if (!rc)
		rc = file_read_all(sources, NULL, &err);
	if (rc) {
		sources_free(sources);
		return cli_fail(cli, EXIT_FAILED, "the settings are wrong: %s", err.text);
	}
	sources_fill(sources, SCOPE_NODE, NULL, &config);
	const char *store = cli_text(cli, "store");
	d.store = store ? store : config.store;
	d.memory_limit = config.memory_limit;
	if (cli_flag(cli, "job")) {
		doctor_job(&d, cli_text(cli, "socket"));
	} else {
		doctor_machine(&d);
		doctor_store(&d);
	}
	if (cli->json)
		emit(cli, &d);
	else
		print(&d);
	sources_free(sources);
	return code_of(&d);
}

static const struct option_spec options[] = {
	{"store", OPTION_TEXT, "DIR", "the repository that ckptd would use (else that of the settings)"},
	{"job", OPTION_FLAG, NULL, "what a rank that is started here lacks, in place of what ckptd lacks"},
	CONTACT_SOCKET_OPTION,
	{NULL},
};

const struct command command_doctor = {
	.name = "doctor",
	.summary = "tell what this machine lacks, what that costs, and how to mend it",
	.detail = "Looks with the rights of whoever calls it: call it as ckptd's user, in its container. Ends with 0\n"
		  "when all is fine, 3 when something works at a price, 1 when something will not work. What is\n"
		  "merely not there (note) changes nothing.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
