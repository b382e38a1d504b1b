#include "shutdown.h"

#include "base/clock.h"
#include "checkpoint/room.h"
#include "control/room.h"
#include "faults/room.h"
#include "job/room.h"
#include "observe/room.h"
#include "store/disk/disk.h"
#include "upkeep/room.h"

enum {
	LATE_MS = 2000, /* before the deadline */
	COPY_MS = 1000, /* for what is being copied */
};

bool shutdown_at_work(struct daemon *d)
{
	if ((d->storage.disk && disk_pending(d->storage.disk)) || space_busy(d->storage.space) ||
	    !gc_idle(d->storage.gc) || !scrub_idle(d->storage.scrub))
		return true;
	list_for(node, &d->jobs.list) {
		const struct job *job = list_entry(node, struct job, link);
		if (saves_at_work(&job->saves) || host_busy(&d->control, job->name) || !restore_idle(&job->restore) ||
		    !health_marks_idle(&job->health_marks))
			return true;
	}
	return spills_at_work(&d->jobs) || hosts_at_work(&d->control);
}

void shutdown_begin(struct shutdown *shutdown, struct daemon *d, uint64_t now)
{
	d->runtime.stopping = true;
	*shutdown = (struct shutdown){.copied_ns = now + COPY_MS * CLOCK_NS_PER_MS,
				      .late_ns = now + (SHUTDOWN_MS - LATE_MS) * CLOCK_NS_PER_MS,
				      .deadline_ns = now + SHUTDOWN_MS * CLOCK_NS_PER_MS};
	faults_end(d->observe.faults);
	meter_open(&d->storage.reads); /* what is in flight ends without limits */
	throttle_open(&d->storage.writes);
	scrub_tick(d->storage.scrub);
	list_for(node, &d->jobs.list)
		recoveries_end(&list_entry(node, struct job, link)
					->recovery_log); /* while there are a catalog and a first node */
}

/* Nobody waits for it any more. */
static void cancel_restores(struct daemon *d)
{
	list_for(node, &d->jobs.list)
		restore_cancel(&list_entry(node, struct job, link)->restore);
	spills_abandon(&d->jobs, NULL);
}

/* A save that waits for its coordinator, or for other nodes, ends no more when those are lost. What was written stays, as after a crash. */
static void abandon_saves(struct daemon *d, bool late)
{
	list_for(node, &d->jobs.list) {
		struct job *job = list_entry(node, struct job, link);
		if (job->spread && (late || !coordinator_in_reach(&d->control, job->name)))
			saves_abandon(&job->saves, "this daemon ends, and nobody says what becomes of it");
		if (late)
			saves_stop_reading(&job->saves);
	}
	if (late)
		hosts_abandon(&d->control);
}

/* A copy ends soon; its fence may be a step of the training away. */
static void end_open_saves(struct daemon *d, bool leave)
{
	list_for(node, &d->jobs.list) {
		struct job *job = list_entry(node, struct job, link);
		if (saves_end_open(&job->saves, leave))
			host_leave_directories(&d->control, job->name);
	}
}

int shutdown_tick(struct shutdown *shutdown, struct daemon *d, uint64_t now)
{
	if (!shutdown->begun)
		cancel_restores(d);
	shutdown->begun = true;
	outbox_deliver(&d->control);
	if (!shutdown_at_work(d))
		return 0;
	if (now >= shutdown->deadline_ns)
		return -ETIMEDOUT;
	gc_tick(d->storage.gc);
	scrub_tick(d->storage.scrub);
	end_open_saves(d, now >= shutdown->copied_ns);
	abandon_saves(d, now >= shutdown->late_ns);
	return -EAGAIN;
}
