#include "remote/environment.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

char **environment_with(char *const *set, int n)
{
	size_t count = 0, kept = 0;
	while (environ[count])
		count++;
	char **env = calloc(count + (size_t)n + 1, sizeof(*env));
	for (size_t i = 0; env && i < count; i++)
		if (strncmp(environ[i], "CKPT_", 5) != 0 || !strncmp(environ[i], "CKPT_DEVICE=", 12) ||
		    !strncmp(environ[i], "CKPT_CONFIG=", 12))
			env[kept++] = environ[i];
	for (int i = 0; env && i < n; i++)
		env[kept++] = set[i];
	return env;
}
