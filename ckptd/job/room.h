/* Room job: the ranks of one job on this node: barriers, arenas, the end of the job, and its part of a changed
 * world.
 * May know: runtime, machine, service, coordinator, cluster, catalog, arena, checkpoint, replication,
 * participant, save, restore.
 * Invariants: an epoch is raised in the arenas first, then unfinished snapshots are given up, then everybody is
 * told. */
#ifndef CKPTD_JOB_ROOM_H
#define CKPTD_JOB_ROOM_H

#include "job/halt.h"
#include "job/job.h"
#include "job/jobs.h"
#include "job/monitor/interval.h"
#include "job/monitor/loss_watch.h"
#include "job/monitor/standstill.h"
#include "job/monitor/straggler_watch.h"
#include "job/participation.h"
#include "job/rank/barriers.h"
#include "job/rank/keeping.h"
#include "job/rank/prefault.h"
#include "job/recovery_notes.h"
#include "job/spill.h"

#endif
