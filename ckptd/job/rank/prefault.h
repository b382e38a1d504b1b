/* Prefault: the pages of an arena are first touched here, in the background, and not by the first save. Behind that, the
 * disk pins them slice by slice for its fixed buffers. Both take seconds for a large arena: the workers touch, and the
 * loop's thread, which has to pin, is never held longer than one slice takes.
 *
 * An arena of the kernel's pool of huge pages is filled first, and only then handed out: that has 10 GB/s. Ordinary pages
 * have 0.3 to 2, and are touched while the ranks go on. Those wait while the ranks of a job are on their way back to work
 * (recoveries_return): to clear and to collect pages takes processors and memory from them. Not where a rank waits for
 * them, to pin them for its GPUs. */
#ifndef CKPTD_JOB_PREFAULT_H
#define CKPTD_JOB_PREFAULT_H

struct jobs;
struct memory;

/* Nothing is lost when it fails: first saves touch the pages, and writes go unregistered. An arena that cannot be filled
 * is moved into ordinary pages; where not even that is possible it gets `failed`. */
void prefault_start(struct jobs *jobs, struct memory *mem);
/* Every tick: what waits goes on when it may. */
void prefaults_tick(struct jobs *jobs);
/* When the workers have ended. */
void prefaults_free(struct jobs *jobs);

#endif
