/* ckpt nodes: the nodes of the cluster, how one that is gone for good is forgotten, and how the failures of one that was repaired are. */
#include "frame/field.h"
#include "frame/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum tone tone_of(const char *state)
{
	return !strcmp(state, "up") ? TONE_GOOD : !strcmp(state, "away") ? TONE_DIM : TONE_BAD;
}

/* As in a roster. */
static void labels_cell(struct table *t, const json_t *labels)
{
	static const char *const keys[] = {"rack", "switch"};
	char text[160] = "";
	for (size_t i = 0, at = 0; i < sizeof(keys) / sizeof(keys[0]) && at < sizeof(text); i++) {
		const char *value = json_string_value(json_object_get(labels, keys[i]));
		if (value)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s=%s", at ? " " : "", keys[i], value);
	}
	table_cell(t, TONE_PLAIN, "%s", *text ? text : "-");
}

static void print(const json_t *nodes)
{
	static const struct column columns[] = {
		{"NAME", ALIGN_LEFT},        {"ADDRESS", ALIGN_LEFT}, {"STATE", ALIGN_LEFT},    {"LABELS", ALIGN_LEFT},
		{"INCARNATION", ALIGN_LEFT}, {"SINCE", ALIGN_LEFT},   {"SET ASIDE", ALIGN_LEFT}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t i;
	json_t *node;
	char age[32];
	json_array_foreach(nodes, i, node)
	{
		const char *state = field_text(node, "state");
		uint64_t since = (uint64_t)field_number(node, "since_ns");
		table_cell(t, TONE_PLAIN, "%s", field_text(node, "name"));
		table_cell(t, TONE_PLAIN, "%s", field_text(node, "address"));
		table_cell(t, tone_of(state), "%s", state);
		labels_cell(t, json_object_get(node, "labels"));
		table_cell(t, TONE_DIM, "%s", field_text(node, "incarnation"));
		table_cell(t, TONE_PLAIN, "%s", since ? text_age(age, sizeof(age), since) : "-");
		const char *why = json_string_value(json_object_get(node, "set_aside"));
		table_cell(t, why ? TONE_BAD : TONE_PLAIN, "%s", why ? why : "-");
	}
	table_print(t);
}

static int show(const struct cli *cli)
{
	json_t *doc = order_look(cli);
	if (!doc)
		return cli_fail(cli, EXIT_NO_DAEMON, "no daemon answers: look with ckpt status");
	json_t *nodes = json_object_get(json_object_get(doc, "cluster"), "nodes");
	int code = EXIT_OK;
	if (!nodes) {
		code = cli_fail(cli, EXIT_FAILED, "the daemon of this node is in no cluster");
	} else if (cli->json) {
		json_t *out = json_document(cli);
		json_object_set(out, "nodes", nodes);
		json_emit(out);
	} else {
		print(nodes);
	}
	json_decref(doc);
	return code;
}

static const struct verb {
	const char *name, *done, *field;
	enum wire_command_kind kind;
} verbs[] = {
	{"remove", "is no longer in the cluster", "removed", COMMAND_REMOVE},
	{"clear", "begins anew: its failures are forgotten", "cleared", COMMAND_CLEAR},
};

static int ask(const struct cli *cli, const struct verb *verb, const char *name)
{
	struct wire_command command = {.kind = verb->kind};
	struct wire_answer answer = {0};
	struct err err = {""};
	bool gone;
	if (name_check("node", name, sizeof(command.node), &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	snprintf(command.node, sizeof(command.node), "%s", name);
	if (order_again(cli, &command, &answer, &gone, &err))
		return cli_fail(cli, gone ? EXIT_NO_DAEMON : EXIT_FAILED, "%s", err.text);
	if (!cli->json) {
		out(TONE_PLAIN, "node %s %s\n", name, verb->done);
		return EXIT_OK;
	}
	json_t *doc = json_document(cli);
	json_object_set_new(doc, verb->field, json_text(name));
	json_emit(doc);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	if (!cli->nargs)
		return show(cli);
	const struct verb *verb = verbs;
	while (verb < verbs + sizeof(verbs) / sizeof(verbs[0]) && strcmp(cli->args[0], verb->name) != 0)
		verb++;
	if (verb == verbs + sizeof(verbs) / sizeof(verbs[0]))
		return cli_fail(cli, EXIT_USAGE,
				"%s is not known: ckpt nodes, ckpt nodes remove NAME, or ckpt nodes clear NAME",
				cli->args[0]);
	return cli->nargs == 2 ? ask(cli, verb, cli->args[1])
			       : cli_fail(cli, EXIT_USAGE, "which node? ckpt nodes %s NAME", verb->name);
}

static const struct option_spec options[] = {
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	{NULL},
};

const struct command command_nodes = {
	.name = "nodes",
	.summary = "list the nodes of the cluster, forget one, or its failures",
	.detail = "remove NAME takes a node out that is gone for good. Its daemon must have ended. Where the nodes "
		  "stand in\n"
		  "a file (the roster), take it out there.\n"
		  "clear NAME forgets how often a node has failed: it is no longer set aside for that.",
	.args = "[remove|clear NAME]",
	.max_args = 2,
	.no_repo = true,
	.options = options,
	.run = run,
};
