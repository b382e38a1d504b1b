#include "frame/live.h"
#include "frame/amount.h"
#include "frame/output.h"
#include "frame/progress.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { INTERVAL_MS = 1000, INTERVAL_MIN_MS = 100, INTERVAL_MAX_MS = 3600000, ROWS_UNKNOWN = 24 };

#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l" /* another screen, no cursor, no wrapping */
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H\033[J"

int live_interval(const struct cli *cli, uint64_t *ms)
{
	return amount_time(cli, "interval", AMOUNT_MS, INTERVAL_MS, INTERVAL_MIN_MS, INTERVAL_MAX_MS, ms);
}

bool live_possible(const struct cli *cli)
{
	return !cli->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

static int terminal_rows(void)
{
	struct winsize size;
	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row ? size.ws_row : ROWS_UNKNOWN;
}

/* One write per picture, so that nothing flickers. */
static void draw(const struct live *live)
{
	fputs(SCREEN_HOME, stdout);
	live->draw(live->arg, terminal_rows() - 1);
	fflush(stdout);
}

/* Until the next picture is due; true: the user wants to leave. */
static bool wait_key(uint64_t ms)
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

int live_run(const struct cli *cli, const struct live *live)
{
	struct termios was, raw;
	static char buffer[1 << 16];
	if (tcgetattr(STDIN_FILENO, &was) < 0)
		return cli_fail(cli, EXIT_FAILED, "the terminal: %s", err_name(errno));
	raw = was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	cli_catch_interrupt();
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(SCREEN_ENTER, stdout);
	do {
		draw(live);
	} while (!ferror(stdout) && !wait_key(live->every_ms));
	fputs(SCREEN_LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &was);
	return EXIT_OK;
}
