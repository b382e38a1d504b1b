#include "starter/starter.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Those that are said in another way, or not at all, to the launcher of a node. */
static const char *const own[] = {"nodes", "node-rank", "spares", "spare",    "remote-shell",
				  "job",   "min-ranks", "report", "attended", NULL};

static bool is_own(const char *name)
{
	for (const char *const *o = own; *o; o++)
		if (!strcmp(*o, name))
			return true;
	return false;
}

static void put(struct wbuf *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One word that was not chosen by the user. */
static void put(struct wbuf *line, const char *fmt, ...)
{
	char text[64];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	wbuf_put(line, text, (size_t)n);
}

static void put_option(struct wbuf *line, const char *name, const char *value)
{
	put(line, "--%s ", name);
	if (value)
		shell_quote(line, value);
}

/* As the user gave them: the launchers are of this very program. */
static void put_given(struct wbuf *line, const struct cli *cli)
{
	for (const struct option_spec *o = cli->command->options; o->name; o++) {
		if (is_own(o->name))
			continue;
		if (o->type == OPTION_FLAG && cli_flag(cli, o->name))
			put_option(line, o->name, NULL);
		for (int i = 0; o->type == OPTION_REPEAT && cli_repeat(cli, o->name, i); i++)
			put_option(line, o->name, cli_repeat(cli, o->name, i));
		if (o->type != OPTION_FLAG && o->type != OPTION_REPEAT && cli_text(cli, o->name))
			put_option(line, o->name, cli_text(cli, o->name));
	}
	if (cli->quiet)
		put_option(line, "quiet", NULL);
}

/* A file of its own, should all write into one folder. */
static void put_report(struct wbuf *line, const char *file, uint32_t node)
{
	AUTO_FREE char *text = NULL;
	if (asprintf(&text, "%s.%u", file, node) < 0)
		line->failed = true;
	else
		put_option(line, "report", text);
}

/* Which node it is. A job with spares is planned, also when it is not to go on with fewer ranks. */
static void put_place(struct wbuf *line, const struct starter *s, uint32_t node)
{
	uint32_t nodes = s->nnodes - s->nspares;
	const char *report = cli_text(s->cli, "report");
	put(line, "--nodes %u ", nodes);
	if (s->elastic)
		put(line, "--min-ranks %llu ", (unsigned long long)s->least);
	else
		put(line, "--node-rank %u ", node);
	if (s->nodes[node].spare)
		put_option(line, "spare", NULL);
	if (report)
		put_report(line, report, node);
}

char *line_of(const struct starter *s, uint32_t node)
{
	struct wbuf line = {0};
	shell_begin_line(&line, s->here);
	shell_quote(&line, s->self);
	put(&line, "run --attended ");
	put_place(&line, s, node);
	put_option(&line, "job", s->job);
	put_given(&line, s->cli);
	put(&line, "-- ");
	for (int i = 0; i < s->cli->nargs; i++)
		shell_quote(&line, s->cli->args[i]);
	wbuf_put(&line, "", 1);
	if (!wbuf_finish(&line))
		return (char *)line.data;
	wbuf_free(&line);
	return NULL;
}
