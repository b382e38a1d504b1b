#include "remote/host.h"

#include "frame/output.h"

#include <string.h>

static const struct {
	const char *name;
	int least; /* arguments behind it */
	int (*run)(struct cli *cli);
} parts[] = {{"run", 4, host_run},
	     {"bridge", 1, host_bridge},
	     {"serve", 2, host_serve},
	     {"check", 4, host_check},
	     {"left", 3, host_left}};

static int run(struct cli *cli)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(parts[i].name, cli->args[0]))
			return cli->nargs - 1 < parts[i].least
				       ? cli_fail(cli, EXIT_USAGE, "host %s: an argument is missing", parts[i].name)
				       : parts[i].run(cli);
	return cli_fail(cli, EXIT_USAGE, "host %s: run, bridge, serve, check or left", cli->args[0]);
}

const struct command command_host = {
	.name = "host",
	.summary = "what ckpt campaign --nodes runs on a host",
	.detail = "For ckpt campaign, not for people. PART is run, bridge, serve, check or left.",
	.args = "PART ARG...",
	.min_args = 1,
	.max_args = -1,
	.rest = true,
	.no_repo = true,
	.run = run,
};
