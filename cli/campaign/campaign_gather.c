/* What the ranks of each host have reported, in one file, in the order of time: hosts cannot append to a file that is of all. */
#include "campaign/campaign_hosts.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
	FILE *file;
	char *line;
	size_t room;
	uint64_t at_ns; /* of the line */
	bool over;
};

static void next(struct source *s)
{
	const char *at;
	s->over = !s->file || getline(&s->line, &s->room, s->file) < 0;
	if (!s->over && (at = strstr(s->line, "\"at_ns\":")))
		s->at_ns = strtoull(at + strlen("\"at_ns\":"), NULL, 10);
}

/* The one whose line is the oldest; NULL: all are over. */
static struct source *oldest(struct source *all, uint32_t n)
{
	struct source *found = NULL;
	for (uint32_t k = 0; k < n; k++)
		if (!all[k].over && (!found || all[k].at_ns < found->at_ns))
			found = &all[k];
	return found;
}

static int merge(struct source *all, uint32_t n, const char *path, struct err *err)
{
	FILE *to = fopen(path, "we");
	int failed = !to;
	for (struct source *s; !failed && (s = oldest(all, n)); next(s))
		failed = fputs(s->line, to) == EOF;
	for (uint32_t k = 0; !failed && k < n; k++)
		failed = all[k].file && ferror(all[k].file);
	if (to && fclose(to))
		failed = 1;
	return failed ? err_set(err, errno ? -errno : -EIO, "%s: %s", path, err_name(errno ? errno : EIO)) : 0;
}

int campaign_hosts_gather(const struct campaign *c, struct err *err)
{
	struct source all[HOSTS_MAX] = {{.file = NULL}};
	char path[PATH_MAX];
	for (uint32_t k = 0; k < c->hosts.n; k++) {
		all[k].file = fopen(campaign_node_path(c, k, "train.jsonl", path), "re");
		next(&all[k]);
	}
	int rc = c->hosts.n ? merge(all, c->hosts.n, campaign_path(c, "train.jsonl", path), err) : 0;
	for (uint32_t k = 0; k < c->hosts.n; k++) {
		free(all[k].line);
		if (all[k].file)
			fclose(all[k].file);
	}
	return rc;
}
