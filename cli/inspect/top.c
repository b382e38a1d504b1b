/* ckpt top: the status page for a terminal. */
#include "inspect/top.h"
#include "frame/amount.h"
#include "frame/contact.h"
#include "frame/output.h"
#include "frame/progress.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>

enum { INTERVAL_MS = 1000, INTERVAL_MIN_MS = 100, INTERVAL_MAX_MS = 3600000, ANSWER_MS = 5000, ROWS_UNKNOWN = 24 };

#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l" /* another screen, no cursor, no wrapping */
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H\033[J"

/* Whom to ask. */
struct whom {
	char path[CONTACT_PATH_MAX];
	const char *user;
};

static json_t *ask(const struct whom *whom, struct err *err)
{
	AUTO_FREE char *text = NULL;
	json_error_t error;
	if (contact_status(whom->path, whom->user, clock_deadline(ANSWER_MS * CLOCK_NS_PER_MS), &text, err))
		return NULL;
	json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (json_is_array(json_object_get(doc, "users"))) {
		json_decref(doc);
		err_set(err, -EINVAL, "this is a service for all users: name one with --user; ckpt status lists them");
		return NULL;
	}
	if (doc && json_integer_value(json_object_get(doc, "schema")) == JSON_SCHEMA)
		return doc;
	json_decref(doc);
	err_set(err, -EBADMSG, "the daemon's answer is not understood: are ckpt and ckptd of one release?");
	return NULL;
}

static int once(const struct cli *cli, const struct whom *whom)
{
	struct err err = {""};
	json_t *doc = ask(whom, &err);
	if (!doc)
		return cli_fail(cli, EXIT_NO_DAEMON, "%s", err.text);
	if (cli->json) {
		json_object_set_new(doc, "command", json_string(cli->command->name));
		json_emit(doc);
		return EXIT_OK;
	}
	top_draw(doc, 0);
	json_decref(doc);
	return EXIT_OK;
}

static int terminal_rows(void)
{
	struct winsize size;
	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row ? size.ws_row : ROWS_UNKNOWN;
}

/* One write per picture, so that nothing flickers. */
static void draw(const struct whom *whom)
{
	struct err err = {""};
	json_t *doc = ask(whom, &err);
	fputs(SCREEN_HOME, stdout);
	if (doc)
		top_draw(doc, terminal_rows() - 1);
	else
		out(TONE_BAD, "%s\n", err.text);
	json_decref(doc);
	fflush(stdout);
}

/* Until the next picture is due; true: the user wants to leave. */
static bool wait_key(unsigned ms)
{
	uint64_t deadline = clock_deadline(ms * CLOCK_NS_PER_MS);
	while (!cli_interrupted()) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		char key;
		int n = poll(&p, 1, clock_ms_until(deadline));
		if (!n)
			return false;
		if (n > 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q'))
			return true;
	}
	return true;
}

static int live(const struct whom *whom, unsigned ms)
{
	struct termios was, raw;
	static char buffer[1 << 16];
	if (tcgetattr(STDIN_FILENO, &was) < 0)
		return -errno;
	raw = was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	cli_catch_interrupt();
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(SCREEN_ENTER, stdout);
	do {
		draw(whom);
	} while (!ferror(stdout) && !wait_key(ms));
	fputs(SCREEN_LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &was);
	return 0;
}

static int run(struct cli *cli)
{
	struct err err = {""};
	struct whom is = {.user = cli_text(cli, "user")}, *whom = &is;
	uint64_t ms;
	int code = amount_time(cli, "interval", AMOUNT_MS, INTERVAL_MS, INTERVAL_MIN_MS, INTERVAL_MAX_MS, &ms);
	if (code)
		return code;
	if (contact_path(cli_text(cli, "socket"), whom->path, &err))
		return cli_fail(cli, EXIT_USAGE, "%s", err.text);
	if (cli_flag(cli, "once") || cli->json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return once(cli, whom);
	json_t *doc = ask(whom, &err);
	if (!doc)
		return cli_fail(cli, EXIT_NO_DAEMON, "%s", err.text);
	json_decref(doc);
	int rc = live(whom, (unsigned)ms);
	return rc ? cli_fail(cli, EXIT_FAILED, "the terminal: %s", err_name(rc)) : EXIT_OK;
}

static const struct option_spec options[] = {
	CONTACT_SOCKET_OPTION,
	CONTACT_USER_OPTION,
	{"interval", OPTION_TEXT, "TIME", "between two pictures (default 1s)"},
	{"once", OPTION_FLAG, NULL, "one picture, and the end; so it is where there is no terminal"},
	{NULL},
};

const struct command command_top = {
	.name = "top",
	.summary = "watch the daemon of this node: health, jobs, ranks, saves, recoveries",
	.detail = "The status page for a terminal. q or an interrupt ends it. With --json: the document of\n"
		  "ckpt status. Ends with 12 when no daemon answers at the beginning.",
	.args = "",
	.no_repo = true,
	.options = options,
	.run = run,
};
