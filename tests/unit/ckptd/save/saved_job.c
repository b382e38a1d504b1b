#include "saved_job.h"

#include "ckptd/job_of.h"
#include "job/restoring.h"
#include "job/saving.h"

#include "base/log.h"

void saved_job_begin(struct daemon *d, struct job *job, struct rank ranks[MAKER_WORLD], struct maker *maker,
		     struct step_id id, bool spread)
{
	log_set_level(LOG_ERROR);
	daemon_init(d);
	list_init(&d->jobs.list);
	list_init(&d->control.hosts);
	outbox_init(&d->control.outbox);
	maker_new(maker, id);
	for (uint32_t r = 0; r < MAKER_WORLD; r++)
		ranks[r] = (struct rank){
			.job = job, .id = r, .index = r, .mem = maker->mem[r], .pidfd = -1, .arena_sent = true};
	*job = (struct job){JOB_OF(*d),
			    .name = "main",
			    .world = spread ? 2 * MAKER_WORLD : MAKER_WORLD,
			    .nlocal = MAKER_WORLD,
			    .epoch = id.epoch,
			    .nslots = ARENA_SLOTS_MIN,
			    .ranks = ranks,
			    .spread = spread};
	job_init_saves(job);
	copying_init(job);
	job_init_restore(job);
	list_push(&d->jobs.list, &job->link);
}
