#include "runtime/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_kill(const char *mask)
{
	return strtoull(mask, NULL, 16) & 1ull << (SIGKILL - 1);
}

/* Memory goes first: a process without any, whether zombie or on its way there, has no line VmSize. */
static bool status_tells_death(FILE *status)
{
	char line[256];
	bool has_memory = false, killed = false;
	while (fgets(line, sizeof(line), status)) {
		has_memory |= !strncmp(line, "VmSize:", 7);
		if (!strncmp(line, "SigPnd:", 7) || !strncmp(line, "ShdPnd:", 7))
			killed |= has_kill(line + 7);
	}
	return killed || !has_memory;
}

struct process_text process_text(pid_t pid)
{
	struct process_text t = {"process of another PID namespace"};
	if (pid >= 0)
		snprintf(t.text, sizeof(t.text), "process %d", (int)pid);
	return t;
}

bool process_is_dying(pid_t pid)
{
	char path[32];
	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *status = fopen(path, "re");
	if (!status)
		return kill(pid, 0) < 0 && errno == ESRCH;
	bool dying = status_tells_death(status);
	fclose(status);
	return dying;
}

bool process_is_stopped(pid_t pid)
{
	char path[32], line[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *stat = fopen(path, "re");
	const char *name_end = stat && fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
	if (stat)
		fclose(stat);
	return name_end && name_end[1] == ' ' && name_end[2] == 'T';
}
