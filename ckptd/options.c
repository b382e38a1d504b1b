#include "options.h"

#include "base/bytes.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifdef CKPT_FAILPOINTS
#include "base/failpoint.h"
#endif

static const char help[] =
	"Usage: ckptd [--store DIR] [--socket PATH] [options]\n"
	"The checkpoint daemon of a node: keeps snapshots of the local ranks in memory and writes them to the store.\n"
	"\n"
	"  --store DIR          repository of checkpoints, made when missing (else CKPT_STORE; without one: memory "
	"only)\n"
	"  --socket PATH        control socket (else CKPT_SOCKET, $XDG_RUNTIME_DIR/ckptd.sock, /run/ckptd.sock)\n"
	"  --node NAME          name of this node in manifests (default: the host name)\n"
	"  --memory-limit SIZE  ceiling for all arenas, with K, M, G or T (default: 80% of the memory)\n"
	"  --huge-pages WHICH   of the arenas: auto (the kernel's pool, else transparent), transparent, never\n"
	"                       (default auto)\n"
	"  --save-timeout MS    until a begun step must be captured on every rank (default 120000)\n"
	"  --join-timeout MS    how long ranks wait for each other when they do not say (default 120000)\n"
	"  --stall-timeout MS   a commit without progress fails after this (default 600000)\n"
	"  --hang-timeout MS    a rank without heartbeat is reported after this; 0: never (default 60000)\n"
	"  --linger MS          how long the arenas of a job without processes are kept (default 600000)\n"
	"  --no-verify          do not read checkpoints back after the commit\n"
	"  --version, --help\n"
	"\n"
	"CKPT_LOG=error|warn|info|debug sets how much is logged on stderr.\n";

enum {
	OPT_STORE = 256,
	OPT_SOCKET,
	OPT_NODE,
	OPT_MEMORY,
	OPT_HUGE,
	OPT_SAVE,
	OPT_JOIN,
	OPT_STALL,
	OPT_HANG,
	OPT_LINGER,
	OPT_NO_VERIFY,
	OPT_VERSION,
	OPT_HELP,
	OPT_FAILPOINTS
};

static const struct option options[] = {
	{"store", required_argument, NULL, OPT_STORE},
	{"socket", required_argument, NULL, OPT_SOCKET},
	{"node", required_argument, NULL, OPT_NODE},
	{"memory-limit", required_argument, NULL, OPT_MEMORY},
	{"huge-pages", required_argument, NULL, OPT_HUGE},
	{"save-timeout", required_argument, NULL, OPT_SAVE},
	{"join-timeout", required_argument, NULL, OPT_JOIN},
	{"stall-timeout", required_argument, NULL, OPT_STALL},
	{"hang-timeout", required_argument, NULL, OPT_HANG},
	{"linger", required_argument, NULL, OPT_LINGER},
	{"no-verify", no_argument, NULL, OPT_NO_VERIFY},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, OPT_HELP},
#ifdef CKPT_FAILPOINTS
	{"list-failpoints", no_argument, NULL, OPT_FAILPOINTS},
#endif
	{NULL, 0, NULL, 0},
};

void config_defaults(struct config *config)
{
	struct sysinfo info;
	*config = (struct config){.save_timeout_ms = 120000,
				  .join_timeout_ms = 120000,
				  .stall_timeout_ms = 600000,
				  .hang_timeout_ms = 60000,
				  .linger_ms = 600000,
				  .verify = true};
	config->memory_limit = sysinfo(&info) ? 1ull << 30 : (uint64_t)info.totalram * info.mem_unit / 10 * 8;
	if (gethostname(config->node, sizeof(config->node) - 1) < 0 ||
	    name_check("node", config->node, NAME_NODE_MAX, NULL))
		snprintf(config->node, sizeof(config->node), "node");
}

static int parse_ms(const char *option, const char *text, unsigned *out, struct err *err)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || v > 1000000000ul)
		return err_set(err, -EINVAL, "--%s %s: expected milliseconds, 0 to 1000000000", option, text);
	*out = (unsigned)v;
	return 0;
}

static int parse_size(const char *text, uint64_t *out, struct err *err)
{
	static const char suffixes[] = "KMGT";
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	const char *suffix = end != text && *end ? strchr(suffixes, *end) : NULL;
	unsigned shift = suffix ? 10u * (unsigned)(suffix - suffixes + 1) : 0;
	if (errno || end == text || *text == '-' || (*end && (!suffix || end[1])) || !v || v > UINT64_MAX >> shift)
		return err_set(err, -EINVAL, "--memory-limit %s: expected a size such as 8G or 512M", text);
	*out = v << shift;
	return 0;
}

static int parse_huge(const char *text, enum huge_pages *out, struct err *err)
{
	static const char *const names[] = {
		[HUGE_PAGES_AUTO] = "auto", [HUGE_PAGES_TRANSPARENT] = "transparent", [HUGE_PAGES_NEVER] = "never"};
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			*out = (enum huge_pages)i;
			return 0;
		}
	}
	return err_set(err, -EINVAL, "--huge-pages %s: expected auto, transparent or never", text);
}

static int take(int option, const char *name, const char *value, struct config *c, struct err *err)
{
	switch (option) {
	case OPT_STORE:
		c->store = value;
		return 0;
	case OPT_SOCKET:
		c->socket = value;
		return 0;
	case OPT_NODE:
		snprintf(c->node, sizeof(c->node), "%s", value);
		return name_check("node", value, NAME_NODE_MAX, err);
	case OPT_MEMORY:
		return parse_size(value, &c->memory_limit, err);
	case OPT_HUGE:
		return parse_huge(value, &c->huge_pages, err);
	case OPT_SAVE:
		return parse_ms(name, value, &c->save_timeout_ms, err);
	case OPT_JOIN:
		return parse_ms(name, value, &c->join_timeout_ms, err);
	case OPT_STALL:
		return parse_ms(name, value, &c->stall_timeout_ms, err);
	case OPT_HANG:
		return parse_ms(name, value, &c->hang_timeout_ms, err);
	case OPT_LINGER:
		return parse_ms(name, value, &c->linger_ms, err);
	case OPT_NO_VERIFY:
		c->verify = false;
		return 0;
	case OPT_VERSION:
		printf("ckptd %s\n", CKPT_VERSION);
		return 1;
	case OPT_HELP:
		fputs(help, stdout);
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

static const char *default_socket(void)
{
	static char path[4096];
	const char *value = getenv("CKPT_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
	if (value && *value)
		return value;
	if (!dir || !*dir)
		return "/run/ckptd.sock";
	snprintf(path, sizeof(path), "%s/ckptd.sock", dir);
	return path;
}

int options_parse(int argc, char **argv, struct config *config, struct err *err)
{
	config_defaults(config);
	const char *store = getenv("CKPT_STORE");
	config->store = store && *store ? store : NULL;
	int index = 0, rc = 0;
	for (int c; !rc && (c = getopt_long(argc, argv, "h", options, &index)) >= 0;)
		rc = take(c == 'h' ? OPT_HELP : c, options[index].name, optarg, config, err);
	if (!rc && optind < argc)
		rc = err_set(err, -EINVAL, "unexpected argument '%s' (see ckptd --help)", argv[optind]);
	if (!rc && !config->socket)
		config->socket = default_socket();
	return rc;
}
