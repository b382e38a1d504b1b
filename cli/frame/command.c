#include "frame/command.h"

#include "frame/output.h"
#include "frame/target.h"

#include "base/cleanup.h"
#include "base/number.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option_value {
	const struct option_spec *spec;
	const char *text;
	uint64_t number;
	double share;
};

const struct option_spec global_options[] = {
	{"json", OPTION_FLAG, NULL, "print one JSON document on stdout"},
	{"quiet", OPTION_FLAG, NULL, "no remarks and no progress on stderr, only errors (also -q)"},
	{"help", OPTION_FLAG, NULL, "show the help of the command (also -h)"},
	{NULL},
};

const struct option_spec repo_options[] = {
	{"repo", OPTION_TEXT, "DIR", "the repository (else CKPT_REPO)"},
	{"job", OPTION_TEXT, "NAME", "the job (else CKPT_JOB; else the only one in the repository)"},
	{NULL},
};

const struct command *command_find(const char *name)
{
	for (int i = 0; commands[i]; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

/* ---- near misses */

enum { WORD_MAX = 32 };

/* Edits (insert, delete, replace, swap of neighbours) from a to b. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), d[WORD_MAX + 1][WORD_MAX + 1];
	if (la > WORD_MAX || lb > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= la; i++) {
		for (size_t j = 0; j <= lb; j++) {
			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[la][lb];
}

const char *near_miss(const char *word, const char *const *names)
{
	const char *best = NULL;
	size_t least = 3;
	for (; *names; names++) {
		size_t n = distance(word, *names);
		if (n < least && n < strlen(*names)) {
			least = n;
			best = *names;
		}
	}
	return best;
}

static int unknown_command(const struct cli *cli, const char *word)
{
	const char *names[64];
	size_t n = 0;
	for (; commands[n]; n++)
		names[n] = commands[n]->name;
	names[n] = NULL;
	const char *near = near_miss(word, names);
	return cli_fail(cli, EXIT_USAGE, "there is no command \"%s\"%s%s%s: see ckpt help", word,
			near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* ---- options */

enum { OPTION_LISTS = 3 };

/* The lists of options that are valid here; with no command yet, those that may stand before it. */
static void option_lists(const struct command *command, const struct option_spec *lists[OPTION_LISTS])
{
	static const struct option_spec none[] = {{NULL}};
	lists[0] = command && command->options ? command->options : none;
	lists[1] = command && command->no_repo ? none : repo_options;
	lists[2] = global_options;
}

static const struct option_spec *option_find(const struct command *command, const char *name, size_t len)
{
	const struct option_spec *lists[OPTION_LISTS];
	option_lists(command, lists);
	for (int i = 0; i < OPTION_LISTS; i++) {
		for (const struct option_spec *o = lists[i]; o->name; o++) {
			if (strlen(o->name) == len && !memcmp(o->name, name, len))
				return o;
		}
	}
	return NULL;
}

static int unknown_option(const struct cli *cli, const char *arg)
{
	const struct option_spec *lists[OPTION_LISTS];
	const char *names[128], *help = cli->command ? cli->command->name : "";
	size_t n = 0;
	option_lists(cli->command, lists);
	for (int i = 0; i < OPTION_LISTS; i++) {
		for (const struct option_spec *o = lists[i]; o->name && n + 1 < sizeof(names) / sizeof(names[0]); o++)
			names[n++] = o->name;
	}
	names[n] = NULL;
	char word[WORD_MAX + 2];
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg, "="), arg);
	const char *near = near_miss(word + strspn(word, "-"), names);
	return cli_fail(cli, EXIT_USAGE, "there is no option \"%s\"%s%s%s: see ckpt help %s", word,
			near ? "; did you mean \"--" : "", near ? near : "", near ? "\"?" : "", help);
}

static int parse_number(const struct cli *cli, struct option_value *v)
{
	if (!number_parse(v->text, UINT64_MAX, &v->number))
		return cli_fail(cli, EXIT_USAGE, "--%s %s: a whole number is wanted", v->spec->name, v->text);
	return 0;
}

static int parse_share(const struct cli *cli, struct option_value *v)
{
	char *end;
	v->share = strtod(v->text, &end);
	if (*end == '%') {
		v->share /= 100;
		end++;
	}
	if (end == v->text || *end || !(v->share > 0 && v->share <= 1))
		return cli_fail(cli, EXIT_USAGE, "--%s %s: a share above 0 and up to 100%% is wanted, such as 5%%",
				v->spec->name, v->text);
	return 0;
}

static int parse_value(const struct cli *cli, struct option_value *v)
{
	if (v->spec->type == OPTION_NUMBER)
		return parse_number(cli, v);
	if (v->spec->type == OPTION_SHARE)
		return parse_share(cli, v);
	if (v->spec->type != OPTION_FLAG && !*v->text)
		return cli_fail(cli, EXIT_USAGE, "--%s is empty", v->spec->name);
	return 0;
}

static const struct {
	const char *arg, *name;
} letters[] = {{"-h", "--help"}, {"-q", "--quiet"}, {"-n", "--ranks"}};

