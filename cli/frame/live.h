/* Live: a picture on a screen of its own, drawn anew again and again until q or an interrupt. The terminal is left as it was found. */
#ifndef CKPT_CLI_LIVE_H
#define CKPT_CLI_LIVE_H

#include "frame/command.h"

#define LIVE_INTERVAL_OPTION                                                                                           \
	{                                                                                                              \
		"interval", OPTION_TEXT, "TIME", "between two pictures (default 1s)"                                   \
	}

struct live {
	/* Writes to stdout, at most so many lines. */
	void (*draw)(void *arg, int rows);
	void *arg;
	uint64_t every_ms;
};

/* The option --interval; an exit code. */
int live_interval(const struct cli *cli, uint64_t *ms);
/* There is a terminal for it. */
bool live_possible(const struct cli *cli);
/* An exit code, with a message if it is not EXIT_OK. */
int live_run(const struct cli *cli, const struct live *live);

#endif
