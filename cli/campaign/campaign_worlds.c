#include "campaign/campaign_worlds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRETCHES_MAX = 1 << 20, LINE_BYTES_MAX = 4096 };

/* As loop_tell_entry of the trainer writes it. */
static bool parse(const char *line, struct campaign_stretch *out)
{
	const char *at = strstr(line, "rank 0: epoch "), *step = at ? strstr(at, " at step ") : NULL;
	return step && sscanf(at, "rank 0: epoch %" SCNu32 ": %" SCNu32 " ranks", &out->epoch, &out->world) == 2 &&
	       sscanf(step, " at step %" SCNu64, &out->from) == 1;
}

static int put(struct campaign_stretches *all, const struct campaign_stretch *one)
{
	if (all->n == all->room) {
		size_t more = all->room ? 2 * all->room : 64;
		void *now = more <= STRETCHES_MAX ? realloc(all->of, more * sizeof(*all->of)) : NULL;
		if (!now)
			return -ENOMEM;
		all->of = now;
		all->room = more;
	}
	all->of[all->n++] = *one;
	return 0;
}

int campaign_worlds_read(const char *path, struct campaign_stretches *all, struct err *err)
{
	char line[LINE_BYTES_MAX];
	struct campaign_stretch one;
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(err, -errno, "%s: %s", path, err_name(-errno));
	int rc = 0;
	while (!rc && fgets(line, sizeof(line), f))
		if (parse(line, &one))
			rc = put(all, &one);
	fclose(f);
	return rc ? err_set(err, rc, "%s: too many epochs", path) : 0;
}

static int by_epoch(const void *a, const void *b)
{
	const struct campaign_stretch *x = a, *y = b;
	return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

void campaign_worlds_settle(struct campaign_stretches *all)
{
	size_t n = 0;
	if (all->n)
		qsort(all->of, all->n, sizeof(*all->of), by_epoch);
	for (size_t i = 0; i < all->n; i++) {
		struct campaign_stretch one = all->of[i];
		while (n && all->of[n - 1].from >= one.from)
			n--;
		if (!n || all->of[n - 1].world != one.world)
			all->of[n++] = one;
	}
	all->n = n;
}
