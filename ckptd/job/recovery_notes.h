/* What is noted of a recovery when it is over: a line of the span log, and a row of the catalog. Of a store that several
 * nodes share the first one has the catalog, and the others tell it. */
#ifndef CKPTD_JOB_RECOVERY_NOTES_H
#define CKPTD_JOB_RECOVERY_NOTES_H

#include "format/message/peer_coord.h"

#include <stdint.h>

struct job;
struct roster;
struct storage;

void job_init_recoveries(struct job *job);
/* What another node has recovered of a job, which need not be here, nor still be. */
void recovery_notes_hear(const struct storage *storage, const struct roster *roster, uint32_t node, const char *job,
			 const struct peer_recovered *m);

#endif
