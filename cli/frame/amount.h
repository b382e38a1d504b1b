/* Options whose values are sizes and times, as settings have them: 40G, 90m. No command reads one in another way. */
#ifndef CKPT_CLI_AMOUNT_H
#define CKPT_CLI_AMOUNT_H

#include "frame/command.h"

#include "config/setting.h"

/* A number of this kind (type, min and max; times in milliseconds); `absent` when the option was not given. EXIT_OK, or EXIT_USAGE
 * with what is allowed. */
int amount_read(const struct cli *cli, const char *option, const struct setting *kind, uint64_t absent, uint64_t *n);

/* A number alone is meant in this unit. */
enum amount_unit { AMOUNT_MS = 1, AMOUNT_S = 1000 };

/* A time in that unit, whole; `absent`, min and max likewise. EXIT_OK, or EXIT_USAGE with what is allowed. */
int amount_time(const struct cli *cli, const char *option, enum amount_unit unit, uint64_t absent, uint64_t min,
		uint64_t max, uint64_t *n);

#endif
