/* The frame of the command line: one table of commands, each with its options and its help, from which parsing, `ckpt help` and
 * its JSON form (completions, manuals, the documentation test) are made.
 *
 * command.c  parsing and lookup          commands.c  the table           output.c  tables, JSON, colour, messages
 * help.c     help from the table         progress.c  progress, interrupt target.c  which repository, job and checkpoint
 * Each other file is one command.
 *
 * Data goes to stdout, everything else to stderr. A run function returns an exit code. */
#ifndef CKPT_CLI_COMMAND_H
#define CKPT_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes are an interface: docs/reference/cli.md. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PARTIAL = 3,
	EXIT_DIFFERENT = 4,
	EXIT_NO_REPO = 10,
	EXIT_LOCKED = 11,
	EXIT_NO_DAEMON = 12,
	EXIT_REPAIRABLE = 20,
	EXIT_CORRUPT = 21,
	EXIT_NONE_RESTORABLE = 22,
	EXIT_CANCELLED = 130,
};

enum option_type {
	OPTION_FLAG = 1,
	OPTION_TEXT,
	OPTION_NUMBER, /* unsigned decimal */
	OPTION_SHARE,  /* "5%" or "0.05": above 0, at most 1 */
	OPTION_REPEAT, /* text, any number of times */
};

struct option_spec {
	const char *name; /* without the dashes; NULL ends a list */
	enum option_type type;
	const char *value; /* how the help calls the value: "DIR"; NULL for a flag */
	const char *help;  /* one line, no full stop */
};

struct cli;

struct command {
	const char *name;
	const char *summary;               /* one line, no full stop */
	const char *detail;                /* paragraphs, wrapped by hand below 100 columns; NULL: none */
	const char *args;                  /* as the help shows them: "[STEP|latest]"; "" without */
	int min_args, max_args;            /* max_args -1: any number */
	bool rest;                         /* options end at the first argument: the rest belongs to another program */
	bool no_repo;                      /* does not read a repository: --repo and --job are not offered */
	const struct option_spec *options; /* NULL: none of its own */
	int (*run)(struct cli *cli);
};

/* NULL-terminated, in the order of the help. */
extern const struct command *const commands[];
/* Offered by every command: --json, --quiet, --help, …; and by those that read a repository: --repo, --job. */
extern const struct option_spec global_options[];
extern const struct option_spec repo_options[];

struct repo;
struct option_value;

/* One invocation. Owned by main. */
struct cli {
	const struct command *command;
	char **args; /* the positional arguments */
	int nargs;
	struct option_value *values; /* private to command.c: in order of appearance */
	int nvalues;
	bool json, quiet;
	struct repo *repo; /* opened by cli_repo() */
};

/* Parses and runs; the exit code. */
int cli_main(int argc, char **argv);

/* The options of an invocation by name. A name that the command does not have is a bug and aborts. */
bool cli_flag(const struct cli *cli, const char *name);
/* NULL when absent. The last one given wins. */
const char *cli_text(const struct cli *cli, const char *name);
/* The n-th of a repeated option, NULL past the last. */
const char *cli_repeat(const struct cli *cli, const char *name, int n);
/* `absent` when it was not given. */
uint64_t cli_number(const struct cli *cli, const char *name, uint64_t absent);
double cli_share(const struct cli *cli, const char *name, double absent);

/* NULL when there is none. */
const struct command *command_find(const char *name);
/* The nearest name for a message, NULL when nothing is near. */
const char *near_miss(const char *word, const char *const *names);
/* Help of one command, or of all (NULL), on stdout. */
void help_print(const struct command *command);
int help_json(const struct cli *cli);

#endif
