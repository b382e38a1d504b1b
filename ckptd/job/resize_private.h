/* Private to resize*.c: what a launcher offers, beside who is here. */
#ifndef CKPTD_JOB_RESIZE_PRIVATE_H
#define CKPTD_JOB_RESIZE_PRIVATE_H

#include "job/job.h"

#define RESIZE_GONE_ON "the job has gone on without this node"

bool resize_keeps_alive(const struct wire_offer *offer, uint32_t rank);
/* After a restart of the daemon the launcher knows which ranks are whose better than who has come by now. */
bool resize_resumes(const struct job *job, const struct wire_offer *offer);
/* Each of its ranks is here, or there is a place that nobody has yet. */
bool resize_fits(const struct job *job, const struct wire_offer *offer);
/* What those have under way who would have to go for these ranks is given up. -EAGAIN: workers are at it. -EINVAL, -EBUSY: nobody goes for
 * them. */
int resize_make_way(struct job *job, const struct wire_offer *offer, struct err *err);

#endif
