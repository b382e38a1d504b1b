#include "launcher/launch.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static bool overridden(const char *entry, const struct env_pair *pairs, size_t n)
{
	size_t len = strcspn(entry, "=");
	for (size_t i = 0; i < n; i++) {
		if (strlen(pairs[i].name) == len && !memcmp(entry, pairs[i].name, len))
			return true;
	}
	return false;
}

static size_t put_pair(char *dst, const char *end, const struct env_pair *pair)
{
	return (size_t)snprintf(dst, (size_t)(end - dst), "%s=%s", pair->name, pair->value) + 1;
}

/* One block: the pointers, then the new texts. */
char **env_with(const struct env_pair *pairs, size_t n)
{
	size_t count = 0, bytes = 0, at = 0;
	while (environ && environ[count])
		count++;
	for (size_t i = 0; i < n; i++)
		bytes += strlen(pairs[i].name) + strlen(pairs[i].value ? pairs[i].value : "") + 2;
	char **env = malloc((count + n + 1) * sizeof(*env) + bytes);
	if (!env)
		return NULL;
	char *text = (char *)(env + count + n + 1), *end = text + bytes;
	for (size_t i = 0; i < count; i++) {
		if (!overridden(environ[i], pairs, n))
			env[at++] = environ[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (!pairs[i].value)
			continue;
		env[at++] = text;
		text += put_pair(text, end, &pairs[i]);
	}
	env[at] = NULL;
	return env;
}

char **env_of_rank(const struct launch *launch, const struct launch_rank *rank)
{
	char r[16], world[16], local[24], here[16], epoch[16];
	snprintf(r, sizeof(r), "%u", rank->id);
	snprintf(world, sizeof(world), "%u", launch->world);
	snprintf(local, sizeof(local), "%td", rank - launch->ranks);
	snprintf(here, sizeof(here), "%u", launch->nranks);
	snprintf(epoch, sizeof(epoch), "%u", launch->epoch);
	AUTO_FREE char *faults = inject_played(launch->faults, launch->nfaults, rank->id);
	if (!faults)
		return NULL;
	const struct env_pair pairs[] = {
		{"CKPT_ADDRESS", launch->address},
		{"CKPT_PLAY", *faults ? faults : NULL},
		{"CKPT_JOB", launch->options.job},
		{"CKPT_SOCKET", launch->keeper.socket},
		{"CKPT_RANK", r},
		{"CKPT_WORLD", world},
		{"CKPT_LOCAL_WORLD", here},
		{"CKPT_EPOCH", epoch},
		{"RANK", r},
		{"WORLD_SIZE", world},
		{"LOCAL_RANK", local},
		{"LOCAL_WORLD_SIZE", here},
	};
	size_t skip = !launch->address[0]; /* then theirs, if it is set, is as good */
	return env_with(pairs + skip, sizeof(pairs) / sizeof(pairs[0]) - skip);
}
