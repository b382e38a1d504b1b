/* ckpt completion: what shells need to complete command lines, from the table of commands. Names and texts of the table hold no
 * quotes that a shell would mind but the apostrophe, which is escaped. */
#include "frame/output.h"
#include "frame/target.h"

#include "base/cleanup.h"
#include "store/manage/tags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an option's value is, as far as a shell can help. */
enum value { VALUE_NONE, VALUE_ANY, VALUE_DIR, VALUE_FILE };

static enum value value_of(const struct option_spec *o)
{
	if (o->type == OPTION_FLAG)
		return VALUE_NONE;
	if (!strcmp(o->value, "DIR"))
		return VALUE_DIR;
	return !strcmp(o->value, "FILE") || !strcmp(o->value, "PATH") ? VALUE_FILE : VALUE_ANY;
}

/* The options of a command (NULL: those of all), one after another. */
struct walk {
	const struct option_spec *lists[3], *at;
	int list;
};

static struct walk walk_start(const struct command *c)
{
	static const struct option_spec none[] = {{NULL}};
	struct walk w = {
		{c && c->options ? c->options : none, c && c->no_repo ? none : repo_options, global_options}, NULL, 0};
	w.at = w.lists[0];
	return w;
}

static const struct option_spec *walk_next(struct walk *w)
{
	while (!w->at->name && w->list < 2)
		w->at = w->lists[++w->list];
	return w->at->name ? w->at++ : NULL;
}

/* Whether the command's first argument is a checkpoint. */
static bool takes_step(const struct command *c)
{
	return strstr(c->args, "STEP") || !strncmp(c->args, "A B", 3);
}

static bool takes_path(const struct command *c)
{
	return !strncmp(c->args, "DIR", 3) || c->rest;
}

/* The text within single quotes of a shell. */
static void quoted(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			fprintf(f, "'\\''");
		else
			fprintf(f, "%c", *text);
}

/* What the command's arguments are: commands, steps, paths, shells or none. */
static const char *args_of(const struct command *c)
{
	if (!c || !strcmp(c->args, "[COMMAND]"))
		return "commands";
	if (!strcmp(c->name, "completion"))
		return "shells";
	return takes_step(c) ? "steps" : takes_path(c) ? "paths" : "none";
}

/* ---- bash */

/* Those whose value is of that kind, with blanks around each. */
static void bash_list(FILE *f, const char *name, const struct command *c, enum value kind)
{
	struct walk w = walk_start(c);
	fprintf(f, " %s='", name);
	for (const struct option_spec *o; (o = walk_next(&w));)
		if (value_of(o) == kind)
			fprintf(f, " --%s", o->name);
	fprintf(f, " '");
}

static void bash_options(FILE *f, const struct command *c)
{
	struct walk w = walk_start(c);
	fprintf(f, "\t\topts='");
	for (const struct option_spec *o; (o = walk_next(&w));)
		fprintf(f, " --%s", o->name);
	fprintf(f, "'\n\t\t");
	bash_list(f, "any", c, VALUE_ANY);
	bash_list(f, "dirs", c, VALUE_DIR);
	bash_list(f, "files", c, VALUE_FILE);
	fprintf(f, "\n\t\targs=%s ;;\n", args_of(c));
}

static const char bash_head[] =
	"# bash completion of ckpt: source it, or put it into bash-completion's folder as \"ckpt\".\n"
	"_ckpt()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= repo= job= i word\n"
	"\tlocal opts= any= dirs= files= args= names=\n"
	"\tlocal IFS=$' \\t\\n'\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tcase $word in\n"
	"\t\t--repo) repo=${COMP_WORDS[i+1]}; ((i++)) ;;\n"
	"\t\t--job) job=${COMP_WORDS[i+1]}; ((i++)) ;;\n"
	"\t\t=) ;;\n"
	"\t\t-*) ;;\n"
	"\t\t*) [[ -z $cmd ]] && cmd=$word ;;\n"
	"\t\tesac\n"
	"\tdone\n";

