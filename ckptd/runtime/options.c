#include "runtime/options.h"

#include "config/file.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#ifdef CKPT_FAILPOINTS
#include "base/failpoint.h"
#endif

enum { SETTINGS_MAX = 64, HELP_COLUMN = 32 };
/* Beyond them: the index of a setting, twice, the second for --no-FLAG. */
enum {
	OPT_CONFIG = 256,
	OPT_VERSION,
	OPT_HELP,
	OPT_FAILPOINTS,
	OPT_SETTING = 512,
	OPT_NO = OPT_SETTING + SETTINGS_MAX
};

struct option_table {
	struct option options[2 * SETTINGS_MAX + 8];
	char no[SETTINGS_MAX][48]; /* "no-verify" */
	int n;
};

static void add_option(struct option_table *t, const char *name, int argument, int code)
{
	t->options[t->n++] = (struct option){name, argument, NULL, code};
}

static void build_table(struct option_table *t)
{
	memset(t, 0, sizeof(*t));
	for (int i = 0; settings[i].key && i < SETTINGS_MAX; i++) {
		bool yes_no = settings[i].type == SETTING_BOOL;
		add_option(t, settings[i].flag, yes_no ? no_argument : required_argument, OPT_SETTING + i);
		if (!yes_no)
			continue;
		snprintf(t->no[i], sizeof(t->no[i]), "no-%s", settings[i].flag);
		add_option(t, t->no[i], no_argument, OPT_NO + i);
	}
	add_option(t, "config", required_argument, OPT_CONFIG);
	add_option(t, "version", no_argument, OPT_VERSION);
	add_option(t, "help", no_argument, OPT_HELP);
#ifdef CKPT_FAILPOINTS
	add_option(t, "list-failpoints", no_argument, OPT_FAILPOINTS);
#endif
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void print_option(const char *left, const char *help)
{
	printf("  %-*s  %s", HELP_COLUMN - 4, left, help);
}

static void print_setting(const struct setting *s)
{
	char left[96];
	if (s->type == SETTING_BOOL)
		snprintf(left, sizeof(left), "--%s, --no-%s", s->flag, s->flag);
	else
		snprintf(left, sizeof(left), "--%s %s", s->flag, s->value);
	print_option(left, s->help);
	printf(" (%s)\n", s->fallback ? s->fallback : s->fallback_text);
}

static void print_help(void)
{
	puts("Usage: ckptd [--store DIR] [--socket PATH] [options]\n"
	     "The checkpoint daemon of a node: keeps snapshots of the local ranks in memory and writes them to the "
	     "store.\n"
	     "\n"
	     "An option wins over the environment, and the environment over the configuration file. Defaults stand in "
	     "brackets.");
	static const char *const titles[] = {[SCOPE_NODE] = "The node:",
					     [SCOPE_JOB] = "Every job:",
					     [SCOPE_USER] = "Every user of a system service:"};
	for (enum setting_scope scope = SCOPE_NODE; scope <= SCOPE_USER; scope++) {
		printf("\n%s\n", titles[scope]);
		for (const struct setting *s = settings; s->key; s++)
			if (s->scope == scope)
				print_setting(s);
	}
	puts("");
	print_option("--config FILE", "read this file (else CKPT_CONFIG, else " CONFIG_SYSTEM " and\n");
	print_option("", "$XDG_CONFIG_HOME/ckpt/ckpt.conf, as far as they are there)\n");
	puts("  --version, --help\n"
	     "\n"
	     "SIZE takes K, M, G, T; TIME takes ms, s, m, h, d. CKPT_LOG=error|warn|info|debug sets how much is logged "
	     "on "
	     "stderr.");
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static int take_setting(struct sources *sources, int code, const char *value, struct err *err)
{
	char flag[56];
	bool no = code >= OPT_NO;
	const struct setting *setting = &settings[code - (no ? OPT_NO : OPT_SETTING)];
	snprintf(flag, sizeof(flag), "--%s%s", no ? "no-" : "", setting->flag);
	return sources_add(sources, setting, &(struct place){.origin = ORIGIN_FLAG, .name = flag},
			   setting->type == SETTING_BOOL ? no ? "no" : "yes" : value, err);
}

static int take(int code, const char *value, struct sources *sources, const char **config, struct err *err)
{
	if (code >= OPT_SETTING)
		return take_setting(sources, code, value, err);
	switch (code) {
	case OPT_CONFIG:
		*config = value;
		return 0;
	case OPT_VERSION:
		printf("ckptd %s\n", CKPT_VERSION);
		return 1;
	case 'h':
	case OPT_HELP:
		print_help();
		return 1;
#ifdef CKPT_FAILPOINTS
	case OPT_FAILPOINTS:
		for (const char *const *point = failpoint_names(); *point; point++)
			puts(*point);
		return 1;
#endif
	default:
		return err_set(err, -EINVAL, "unknown option or missing value (see ckptd --help)");
	}
}

int options_parse(int argc, char **argv, struct sources **out, struct err *err)
{
	struct option_table table;
	struct sources *sources = NULL;
	const char *config = NULL;
	build_table(&table);
	int rc = sources_new(&sources, err);
	optind = 1;
	for (int c; !rc && (c = getopt_long(argc, argv, "h", table.options, NULL)) >= 0;)
		rc = take(c, optarg, sources, &config, err);
	if (!rc && optind < argc)
		rc = err_set(err, -EINVAL, "unexpected argument '%s' (see ckptd --help)", argv[optind]);
	if (!rc)
		rc = sources_environment(sources, err);
	if (!rc)
		rc = file_read_all(sources, config, err);
	if (rc)
		sources_free(sources);
	else
		*out = sources;
	return rc;
}
