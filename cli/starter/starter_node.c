#include "starter/starter.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

/* Between two tries to reach a node, and how long one that was there is tried: a machine that starts anew takes minutes. */
#define SOON_NS CLOCK_NS_PER_S
#define AGAIN_NS (10 * CLOCK_NS_PER_S)
#define AWAY_NS (3600 * CLOCK_NS_PER_S)
/* A way that has held for so long was there: longer than anybody tries to make a connection. */
#define BEGUN_NS (150 * CLOCK_NS_PER_S)
/* Of one that was never there. */
enum { TRIES_MAX = 3 };

/* ---- the remote shell --------------------------------------------------------------------------------------------- */

/* The words of the remote shell, the host, and what it is to run there. */
static int run_shell(struct starter *s, struct starter_node *node, int in, int out, int errors, struct err *err)
{
	char *argv[SHELL_WORDS_MAX + 3];
	AUTO_FREE char *line = line_of(s, (uint32_t)(node - s->nodes));
	if (!line)
		return err_set(err, -ENOMEM, "out of memory");
	shell_argv(&s->shell, node->host, line, argv);
	/* SIGTERM: should this process be killed, the launchers see their stdin end. */
	struct proc_spec spec = {.argv = argv,
				 .env = environ,
				 .in = in,
				 .out = out,
				 .err = errors,
				 .death_signal = SIGTERM,
				 .descriptors = &s->descriptors};
	return proc_start(&node->proc, &spec, err);
}

static int spawn(struct starter *s, struct starter_node *node, struct err *err)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
	char prefix[STREAM_PREFIX] = "";
	int bad = pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(errors, O_CLOEXEC);
	int rc = bad ? err_set(err, -errno, "pipe: %s", err_name(errno)) : 0;
	AUTO_CLOSE int in_from = in[0], in_to = in[1], out_from = out[0], out_to = out[1];
	AUTO_CLOSE int err_from = errors[0], err_to = errors[1];
	if (!rc)
		rc = run_shell(s, node, in_from, out_to, err_to, err);
	if (rc)
		return rc;
	fcntl(in_to, F_SETFL, O_NONBLOCK);
	node->control = steal_fd(&in_to);
	if (!cli_flag(s->cli, "no-prefix"))
		snprintf(prefix, sizeof(prefix), "%.*s: ", STREAM_PREFIX - 3, node->host);
	stream_open(&node->out, steal_fd(&out_from), &s->out, prefix);
	stream_open(&node->err, steal_fd(&err_from), &s->err, prefix);
	return 0;
}

void node_ask(struct starter_node *node, char wish)
{
	/* A pipe that is full of wishes needs no more of them. */
	ssize_t ignored = node->control < 0 ? 0 : write(node->control, &wish, 1);
	(void)ignored;
}

/* ---- start and end ------------------------------------------------------------------------------------------------ */

bool nodes_suffice(const struct starter *s)
{
	uint64_t left = 0;
	for (uint32_t i = 0; i < s->nnodes; i++)
		left += s->nodes[i].stand != NODE_ENDED;
	return s->elastic && left * s->processes >= s->least;
}

/* What became of it is the end of the job, or the job goes on without it: true. */
static bool lose(struct starter *s, const struct starter_node *node, const char *why)
{
	bool goes_on = !s->asked && nodes_suffice(s);
	if (goes_on)
		starter_say(s, "%s: %s: the job goes on without it", node->host, why);
	else if (s->asked)
		starter_say(s, "%s: %s", node->host, why);
	else
		starter_give_up(s, "%s: %s, and the job cannot go on without it", node->host, why);
	return goes_on;
}

/* The machine may be starting anew, or the name be wrong. */
static void try_again(struct starter *s, struct starter_node *node, const char *why, uint64_t now)
{
	if (!node->broken_ns)
		node->broken_ns = now;
	bool again = node->begun ? now - node->broken_ns < AWAY_NS : ++node->tries < TRIES_MAX;
	if (!again || s->asked) {
		node->stand = NODE_ENDED;
		lose(s, node, why);
		return;
	}
	uint64_t pause = node->begun ? AGAIN_NS : SOON_NS;
	node->stand = NODE_WAITING;
	node->start_at = now + pause;
	starter_say(s, "%s: %s: again in %.1f s", node->host, why, (double)pause / 1e9);
}

static void consider(struct starter *s, struct starter_node *node, int status, uint64_t lasted, uint64_t now)
{
	char why[128] = "the remote shell ", *end = why + strlen(why);
	proc_status_text(end, sizeof(why) - (size_t)(end - why), status);
	if (lasted >= BEGUN_NS) {
		node->begun = true;
		node->broken_ns = 0;
	}
	try_again(s, node, why, now);
	if (node->stand == NODE_WAITING)
		s->finished = false; /* what ended before was not the end of the job */
}

void node_start(struct starter *s, struct starter_node *node, uint64_t now)
{
	struct err err = {""};
	int rc = spawn(s, node, &err);
	if (!rc) {
		node->stand = NODE_RUNNING;
		node->starts++;
	} else if (node->starts || proc_may_start_later(rc)) { /* the remote shell was there, or may well be */
		try_again(s, node, err.text, now);
	} else {
		node->stand = NODE_ENDED;
		starter_give_up(s, "%s: %s", node->host, err.text);
	}
}

/* Where all nodes are needed one that has finished will not be there for one that was started again, or is to be. NULL: there is none. */
static const struct starter_node *find_late(const struct starter *s)
{
	for (uint32_t i = 0; i < s->nnodes && !s->elastic; i++)
		if (s->nodes[i].stand == NODE_WAITING || (s->nodes[i].stand == NODE_RUNNING && s->nodes[i].starts > 1))
			return &s->nodes[i];
	return NULL;
}

static void finish(struct starter *s, struct starter_node *node, int code, uint64_t now)
{
	char why[64];
	node->stand = NODE_ENDED;
	node->done = true;
	if (!code) {
		s->finished = true;
		const struct starter_node *late = s->asked ? NULL : find_late(s);
		if (late)
			starter_give_up(s, "%s: the job has ended there, since the way to %s broke", node->host,
					late->host);
		return;
	}
	s->code = s->code ? s->code : code;
	s->code_ns = now;
	snprintf(why, sizeof(why), "its launcher exited with status %d", code);
	if (!lose(s, node, why))
		s->finished = true;
}

/* One that is reached again may not be ready yet: the daemon, the directory or the program comes later than the remote shell, and an earlier
 * launcher that hears nothing stays for minutes. A launcher that has come to the job knows what it says. */
static bool is_early(const struct starter_node *node, int status)
{
	int code = WEXITSTATUS(status);
	return node->begun && node->broken_ns &&
	       (code == EXIT_NO_DAEMON || code == EXIT_LOCKED || code == SHELL_NOT_THERE || code == SHELL_CANNOT);
}

void node_ended(struct starter *s, struct starter_node *node, uint64_t now)
{
	uint64_t lasted = now - node->proc.started_ns;
	int status = proc_reap(&node->proc, node->proc.pid);
	stream_close(&node->out);
	stream_close(&node->err);
	cleanup_close(&node->control);
	node->control = -1;
	/* A launcher never ends with SHELL_BROKE. */
	if (WIFSIGNALED(status) || WEXITSTATUS(status) == SHELL_BROKE || is_early(node, status))
		consider(s, node, status, lasted, now);
	else
		finish(s, node, WEXITSTATUS(status), now);
}
