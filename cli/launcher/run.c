#include "frame/amount.h"
#include "frame/output.h"
#include "frame/replace_file.h"
#include "launcher/launch.h"
#include "starter/starter.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "config/file.h"
#include "config/sources.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESTARTS_DEFAULT = 10, GRACE_DEFAULT_S = 60, SECONDS_MAX = 1000000 };

/* ---- options --------------------------------------------------------------------------------------------------- */

static int seconds_of(const struct cli *cli, const char *name, uint64_t absent, uint64_t *ns)
{
	uint64_t s;
	int code = amount_time(cli, name, AMOUNT_S, absent, 0, SECONDS_MAX, &s);
	*ns = s * CLOCK_NS_PER_S;
	return code;
}

static int read_budget(const struct cli *cli, struct budget *budget)
{
	uint64_t max = cli_number(cli, "max-restarts", RESTARTS_DEFAULT);
	if (max > BUDGET_MAX)
		return cli_fail(cli, EXIT_USAGE, "--max-restarts %llu: at most %d", (unsigned long long)max,
				BUDGET_MAX);
	budget->max = (unsigned)max;
	return seconds_of(cli, "restart-window", 0, &budget->window_ns);
}

static int read_job(const struct cli *cli, const char **job)
{
	struct err err = {""};
	const char *variable = getenv("CKPT_JOB");
	*job = cli_text(cli, "job");
	if (!*job)
		*job = variable && *variable ? variable : "default";
	return name_check("job", *job, NAME_JOB_MAX, &err) ? cli_fail(cli, EXIT_USAGE, "%s", err.text) : EXIT_OK;
}

static int read_least(const struct cli *cli, uint64_t least, struct launch_options *o)
{
	uint32_t want = o->nodes * o->processes;
	if (o->spare && o->nodes == 1)
		return cli_fail(cli, EXIT_USAGE, "--spare is for --nodes");
	if (least > want)
		return cli_fail(cli, EXIT_USAGE, "--min-ranks %llu: at most all of them, %u", (unsigned long long)least,
				want);
	o->least = least || !o->spare ? (uint32_t)least : want;
	return EXIT_OK;
}

static int read_options(const struct cli *cli, struct launch_options *o, struct budget *budget)
{
	uint64_t ranks = cli_number(cli, "ranks", 1), least = cli_number(cli, "min-ranks", 0);
	if (!ranks || ranks > WIRE_LOCAL_MAX)
		return cli_fail(cli, EXIT_USAGE, "--ranks %llu: 1 to %d", (unsigned long long)ranks, WIRE_LOCAL_MAX);
	*o = (struct launch_options){.argv = cli->args, /* calloc'ed with room for the NULL */
				     .processes = (uint32_t)ranks,
				     .address = cli_text(cli, "address"),
				     .spare = cli_flag(cli, "spare"),
				     .prefix = !cli_flag(cli, "no-prefix"),
				     .attended = cli_flag(cli, "attended"),
				     .quiet = cli->quiet,
				     .json = cli->json};
	int code = read_job(cli, &o->job);
	if (!code)
		code = nodes_read(cli, (uint32_t)ranks, o);
	if (!code)
		code = read_least(cli, least, o);
	if (!code)
		code = seconds_of(cli, "grace", GRACE_DEFAULT_S, &o->grace_ns);
	if (!code)
		code = seconds_of(cli, "hang-timeout", 0, &o->hang_ns);
	return code ? code : read_budget(cli, budget);
}

static int read_faults(const struct cli *cli, struct launch *launch, uint32_t world)
{
	struct err err = {""};
	const char *spec;
	uint64_t seed = cli_number(cli, "seed", 0);
	for (int i = 0; (spec = cli_repeat(cli, "inject", i)); i++) {
		if (inject_parse(spec, world, seed, launch->faults, &launch->nfaults, &err))
			return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	}
	return EXIT_OK;
}

/* ---- which daemon ---------------------------------------------------------------------------------------------- */

