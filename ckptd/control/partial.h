/* Partial: directories of commits that a crash, or the loss of their coordinator, cut short. Their snapshots may come back with an arena and be written again under the very
 * names. They are renamed, which keeps the bytes for whoever wants to look, until upkeep/gc.h collects them. */
#ifndef CKPTD_CONTROL_PARTIAL_H
#define CKPTD_CONTROL_PARTIAL_H

#include "base/err.h"

struct control;

/* Of all jobs whose directories no other daemon has locked. At the start, without a registry: with one nobody holds locks. */
int partials_move_all(struct control *control, struct err *err);
/* Of a job that is about to be coordinated here. */
int partials_move(struct control *control, const char *job, struct err *err);

#endif