static const char bash_tail[] =
	"\t*) return ;;\n"
	"\tesac\n"
	"\tif [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	"\tif [[ $dirs == *\" $prev \"* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); compopt -o filenames 2>/dev/null; return\n"
	"\telif [[ $files == *\" $prev \"* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); compopt -o filenames 2>/dev/null; return\n"
	"\telif [[ $any == *\" $prev \"* ]]; then\n"
	"\t\treturn\n"
	"\telif [[ $cur == -* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$opts\" -- \"$cur\"); return\n"
	"\tfi\n"
	"\tcase $args in\n"
	"\tcommands) mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$cur\") ;;\n"
	"\tsteps) mapfile -t COMPREPLY < <(compgen -W \"latest $(ckpt completion steps ${repo:+--repo \"$repo\"} "
	"${job:+--job \"$job\"} -q 2>/dev/null)\" -- \"$cur\") ;;\n"
	"\tshells) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish steps' -- \"$cur\") ;;\n"
	"\tpaths) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); compopt -o filenames 2>/dev/null ;;\n"
	"\tesac\n"
	"}\n"
	"complete -F _ckpt ckpt\n";

static void bash(FILE *f)
{
	fputs(bash_head, f);
	fprintf(f, "\tnames='");
	for (int i = 0; commands[i]; i++)
		fprintf(f, " %s", commands[i]->name);
	fprintf(f, "'\n\tcase $cmd in\n\t'')\n");
	bash_options(f, NULL);
	for (int i = 0; commands[i]; i++) {
		fprintf(f, "\t%s)\n", commands[i]->name);
		bash_options(f, commands[i]);
	}
	fputs(bash_tail, f);
}

/* ---- zsh */

/* Brackets and colons have a meaning there. */
static void zsh_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fprintf(f, "'\\''");
		else
			fprintf(f, strchr("[]:\\", *text) ? "\\%c" : "%c", *text);
	}
}

/* Arguments that are words of the table. */
static void zsh_words(FILE *f, const struct command *c)
{
	bool shells = !strcmp(args_of(c), "shells");
	fprintf(f, " \\\n\t\t\t'1:word:(");
	for (int i = 0; commands[i] && !shells; i++)
		fprintf(f, "%s%s", i ? " " : "", commands[i]->name);
	fprintf(f, "%s)'", shells ? "bash zsh fish steps" : "");
}

static void zsh_command(FILE *f, const struct command *c)
{
	static const char *const actions[] = {[VALUE_ANY] = " ", [VALUE_DIR] = "_files -/", [VALUE_FILE] = "_files"};
	struct walk w = walk_start(c);
	fprintf(f, "\t%s)\n\t\t_arguments", c->name);
	for (const struct option_spec *o; (o = walk_next(&w));) {
		fprintf(f, " \\\n\t\t\t'%s--%s%s[", o->type == OPTION_REPEAT ? "*" : "", o->name,
			o->type == OPTION_FLAG ? "" : "=");
		zsh_text(f, o->help);
		fprintf(f, "]");
		if (o->type != OPTION_FLAG)
			fprintf(f, ":%s:%s", o->value, actions[value_of(o)]);
		fprintf(f, "'");
	}
	if (takes_step(c))
		fprintf(f,
			" \\\n\t\t\t'*:checkpoint:(latest ${(f)\"$(_call_program steps ckpt completion steps -q)\"})'");
	else if (!strcmp(args_of(c), "paths"))
		fprintf(f, " \\\n\t\t\t'*:file:_files'");
	else if (!strcmp(args_of(c), "commands") || !strcmp(args_of(c), "shells"))
		zsh_words(f, c);
	fprintf(f, "\n\t\t;;\n");
}

static void zsh(FILE *f)
{
	fprintf(f, "#compdef ckpt\n# zsh completion of ckpt: put it into a folder of $fpath as \"_ckpt\".\n"
		   "_ckpt()\n{\n\tlocal line state\n\t_arguments -C '1:command:->command' '*::argument:->argument'\n"
		   "\tif [[ $state == command ]]; then\n\t\tlocal -a names=(\n");
	for (int i = 0; commands[i]; i++) {
		fprintf(f, "\t\t\t'%s:", commands[i]->name);
		zsh_text(f, commands[i]->summary);
		fprintf(f, "'\n");
	}
	fprintf(f, "\t\t)\n\t\t_describe command names\n\t\treturn\n\tfi\n\tcase $line[1] in\n");
	for (int i = 0; commands[i]; i++)
		zsh_command(f, commands[i]);
	fprintf(f, "\tesac\n}\n"
		   "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _ckpt \"$@\"; else compdef _ckpt ckpt; fi\n");
}

