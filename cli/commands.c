#include "command.h"

#include <stddef.h>

extern const struct command command_list, command_show, command_ls, command_verify, command_restore;
extern const struct command command_pin, command_unpin, command_tag;
extern const struct command command_run, command_status, command_version, command_help;

const struct command *const commands[] = {
	&command_list, &command_show, &command_ls,     &command_verify,  &command_restore, &command_pin, &command_unpin,
	&command_tag,  &command_run,  &command_status, &command_version, &command_help,    NULL,
};
