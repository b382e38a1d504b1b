#include "command.h"

#include <stddef.h>

extern const struct command command_version, command_help;

const struct command *const commands[] = {
	&command_version,
	&command_help,
	NULL,
};