static bool named(const char *text)
{
	return text && *text;
}

/* That of the configuration files, "" if there is none. What is wrong with them the daemon says when it starts. */
static const char *configured_store(void)
{
	static char store[PATH_MAX];
	struct err err = {""};
	struct config config;
	struct sources *sources = NULL;
	if (!sources_new(&sources, &err) && !file_read_all(sources, NULL, &err)) {
		sources_fill(sources, SCOPE_NODE, NULL, &config);
		snprintf(store, sizeof(store), "%s", config.store ? config.store : "");
	}
	sources_free(sources);
	return store;
}

static const char *store_of(const struct cli *cli)
{
	const char *store = cli_text(cli, "store");
	if (!store)
		store = getenv("CKPT_STORE");
	if (!named(store))
		store = getenv("CKPT_REPO");
	if (!named(store))
		store = configured_store();
	return named(store) ? store : NULL;
}

static bool answers(const char *socket, struct err *err)
{
	AUTO_CLOSE int sock = channel_connect(socket, clock_deadline(2 * CLOCK_NS_PER_S), err);
	return sock >= 0;
}

static int use_external(const struct cli *cli, struct keeper *keeper)
{
	struct err err = {""};
	if (cli_text(cli, "store"))
		return cli_fail(cli, EXIT_USAGE,
				"--store is for a daemon of one's own: that of --daemon external has its store");
	if (contact_path(cli_text(cli, "socket"), keeper->socket, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	return answers(keeper->socket, &err) ? EXIT_OK : cli_fail(cli, EXIT_NO_DAEMON, "%s", err.text);
}

/* Before anything is made that would have to be removed again. */
static int check_store(const struct cli *cli)
{
	if (store_of(cli) || !cli_number(cli, "min-ranks", 0))
		return EXIT_OK;
	return cli_fail(cli, EXIT_USAGE,
			"--min-ranks needs a --store: another number of ranks cuts the state anew, from there");
}

static int use_own(const struct cli *cli, struct keeper *keeper)
{
	const char *store = store_of(cli);
	if (!store)
		cli_note(cli, "ckpt run: no store: checkpoints are kept in memory only, and end with the run; name one "
			      "with --store, CKPT_STORE or the configuration file");
	keeper_own(keeper, store);
	return EXIT_OK;
}

/* A socket's name may have outlived the run that it was of. ckptd would only say that it cannot listen there. */
static int check_folder(const struct cli *cli, const char *socket, bool option)
{
	char folder[CONTACT_PATH_MAX];
	snprintf(folder, sizeof(folder), "%s", socket);
	char *slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return EXIT_OK;
	*slash = 0;
	if (!access(folder, X_OK))
		return EXIT_OK;
	return cli_fail(cli, EXIT_NO_DAEMON, "%s names the socket %s, and its folder cannot be used: %s: %s",
			option ? "--socket" : "CKPT_SOCKET", socket, err_name(errno),
			option ? "name another one, or leave out --socket"
			       : "unset CKPT_SOCKET, if it is of a run that has ended, or name another one");
}

/* Where a socket was named and a daemon answers, that one; else one of our own. */
static int choose_daemon(const struct cli *cli, struct keeper *keeper)
{
	struct err err = {""};
	const char *how = cli_text(cli, "daemon"), *socket = cli_text(cli, "socket");
	if (how && !strcmp(how, "external"))
		return use_external(cli, keeper);
	if (how && strcmp(how, "auto"))
		return cli_fail(cli, EXIT_USAGE, "--daemon %s: auto or external", how);
	if (!socket)
		socket = getenv("CKPT_SOCKET");
	if (!named(socket)) {
		int code = check_store(cli);
		if (code)
			return code;
		if (keeper_private_socket(keeper, &err))
			return cli_fail(cli, EXIT_FAILED, "%s", err.text);
		return use_own(cli, keeper);
	}
	if (contact_path(socket, keeper->socket, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	if (!answers(keeper->socket, &err)) {
		int code = check_store(cli);
		if (!code)
			code = check_folder(cli, keeper->socket, cli_text(cli, "socket"));
		return code ? code : use_own(cli, keeper);
	}
	if (cli_text(cli, "store"))
		return cli_fail(cli, EXIT_USAGE,
				"a daemon answers at %s already, with a store of its own: leave out --store",
				keeper->socket);
	return EXIT_OK;
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int write_report(const struct cli *cli, const char *path, const json_t *report)
{
	FILE *f = fopen(path, "we");
	int failed = !f || json_dumpf(report, f, JSON_COMPACT) || fputc('\n', f) == EOF;
	if (f && fclose(f))
		failed = 1;
	return failed ? cli_fail(cli, EXIT_FAILED, "the report %s: %s", path, err_name(errno)) : EXIT_OK;
}

/* Before the job is started, not after it has trained for days. */
static int check_report(const struct cli *cli)
{
	const char *path = cli_text(cli, "report");
	struct err err = {""};
	return path && file_can_be_written(path, &err) ? cli_fail(cli, EXIT_FAILED, "--report %s", err.text) : EXIT_OK;
}

static int tell(const struct cli *cli, const struct launch *launch, int code)
{
	const char *path = cli_text(cli, "report");
	json_t *report = report_json(launch, cli, code);
	int written = path ? write_report(cli, path, report) : EXIT_OK;
	if (cli->json)
		json_emit(report);
	else
		json_decref(report);
	if (!cli->json && !cli->quiet)
		report_print(launch);
	return code ? code : written;
}

static int launch_with(struct cli *cli, struct launch *launch)
{
	struct launch_options options;
	struct err err = {""};
	int code = read_options(cli, &options, &launch->budget);
	if (!code)
		code = read_faults(cli, launch, options.nodes * options.processes);
	if (!code && launch_take_signals(&launch->signals, &err))
		code = cli_fail(cli, EXIT_FAILED, "%s", err.text);
	if (!code && starter_names_hosts(cli_text(cli, "nodes")))
		return starter_main(cli, options.job, options.processes, options.grace_ns, launch->signals);
	if (!code)
		code = check_report(cli);
	if (!code)
		code = options.nodes > 1 ? use_external(cli, &launch->keeper) : choose_daemon(cli, &launch->keeper);
	if (code)
		return code;
	for (size_t i = 0; i < launch->nfaults && !launch->keeper.owned; i++) {
		if (launch->faults[i].kind == FAULT_KILL_DAEMON)
			return cli_fail(cli, EXIT_USAGE, "--inject %s: the daemon at %s is not ours to kill",
					launch->faults[i].text, launch->keeper.socket);
	}
	if (launch_init(launch, &options, &err)) {
		code = cli_fail(cli, EXIT_FAILED, "%s", err.text);
		keeper_stop(&launch->keeper, 0);
	} else {
		code = tell(cli, launch, launch_run(launch));
	}
	launch_free(launch);
	return code;
}

static int run(struct cli *cli)
{
	AUTO_FREE struct launch *launch = calloc(1, sizeof(*launch));
	AUTO_FREE struct fault *faults = calloc(FAULTS_MAX, sizeof(*faults));
	if (!launch || !faults)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	launch->faults = faults;
	launch->signals = -1;
	int code = launch_with(cli, launch);
	cleanup_close(&launch->signals);
	return code;
}

static const struct option_spec options[] = {
	{"ranks", OPTION_NUMBER, "N", "how many ranks to start, 1 to 64 (also -n; default 1)"},
	{"nodes", OPTION_TEXT, "N|HOSTS",
	 "N: the job is on N nodes; run this command on each (slurm: N of Slurm). HOST,HOST,...: start it there from "
	 "here"},
	{"node-rank", OPTION_TEXT, "K", "which of the N nodes this one is, from 0 (else SLURM_NODEID)"},
	{"address", OPTION_TEXT, "HOST", "where other nodes reach the ranks of this one (else as its daemon says)"},
	{"min-ranks", OPTION_NUMBER, "M",
	 "go on with fewer ranks, at least M, when a rank or a node is not replaced (default: all are needed)"},
	{"spare", OPTION_FLAG, NULL, "this node waits until another one is lost (with --nodes)"},
	{"spares", OPTION_TEXT, "HOSTS", "nodes that wait until another one is lost (with --nodes HOSTS)"},
	{"remote-shell", OPTION_TEXT, "COMMAND",
	 "how a command is run on another node (else CKPT_REMOTE_SHELL, else ssh; with --nodes HOSTS)"},
	{"job", OPTION_TEXT, "NAME", "the job's name in the store (else CKPT_JOB, else \"default\")"},
	{"store", OPTION_TEXT, "DIR",
	 "repository of the daemon that is started (else CKPT_STORE, CKPT_REPO, the configuration; none: memory only)"},
	{"socket", OPTION_TEXT, "PATH", "the daemon's socket (else CKPT_SOCKET, else a private one)"},
	{"daemon", OPTION_TEXT, "HOW",
	 "auto (default): start one unless one answers at the socket; external: never start one"},
	{"max-restarts", OPTION_NUMBER, "K", "how many losses of ranks are made good (default 10)"},
	{"restart-window", OPTION_TEXT, "TIME", "count only the restarts of this time: 3600, 1h (default: all)"},
	{"hang-timeout", OPTION_TEXT, "TIME",
	 "kill and replace a rank without heartbeat for so long: 120, 2m (default: never)"},
	{"grace", OPTION_TEXT, "TIME", "how long ranks have to end after SIGTERM or SIGINT (default 60: seconds)"},
	{"inject", OPTION_REPEAT, "SPEC", "faults on purpose, such as kill:rank=2@step=40,kill-daemon@t=3s"},
	{"seed", OPTION_NUMBER, "S", "chooses the ranks of rank=any (default 0)"},
	{"report", OPTION_TEXT, "FILE", "write what happened to FILE, as JSON"},
	{"no-prefix", OPTION_FLAG, NULL, "pass the ranks' lines on without \"[2] \" before them"},
	{"attended", OPTION_FLAG, NULL, "end the ranks when stdin ends: the process that started this is gone"},
	{NULL},
};

const struct command command_run = {
	.name = "run",
	.summary = "start the ranks of a training job, watch them and replace those that are lost",
	.detail =
		"Starts N processes of COMMAND, each with CKPT_RANK, CKPT_WORLD, CKPT_JOB, CKPT_SOCKET and "
		"CKPT_EPOCH,\n"
		"and also RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE. A rank that ends with a status other "
		"than\n"
		"0 is started again, with two exceptions. Status 2 before it was at work is wrong usage, and ends the\n"
		"run. Status 3 after it was at work means that it has finished, but its last save is not safe.\n"
		"SIGTERM and SIGINT ask the ranks for a last checkpoint and a clean end. A second SIGINT kills them.\n"
		"\n"
		"Faults: KIND:PARAMETER…@TRIGGER, separated by commas. Each fires once.\n"
		"Kinds: kill, stop (:for=2s: goes on after that), abort, kill-daemon; and, played by ckpt-train "
		"itself,\n"
		"trap, illegal-address, never-ends, device-lost, ecc, absent, mismatch, nan, loss-spike, flip,\n"
		"slow (:for=50ms in each step). Parameters: rank=N or rank=any. Triggers: @step=N, @t=3s.\n"
		"\n"
		"Ends with 0 when every rank ended with 0, with 130 after SIGINT, with 11 or 12 when there is no "
		"daemon\n"
		"for it, else with 1.",
	.args = "[--] COMMAND [ARG...]",
	.min_args = 1,
	.max_args = -1,
	.rest = true,
	.no_repo = true,
	.options = options,
	.run = run,
};
