#include "launcher/launch_dismissed.h"

#include "base/cleanup.h"

#include <signal.h>

void dismissed_add(struct dismissed *d, struct proc *proc, uint64_t kill_at)
{
	bool room = d->n < WIRE_LOCAL_MAX;
	if (!proc->pid)
		return;
	proc_signal(proc, room && kill_at ? SIGTERM : SIGKILL);
	if (room) {
		d->of[d->n].kill_at = kill_at ? kill_at : UINT64_MAX;
		d->of[d->n++].proc = *proc;
	} else {
		cleanup_close(&proc->pidfd);
	}
	*proc = (struct proc){.pidfd = -1};
}

void dismissed_tick(struct dismissed *d, uint64_t now)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->of[i].kill_at > now)
			continue;
		proc_signal(&d->of[i].proc, SIGKILL);
		d->of[i].kill_at = UINT64_MAX;
	}
}

void dismissed_kill(struct dismissed *d)
{
	for (uint32_t i = 0; i < d->n; i++)
		d->of[i].kill_at = 0;
	dismissed_tick(d, 0);
}

uint64_t dismissed_next(const struct dismissed *d)
{
	uint64_t next = UINT64_MAX;
	for (uint32_t i = 0; i < d->n; i++)
		next = d->of[i].kill_at < next ? d->of[i].kill_at : next;
	return next;
}

bool dismissed_reap(struct dismissed *d, pid_t pid)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->of[i].proc.pid != pid)
			continue;
		proc_reap(&d->of[i].proc, pid);
		d->of[i] = d->of[--d->n];
		return true;
	}
	return false;
}
