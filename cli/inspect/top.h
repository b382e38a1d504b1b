/* One picture of ckpt top: top_frame.c draws it, top.c decides when. */
#ifndef CKPT_CLI_TOP_H
#define CKPT_CLI_TOP_H

#include "frame/output.h"

/* Draws the daemon's document on stdout, in at most `rows` lines (0: as many as it takes): what is longest gives way first, the
 * list of saves, then that of ranks. */
void top_draw(const json_t *status, int rows);

#endif
