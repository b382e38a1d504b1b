#include "frame/progress.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

void cli_catch_interrupt(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
	return interrupted;
}

/* Whether the command has the option and it was given. */
static bool lines_wanted(const struct cli *cli)
{
	for (const struct option_spec *o = cli->command->options; o && o->name; o++) {
		if (!strcmp(o->name, "progress"))
			return cli_flag(cli, "progress");
	}
	return false;
}

void progress_start(struct progress *p, const struct cli *cli, const char *verb)
{
	*p = (struct progress){.cli = cli, .verb = verb, .started = clock_now()};
	p->live = !cli->quiet && isatty(STDERR_FILENO);
	p->lines = !p->live && !cli->quiet && lines_wanted(cli);
	p->last = p->started;
}

void progress_next(struct progress *p, uint64_t n, uint64_t of)
{
	p->started = clock_now();
	if (of > 1)
		snprintf(p->label, sizeof(p->label), "%" PRIu64 " of %" PRIu64 ": ", n, of);
}

static void show(struct progress *p, uint64_t done, uint64_t total, uint64_t now)
{
	char have[16], all[16], rate[16];
	double seconds = (double)(now - p->started) / CLOCK_NS_PER_S;
	double speed = seconds > 0 ? (double)done / seconds : 0;
	bytes_human(have, sizeof(have), done);
	bytes_human(all, sizeof(all), total);
	bytes_human(rate, sizeof(rate), (uint64_t)speed);
	double left = speed > 0 ? (double)(total - done) / speed : 0;
	fprintf(stderr, "%s%s%s of %s %s, %s/s, %.0f s left%s", p->live ? "\r\033[K" : "", p->label, have, all, p->verb,
		rate, left, p->live ? "" : "\n");
	fflush(stderr);
	p->shown = true;
}

int progress_step(void *arg, uint64_t done, uint64_t total)
{
	struct progress *p = arg;
	uint64_t now = clock_now(), every = p->live ? CLOCK_NS_PER_S / 5 : 5 * CLOCK_NS_PER_S;
	if ((p->live || p->lines) && now - p->last >= every) {
		p->last = now;
		show(p, done, total, now);
	}
	return interrupted;
}

void progress_end(struct progress *p)
{
	if (p->live && p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
