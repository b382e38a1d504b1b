/* The tables of ckpt recoveries. */
#ifndef CKPT_CLI_RECOVERIES_H
#define CKPT_CLI_RECOVERIES_H

#include "frame/output.h"

/* list: objects as in the daemon's status, with "job" and "node". What a daemon of another version leaves out is shown as not known. */
void recoveries_table(const json_t *list, bool ranks);

#endif
