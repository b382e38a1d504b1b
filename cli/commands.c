#include "frame/command.h"

#include <stddef.h>

extern const struct command command_list, command_show, command_ls, command_verify, command_restore;
extern const struct command command_diff, command_dump, command_stats, command_export, command_import;
extern const struct command command_pin, command_unpin, command_tag, command_forget, command_gc;
extern const struct command command_top, command_doctor, command_bench;
extern const struct command command_run, command_flush, command_halt, command_rollback, command_drain, command_nodes,
	command_fault, command_campaign, command_report, command_plan, command_status, command_ranks,
	command_recoveries, command_config, command_host, command_version, command_help, command_completion;

/* One per line, in the order of the help. */
/* clang-format off */
const struct command *const commands[] = {
	&command_list,
	&command_show,
	&command_ls,
	&command_stats,
	&command_verify,
	&command_restore,
	&command_export,
	&command_import,
	&command_diff,
	&command_dump,
	&command_pin,
	&command_unpin,
	&command_tag,
	&command_forget,
	&command_gc,
	&command_run,
	&command_flush,
	&command_halt,
	&command_rollback,
	&command_drain,
	&command_nodes,
	&command_fault,
	&command_status,
	&command_ranks,
	&command_recoveries,
	&command_top,
	&command_campaign,
	&command_report,
	&command_plan,
	&command_doctor,
	&command_bench,
	&command_config,
	&command_host,
	&command_completion,
	&command_version,
	&command_help,
	NULL,
};
