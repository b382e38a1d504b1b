/* A job of a daemon made by hand, with the arenas of ckptd/job_maker.h: for the tests of saves. */
#ifndef TESTS_UNIT_CKPTD_SAVE_SAVED_JOB_H
#define TESTS_UNIT_CKPTD_SAVE_SAVED_JOB_H

#include "ckptd/job_maker.h"
#include "daemon.h"
#include "job/job.h"

/* In the epoch of `id`, of which slot 0 of each arena is. spread: as many ranks again are on another node. Released by saves_free and maker_free. */
void saved_job_begin(struct daemon *d, struct job *job, struct rank ranks[MAKER_WORLD], struct maker *maker,
		     struct step_id id, bool spread);

#endif
