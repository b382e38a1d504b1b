/* A job on several nodes: which of them this one is, and where the others reach its ranks. */
#include "launcher/launch.h"

#include "frame/output.h"
#include "starter/starter.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* What the user says, else what Slurm has told this task. */
static int read_number(const struct cli *cli, const char *option, const char *variable, uint32_t *out)
{
	const char *text = cli_text(cli, option);
	bool said = text && strcmp(text, "slurm") != 0;
	if (!said)
		text = getenv(variable);
	uint64_t number;
	if (text && number_parse(text, RANK_MAX, &number)) {
		*out = (uint32_t)number;
		return EXIT_OK;
	}
	if (said)
		return cli_fail(cli, EXIT_USAGE, "--%s %s: a number, or slurm", option, text);
	return cli_fail(cli, EXIT_USAGE, "--%s is wanted: %s, which Slurm sets, %s", option, variable,
			text ? "is no number" : "is not there");
}

static int only_for(const struct cli *cli, const char *option, const char *what)
{
	return cli_flag(cli, option) ? cli_fail(cli, EXIT_USAGE, "--%s is for %s", option, what) : EXIT_OK;
}

static int read_nodes(const struct cli *cli, struct launch_options *o)
{
	const char *text = cli_text(cli, "nodes");
	bool hosts = starter_names_hosts(text);
	int code = text ? EXIT_OK : only_for(cli, "node-rank", "--nodes");
	if (!code && !hosts)
		code = only_for(cli, "spares", "--nodes with the names of hosts");
	if (!code && !hosts)
		code = only_for(cli, "remote-shell", "--nodes with the names of hosts");
	if (code || !text)
		return code;
	if (hosts)
		return starter_count_hosts(cli, &o->nodes);
	code = read_number(cli, "nodes", "SLURM_NNODES", &o->nodes);
	if (!code && !cli_number(cli, "min-ranks", 0) && !o->spare) /* else a plan tells */
		code = read_number(cli, "node-rank", "SLURM_NODEID", &o->node);
	return code;
}

int nodes_read(const struct cli *cli, uint32_t processes, struct launch_options *o)
{
	o->nodes = 1;
	o->node = 0;
	int code = read_nodes(cli, o);
	if (code)
		return code;
	if (!o->nodes || o->node >= o->nodes)
		return cli_fail(cli, EXIT_USAGE, "--node-rank %u of --nodes %u: they are counted from 0", o->node,
				o->nodes);
	if ((uint64_t)o->nodes * processes > RANK_MAX)
		return cli_fail(cli, EXIT_USAGE, "--nodes %u with %u ranks each: at most %d ranks", o->nodes, processes,
				RANK_MAX);
	return EXIT_OK;
}

/* The literal address of a host; false: it is not known. */
static bool look_up(const char *host, char *dst, size_t size)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	if (getaddrinfo(host, NULL, &hints, &found))
		return false;
	int rc = getnameinfo(found->ai_addr, found->ai_addrlen, dst, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(found);
	return !rc;
}

void nodes_welcomed(struct launch *launch)
{
	const struct launch_options *o = &launch->options;
	const char *host = launch->link.welcome.host;
	if (o->nodes == 1 || launch->address[0])
		return;
	if (!*host)
		launch_give_up(launch, EXIT_FAILED,
			       "the daemon at %s is in no cluster: set cluster and cluster-key in its section [node]",
			       launch->keeper.socket);
	else if (!look_up(o->address ? o->address : host, launch->address, sizeof(launch->address)))
		launch_give_up(launch, EXIT_FAILED, "the address of this node, %s, is not known here: --address",
			       o->address ? o->address : host);
}
