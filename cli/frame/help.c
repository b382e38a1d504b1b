/* Help, from the table of commands: for people, and with --json for completions, manuals and the documentation test. */
#include "frame/command.h"

#include "frame/output.h"

#include <stdio.h>
#include <string.h>

static const struct {
	int code;
	const char *name, *text;
} exit_codes[] = {
	{EXIT_OK, "ok", "done"},
	{EXIT_FAILED, "failure", "failed: the message on stderr says why"},
	{EXIT_USAGE, "usage", "the command line is wrong"},
	{EXIT_PARTIAL, "partial", "done in part: the message says what is missing"},
	{EXIT_DIFFERENT, "different", "ckpt diff: the checkpoints differ"},
	{EXIT_NO_REPO, "no repository", "there is no repository at that path, or none was named"},
	{EXIT_LOCKED, "locked", "another process holds the repository's lock"},
	{EXIT_NO_DAEMON, "daemon unreachable", "no daemon answers at the socket"},
	{EXIT_REPAIRABLE, "corrupt but repairable", "damage was found, and an intact copy exists"},
	{EXIT_CORRUPT, "corrupt", "damage was found"},
	{EXIT_NONE_RESTORABLE, "none restorable", "no checkpoint is left that can be restored"},
	{EXIT_CANCELLED, "cancelled", "stopped by a signal"},
};

static void print_options(const char *title, const struct option_spec *options)
{
	if (!options || !options->name)
		return;
	out(TONE_HEAD, "\n%s\n", title);
	for (const struct option_spec *o = options; o->name; o++) {
		char head[64];
		snprintf(head, sizeof(head), "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
		out(TONE_PLAIN, "  %-30s %s\n", head, o->help);
	}
}

static void print_command(const struct command *c)
{
	out(TONE_HEAD, "usage: ");
	out(TONE_PLAIN, "ckpt %s [options]%s%s\n\n%s\n", c->name, *c->args ? " " : "", c->args, c->summary);
	if (c->detail)
		out(TONE_PLAIN, "\n%s\n", c->detail);
	print_options("options", c->options);
	if (!c->no_repo)
		print_options("repository", repo_options);
	print_options("general", global_options);
}

static void print_all(void)
{
	out(TONE_HEAD, "usage: ");
	out(TONE_PLAIN, "ckpt COMMAND [options]\n");
	out(TONE_HEAD, "\ncommands\n");
	for (int i = 0; commands[i]; i++)
		out(TONE_PLAIN, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	print_options("repository", repo_options);
	print_options("general", global_options);
	out(TONE_HEAD, "\nexit codes\n");
	for (size_t i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++)
		out(TONE_PLAIN, "  %-4d %s\n", exit_codes[i].code, exit_codes[i].text);
	out(TONE_PLAIN, "\nckpt help COMMAND says more.\n");
}

void help_print(const struct command *command)
{
	if (command)
		print_command(command);
	else
		print_all();
}

/* ---- JSON */

static json_t *options_json(const struct option_spec *options)
{
	static const char *const types[] = {
		[OPTION_FLAG] = "flag",   [OPTION_TEXT] = "text",     [OPTION_NUMBER] = "number",
		[OPTION_SHARE] = "share", [OPTION_REPEAT] = "repeat",
	};
	json_t *list = json_array();
	for (const struct option_spec *o = options; o && o->name; o++) {
		json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s}", "name", o->name, "type", types[o->type],
						      "value", o->value, "help", o->help));
	}
	return list;
}

static json_t *command_json(const struct command *c)
{
	return json_pack("{s:s, s:s, s:s?, s:s, s:b, s:o}", "name", c->name, "summary", c->summary, "detail", c->detail,
			 "args", c->args, "repository", !c->no_repo, "options", options_json(c->options));
}

int help_json(const struct cli *cli)
{
	json_t *doc = json_document(cli), *list = json_array(), *codes = json_array();
	for (int i = 0; commands[i]; i++)
		json_array_append_new(list, command_json(commands[i]));
	for (size_t i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++) {
		json_array_append_new(codes, json_pack("{s:i, s:s, s:s}", "code", exit_codes[i].code, "name",
						       exit_codes[i].name, "text", exit_codes[i].text));
	}
	json_object_set_new(doc, "commands", list);
	json_object_set_new(doc, "repository_options", options_json(repo_options));
	json_object_set_new(doc, "general_options", options_json(global_options));
	json_object_set_new(doc, "exit_codes", codes);
	json_emit(doc);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	if (cli->json)
		return help_json(cli);
	if (!cli->nargs) {
		help_print(NULL);
		return EXIT_OK;
	}
	const struct command *c = command_find(cli->args[0]);
	if (!c)
		return cli_fail(cli, EXIT_USAGE, "there is no command \"%s\": see ckpt help", cli->args[0]);
	help_print(c);
	return EXIT_OK;
}

const struct command command_help = {
	.name = "help",
	.summary = "show this help, or that of a command",
	.detail = "With --json: all commands, options and exit codes, for programs.",
	.args = "[COMMAND]",
	.max_args = 1,
	.no_repo = true,
	.run = run,
};
