/* Progress of long work on stderr: one line that is rewritten on a terminal, elsewhere a line every few seconds and only with
 * --progress. And the interrupt: after cli_catch_interrupt() a first SIGINT, SIGTERM or SIGHUP only asks, a second one kills. */
#ifndef CKPT_CLI_PROGRESS_H
#define CKPT_CLI_PROGRESS_H

#include "frame/command.h"

#include <stdint.h>

struct progress {
	const struct cli *cli;
	const char *verb; /* "verified" */
	char label[64];   /* before the numbers: "3 of 20: " */
	bool live, lines, shown;
	uint64_t started, last;
};

void progress_start(struct progress *p, const struct cli *cli, const char *verb);
/* Goes on to the n-th of several pieces of work. */
void progress_next(struct progress *p, uint64_t n, uint64_t of);
/* The callback of verify and restore (arg: struct progress): shows bytes, rate and time left; non-zero when interrupted. */
int progress_step(void *arg, uint64_t done, uint64_t total);
/* Clears the line. */
void progress_end(struct progress *p);

void cli_catch_interrupt(void);
bool cli_interrupted(void);

#endif
