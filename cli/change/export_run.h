/* What restore and export have in common: a checkpoint, named or the newest that can be read, written as files into a directory
 * that appears complete or not at all. */
#ifndef CKPT_CLI_EXPORT_RUN_H
#define CKPT_CLI_EXPORT_RUN_H

#include "change/beside.h"
#include "change/export.h"
#include "frame/filter.h"
#include "frame/output.h"
#include "frame/target.h"

#define EXPORT_FILE_MAX (5ull << 30)

struct export_order {
	struct export_wish wish; /* its lists are those below */
	const char *groups[FILTERS_MAX + 1], *globs[FILTERS_MAX + 1];
	const char *to;
	const char *done;   /* "restored" */
	const char *format; /* for the report; NULL: none */
	struct beside beside;
};

/* The options --to, --world, --group, --tensor, --max-file, which the command must have. An exit code. */
int export_order_read(const struct cli *cli, struct export_order *order);
/* The checkpoint of the first argument. An exit code; all messages are printed. */
int export_run(struct cli *cli, const struct export_order *order);

#endif