/* ---- fish */

static void fish_options(FILE *f, const struct command *c)
{
	struct walk w = walk_start(c);
	for (const struct option_spec *o; (o = walk_next(&w));) {
		enum value v = value_of(o);
		fprintf(f, "complete -c ckpt -n '__fish_seen_subcommand_from %s' -l %s%s -d '", c->name, o->name,
			v == VALUE_NONE  ? ""
			: v == VALUE_ANY ? " -x"
			: v == VALUE_DIR ? " -x -a '(__fish_complete_directories)'"
					 : " -r -F");
		quoted(f, o->help);
		fprintf(f, "'\n");
	}
}

static void fish(FILE *f)
{
	fprintf(f, "# fish completion of ckpt: put it into ~/.config/fish/completions as \"ckpt.fish\".\ncomplete -c "
		   "ckpt -f\n");
	for (int i = 0; commands[i]; i++) {
		const struct command *c = commands[i];
		fprintf(f, "complete -c ckpt -n __fish_use_subcommand -a %s -d '", c->name);
		quoted(f, c->summary);
		fprintf(f, "'\n");
		fish_options(f, c);
		if (takes_step(c))
			fprintf(f,
				"complete -c ckpt -n '__fish_seen_subcommand_from %s' -a 'latest (ckpt completion "
				"steps -q 2>/dev/null)'\n",
				c->name);
		else if (!strcmp(args_of(c), "paths"))
			fprintf(f, "complete -c ckpt -n '__fish_seen_subcommand_from %s' -F\n", c->name);
		else if (!strcmp(args_of(c), "shells"))
			fprintf(f, "complete -c ckpt -n '__fish_seen_subcommand_from %s' -a 'bash zsh fish steps'\n",
				c->name);
	}
}

/* ---- checkpoints, one per line, for the scripts */

static int steps(struct cli *cli, FILE *f)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	AUTO_FREE struct tag_found *tags = NULL;
	size_t n, ntags = 0;
	int code = cli_scan_job(cli, &refs, &n);
	if (code)
		return code;
	if (n)
		tags_list(cli->repo, refs[0].job, &tags, &ntags, NULL);
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED)
			fprintf(f, "%" PRIu64 ".e%04u\n", refs[i].id.step, refs[i].id.epoch);
	for (size_t i = 0; i < ntags; i++)
		if (!tags[i].rc)
			fprintf(f, "%s\n", tags[i].tag.name);
	return EXIT_OK;
}

static int write_to(struct cli *cli, const char *what, FILE *f)
{
	static const struct {
		const char *name;
		void (*write)(FILE *f);
	} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(what, shells[i].name) != 0)
			continue;
		shells[i].write(f);
		return EXIT_OK;
	}
	if (!strcmp(what, "steps"))
		return steps(cli, f);
	return cli_fail(cli, EXIT_USAGE, "%s: bash, zsh, fish or steps", what);
}

static int run(struct cli *cli)
{
	const char *what = cli->args[0];
	if (!cli->json)
		return write_to(cli, what, stdout);
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	int code = write_to(cli, what, f);
	fclose(f);
	if (code || !text)
		return code ? code : cli_fail(cli, EXIT_FAILED, "out of memory");
	json_t *doc = json_document(cli);
	json_object_set_new(doc, "for", json_text(what));
	json_object_set_new(doc, "text", json_text(text));
	json_emit(doc);
	return EXIT_OK;
}

const struct command command_completion = {
	.name = "completion",
	.summary = "print what a shell needs to complete command lines of ckpt",
	.detail = "bash: source <(ckpt completion bash), or a file \"ckpt\" in bash-completion's folder. zsh: a file "
		  "\"_ckpt\" in\n"
		  "a folder of $fpath. fish: ckpt.fish in ~/.config/fish/completions. Installed packages have them in "
		  "place.\n"
		  "steps: the checkpoints and tags of the job, one per line; that is what the scripts ask.",
	.args = "bash|zsh|fish|steps",
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