/* The option at argv[*at] and its value; *at moves past both. */
static int parse_option(struct cli *cli, int argc, char **argv, int *at)
{
	const char *arg = argv[(*at)++];
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (!strcmp(arg, letters[i].arg))
			arg = letters[i].name;
	}
	size_t len = strcspn(arg + 2, "=");
	const struct option_spec *spec = arg[1] == '-' ? option_find(cli->command, arg + 2, len) : NULL;
	if (!spec)
		return unknown_option(cli, arg);
	struct option_value *v = &cli->values[cli->nvalues++];
	*v = (struct option_value){.spec = spec};
	bool inlined = arg[2 + len] == '=';
	if (spec->type == OPTION_FLAG) {
		if (inlined)
			return cli_fail(cli, EXIT_USAGE, "--%s takes no value", spec->name);
		return 0;
	}
	if (!inlined && *at >= argc)
		return cli_fail(cli, EXIT_USAGE, "--%s wants a value: %s", spec->name, spec->value);
	v->text = inlined ? arg + 2 + len + 1 : argv[(*at)++];
	return parse_value(cli, v);
}

static bool is_option(const char *arg)
{
	return arg[0] == '-' && arg[1];
}

/* Everything before the command, which is the first word that is no option. */
static int parse_head(struct cli *cli, int argc, char **argv, int *at)
{
	while (*at < argc && is_option(argv[*at])) {
		if (!strcmp(argv[*at], "--version")) {
			cli->command = command_find("version");
			(*at)++;
			return 0;
		}
		int rc = parse_option(cli, argc, argv, at);
		if (rc)
			return rc;
	}
	if (*at == argc)
		return 0;
	cli->command = command_find(argv[*at]);
	if (!cli->command)
		return unknown_command(cli, argv[*at]);
	(*at)++;
	return 0;
}

static int parse_tail(struct cli *cli, int argc, char **argv, int at)
{
	bool only_args = false;
	while (at < argc) {
		if (!only_args && !strcmp(argv[at], "--")) {
			only_args = true;
			at++;
		} else if (!only_args && is_option(argv[at])) {
			int rc = parse_option(cli, argc, argv, &at);
			if (rc)
				return rc;
		} else {
			cli->args[cli->nargs++] = argv[at++];
			only_args |= cli->command->rest;
		}
	}
	return 0;
}

static int check_args(const struct cli *cli)
{
	const struct command *c = cli->command;
	if (cli->nargs < c->min_args)
		return cli_fail(cli, EXIT_USAGE, "%s is missing: see ckpt help %s", c->args, c->name);
	if (c->max_args >= 0 && cli->nargs > c->max_args)
		return cli_fail(cli, EXIT_USAGE, "\"%s\" is one argument too many: see ckpt help %s",
				cli->args[c->max_args], c->name);
	for (int i = 0; i < cli->nvalues; i++) {
		/* --repo before a command that reads none was parsed without knowing the command. */
		if (!option_find(c, cli->values[i].spec->name, strlen(cli->values[i].spec->name)))
			return cli_fail(cli, EXIT_USAGE, "--%s means nothing here", cli->values[i].spec->name);
	}
	return 0;
}

/* ---- reading options */

static const struct option_value *value_of(const struct cli *cli, const char *name)
{
	assert(option_find(cli->command, name, strlen(name)));
	for (int i = cli->nvalues; i-- > 0;) {
		if (!strcmp(cli->values[i].spec->name, name))
			return &cli->values[i];
	}
	return NULL;
}

bool cli_flag(const struct cli *cli, const char *name)
{
	return value_of(cli, name) != NULL;
}

const char *cli_text(const struct cli *cli, const char *name)
{
	const struct option_value *v = value_of(cli, name);
	return v ? v->text : NULL;
}

const char *cli_repeat(const struct cli *cli, const char *name, int n)
{
	if (!value_of(cli, name))
		return NULL;
	for (int i = 0; i < cli->nvalues; i++) {
		if (!strcmp(cli->values[i].spec->name, name) && n-- == 0)
			return cli->values[i].text;
	}
	return NULL;
}

uint64_t cli_number(const struct cli *cli, const char *name, uint64_t absent)
{
	const struct option_value *v = value_of(cli, name);
	return v ? v->number : absent;
}

double cli_share(const struct cli *cli, const char *name, double absent)
{
	const struct option_value *v = value_of(cli, name);
	return v ? v->share : absent;
}

/* ---- main */

/* Whether a global flag was given, known or not yet known to which command. */
static bool given(const struct cli *cli, const char *name)
{
	for (int i = 0; i < cli->nvalues; i++) {
		if (!strcmp(cli->values[i].spec->name, name))
			return true;
	}
	return false;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
	int at = 1;
	int rc = parse_head(cli, argc, argv, &at);
	if (rc)
		return rc;
	if (!cli->command) {
		if (given(cli, "help")) {
			help_print(NULL);
			return EXIT_OK;
		}
		return cli_fail(cli, EXIT_USAGE, "which command? See ckpt help");
	}
	rc = parse_tail(cli, argc, argv, at);
	if (rc)
		return rc;
	if (given(cli, "help")) {
		help_print(cli->command);
		return EXIT_OK;
	}
	rc = check_args(cli);
	if (rc)
		return rc;
	cli->json = cli_flag(cli, "json");
	cli->quiet = cli_flag(cli, "quiet");
	rc = cli->command->run(cli);
	cli_repo_close(cli);
	return rc;
}

int cli_main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN); /* a closed stdout is seen by out_finish */
	signal(SIGXFSZ, SIG_IGN); /* a file beyond RLIMIT_FSIZE is seen by who writes it (-EFBIG) */
	json_prepare();
	AUTO_FREE struct option_value *values = calloc((size_t)argc + 1, sizeof(*values));
	AUTO_FREE char **args = calloc((size_t)argc + 1, sizeof(*args));
	struct cli cli = {.values = values, .args = args};
	if (!values || !args)
		return cli_fail(&cli, EXIT_FAILED, "out of memory");
	int rc = dispatch(&cli, argc, argv);
	return out_finish(&cli, rc);
}
