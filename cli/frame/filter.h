/* Which groups and tensors an invocation is about: repeated options, each a name or a pattern of the shell. */
#ifndef CKPT_CLI_FILTER_H
#define CKPT_CLI_FILTER_H

#include "frame/command.h"

enum { FILTERS_MAX = 256 };

/* The values of a repeated option, NULL-terminated. EXIT_USAGE: more than FILTERS_MAX. */
int filter_read(const struct cli *cli, const char *option, const char *list[FILTERS_MAX + 1]);
/* Whether a list names the word, or has a pattern that matches it. An empty list means all. */
bool filter_names(const char *const *list, const char *word);
bool filter_matches(const char *const *list, const char *name);

#endif
