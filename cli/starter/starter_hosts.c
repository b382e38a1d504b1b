#include "frame/output.h"
#include "starter/starter.h"

#include <stdlib.h>
#include <string.h>

bool starter_names_hosts(const char *nodes)
{
	return nodes && strcmp(nodes, "slurm") != 0 && strspn(nodes, "0123456789") != strlen(nodes);
}

int starter_count_hosts(const struct cli *cli, uint32_t *nodes)
{
	const char *text = cli_text(cli, "nodes");
	*nodes = 1;
	for (; *text; text++)
		*nodes += *text == ',';
	return *nodes > 1 ? EXIT_OK
			  : cli_fail(cli, EXIT_USAGE, "--nodes %s: a number, slurm, or two hosts or more: HOST,HOST,…",
				     cli_text(cli, "nodes"));
}

/* ---- hosts ----------------------------------------------------------------------------------------------------- */

static int check_host(const struct starter *s, const char *option, const char *host)
{
	if (!*host)
		return cli_fail(s->cli, EXIT_USAGE, "--%s: a name is missing between two commas", option);
	if (!shell_is_host(host))
		return cli_fail(s->cli, EXIT_USAGE,
				"--%s: \"%s\" is no host: names separated by commas, as HOST or USER@HOST", option,
				host);
	for (uint32_t i = 0; i < s->nnodes; i++)
		if (!strcmp(s->nodes[i].host, host))
			return cli_fail(s->cli, EXIT_USAGE, "--%s: %s is named twice", option, host);
	return EXIT_OK;
}

static int add_hosts(struct starter *s, const char *option, char *text, bool spare)
{
	for (char *host; (host = strsep(&text, ","));) {
		int code = check_host(s, option, host);
		if (code)
			return code;
		if (s->nnodes == STARTER_NODES_MAX)
			return cli_fail(s->cli, EXIT_USAGE, "--%s: more than %d nodes", option, STARTER_NODES_MAX);
		s->nodes[s->nnodes++] = (struct starter_node){
			.host = host, .spare = spare, .control = -1, .proc.pidfd = -1, .out.fd = -1, .err.fd = -1};
		s->nspares += spare;
	}
	return EXIT_OK;
}

static int read_hosts(struct starter *s)
{
	const char *nodes = cli_text(s->cli, "nodes"), *spares = cli_text(s->cli, "spares");
	size_t room = strlen(nodes) + 1, more = spares ? strlen(spares) + 1 : 0;
	s->names = malloc(room + more);
	s->nodes = calloc(STARTER_NODES_MAX, sizeof(*s->nodes));
	if (!s->names || !s->nodes)
		return cli_fail(s->cli, EXIT_FAILED, "out of memory");
	memcpy(s->names, nodes, room);
	int code = add_hosts(s, "nodes", s->names, false);
	if (code || !spares)
		return code;
	memcpy(s->names + room, spares, more);
	return add_hosts(s, "spares", s->names + room, true);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

/* What each node has for itself. */
static int refuse(const struct starter *s)
{
	static const struct {
		const char *option, *why;
	} of_a_node[] = {
		{"node-rank", "hosts are numbered as they are named"},
		{"spare", "--spares HOST,… names those that wait"},
		{"address", "each node is reached as the roster of its daemon says"},
		{"store", "the daemon of each node has its store"},
		{"daemon", "each node has its daemon"},
		{"attended", "it is for the launchers on the nodes"},
	};
	for (size_t i = 0; i < sizeof(of_a_node) / sizeof(of_a_node[0]); i++)
		if (cli_flag(s->cli, of_a_node[i].option))
			return cli_fail(s->cli, EXIT_USAGE, "--%s does not go with the names of --nodes: %s",
					of_a_node[i].option, of_a_node[i].why);
	return s->cli->json ? cli_fail(s->cli, EXIT_USAGE,
				       "--json does not go with the names of --nodes: --report FILE "
				       "has a file written on each")
			    : EXIT_OK;
}

int hosts_read(struct starter *s)
{
	int code = refuse(s);
	if (!code)
		code = read_hosts(s);
	if (code)
		return code;
	uint64_t all = (uint64_t)(s->nnodes - s->nspares) * s->processes;
	s->least = cli_number(s->cli, "min-ranks", all);
	s->elastic = s->nspares || cli_number(s->cli, "min-ranks", 0);
	return shell_read(s->cli, &s->shell);
}
