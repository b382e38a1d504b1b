#include "campaign/campaign_hosts.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEAT_NS (15 * CLOCK_NS_PER_S)
#define WAY_NS (60 * CLOCK_NS_PER_S) /* to a host, and back */

extern char **environ;

/* ---- before it begins ---------------------------------------------------------------------------------------------- */

/* "link-down (2), reboot (1)" */
static void count_impossible(const struct campaign_file *file, char *dst, size_t size)
{
	size_t used = 0;
	*dst = '\0';
	for (const struct fault_entry *f = fault_catalogue; f->kind && used < size; f++) {
		size_t n = 0;
		for (size_t i = 0; i < file->n; i++)
			n += file->faults[i].entry == f;
		if (n && campaign_cuts(f))
			used += (size_t)snprintf(dst + used, size - used, "%s%s (%zu)", used ? ", " : "", f->name, n);
	}
}

int campaign_hosts_accept(struct campaign *c)
{
	char names[512];
	if (c->file.nodes != c->hosts.n || c->hosts.n < 2)
		return cli_fail(
			c->cli, EXIT_USAGE,
			"--nodes names %u hosts, and the file is for %u nodes: `nodes` and --nodes must agree, from 2 "
			"on",
			c->hosts.n, c->file.nodes);
	count_impossible(&c->file, names, sizeof(names));
	c->no_network = campaign_file_leave_out_network(&c->file, 0);
	if (c->no_network && c->file.n)
		cli_note(c->cli, "left out, since this command does not break the network of hosts: %s", names);
	if (!c->file.n)
		return cli_fail(
			c->cli, EXIT_FAILED,
			"no fault is left: this command does not break the network of hosts, which is wanted for %s",
			names);
	return EXIT_OK;
}

int campaign_hosts_note(struct campaign *c)
{
	struct err err = {""};
	for (uint32_t k = 0; k < c->hosts.n; k++) {
		const struct host *h = &c->hosts.host[k];
		if (journal_put(&c->journal,
				json_pack("{s:s, s:i, s:o, s:s, s:I}", "event", "host", "node", (int)k, "host",
					  json_text(h->name), "address", h->address, "ahead_ns",
					  (json_int_t)h->ahead_ns),
				&err))
			return cli_fail(c->cli, EXIT_FAILED, "%s", err.text);
		cli_note(c->cli, "node-%u is %s, at %s:%u", k, h->name, h->address, h->port);
	}
	return EXIT_OK;
}

/* ---- the way there ------------------------------------------------------------------------------------------------- */

int campaign_hosts_bridge(struct campaign *c, uint32_t node, struct err *err)
{
	char *argv[SHELL_WORDS_MAX + 8], near[PATH_MAX], far[HOSTS_SOCKET_MAX], log[PATH_MAX];
	const char *const words[] = {"host", "bridge", hosts_socket(&c->hosts, node, "s", far)};
	AUTO_FREE char *line = hosts_line(&c->hosts, node, true, words, sizeof(words) / sizeof(words[0]));
	AUTO_CLOSE int fd =
		open(campaign_node_path(c, node, "log", log), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	int n = 0;
	if (fd < 0 || !line)
		return err_set(err, line ? -errno : -ENOMEM, "%s: %s", log, err_name(line ? errno : ENOMEM));
	argv[n++] = c->hosts.self;
	argv[n++] = (char *)"host";
	argv[n++] = (char *)"serve";
	argv[n++] = campaign_node_path(c, node, "s", near);
	shell_argv(&c->hosts.shell, c->hosts.host[node].name, line, argv + n);
	struct proc_spec spec = {.argv = argv, .env = environ, .out = fd, .err = fd, .death_signal = SIGTERM};
	return proc_start(&c->nodes[node].bridge, &spec, err);
}

char *campaign_hosts_who(const struct campaign *c, char *dst, size_t size)
{
	uint32_t k = 0;
	while (k + 1 < c->nnodes && !c->nodes[k].status)
		k++;
	if (c->hosts.n)
		snprintf(dst, size, "the remote shell of %s, which has %s,", c->hosts.host[k].name,
			 c->nodes[k].lost_daemon ? "ckptd" : "ckpt run");
	else
		snprintf(dst, size, "ckpt run");
	return dst;
}

static void beat(void *arg)
{
	campaign_hosts_beat(arg);
}

void campaign_hosts_beat(struct campaign *c)
{
	if (!c->hosts.n || clock_now() < c->beat_at)
		return;
	for (uint32_t k = 0; k < c->nnodes; k++) {
		hosts_tell(c->nodes[k].daemon_in, '.');
		hosts_tell(c->nodes[k].run_in, '.');
	}
	c->beat_at = clock_deadline(BEAT_NS);
}

/* ---- faults -------------------------------------------------------------------------------------------------------- */

/* What `ckpt fault --json` has printed. */
static int take_fault(const char *said, struct fault_result *result, struct err *err)
{
	json_t *doc = json_try(said, strlen(said));
	const char *text = json_string_value(json_object_get(doc, "text"));
	if (text) {
		result->outcome = json_is_true(json_object_get(doc, "fired")) ? FAULT_FIRED : FAULT_NOT_FIRED;
		snprintf(result->text, sizeof(result->text), "%s", text);
	}
	json_decref(doc);
	return text ? 0 : err_set(err, -EIO, "%s", *err->text ? err->text : "ckpt fault has said nothing there");
}

int campaign_hosts_fault(struct campaign *c, uint32_t node, const struct fault_request *q, struct fault_result *result,
			 struct err *err)
{
	char said[HOSTS_SAID_MAX], socket[HOSTS_SOCKET_MAX], for_ms[32];
	const char *words[] = {"fault", "--json",   "--job",
			       q->job,  "--socket", hosts_socket(&c->hosts, node, "s", socket),
			       NULL,    NULL,       NULL};
	size_t n = 6;
	if (q->for_ms) {
		snprintf(for_ms, sizeof(for_ms), "%lums", (unsigned long)q->for_ms);
		words[n++] = "--for";
		words[n++] = for_ms;
	}
	words[n++] = q->entry->name;
	int status = hosts_ask(&c->hosts, node, words, n, WAY_NS + q->for_ms * CLOCK_NS_PER_MS, beat, c, said, err);
	return status < 0 ? status : take_fault(said, result, err);
}

/* ---- after its end ------------------------------------------------------------------------------------------------- */

int campaign_hosts_end(struct campaign *c)
{
	char text[256];
	struct err err = {""};
	int rc = campaign_hosts_gather(c, &err);
	for (uint32_t k = 0; !rc && k < c->hosts.n; k++) {
		if (hosts_nothing_left(&c->hosts, k, text, sizeof(text)))
			continue;
		cli_note(c->cli, "%s", text);
		rc = journal_put(&c->journal, json_pack("{s:s, s:o}", "event", "left", "text", json_text(text)), &err);
	}
	return rc ? cli_fail(c->cli, EXIT_FAILED, "%s", err.text) : EXIT_OK;
}
