#include "frame/filter.h"

#include "frame/output.h"

#include <fnmatch.h>
#include <string.h>

int filter_read(const struct cli *cli, const char *option, const char *list[FILTERS_MAX + 1])
{
	for (int n = 0; (list[n] = cli_repeat(cli, option, n)); n++)
		if (n == FILTERS_MAX)
			return cli_fail(cli, EXIT_USAGE, "--%s: more than %d", option, FILTERS_MAX);
	return EXIT_OK;
}

bool filter_names(const char *const *list, const char *word)
{
	for (const char *const *w = list; *w; w++)
		if (!strcmp(*w, word))
			return true;
	return !*list;
}

bool filter_matches(const char *const *list, const char *name)
{
	for (const char *const *g = list; *g; g++)
		if (!fnmatch(*g, name, 0))
			return true;
	return !*list;
}
