#include "restore/piece_walk.h"

/* Those that have elements of the region, at the first of their runs, in their order. Returns how many. */
static size_t begin(const struct shape *shape, const struct region *wanted, struct walk_source *sources, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		struct walk_source s = sources[i];
		overlap_init(&s.overlap, shape, s.region, wanted);
		if (overlap_next(&s.overlap, &s.run))
			sources[kept++] = s;
	}
	return kept;
}

/* Goes on to the run that ends behind `at`. False: there is none. */
static bool reach(struct walk_source *s, uint64_t at)
{
	while (s->run.count && s->run.dst + s->run.count <= at)
		if (!overlap_next(&s->overlap, &s->run))
			s->run.count = 0;
	return s->run.count;
}

/* The first that has the element. NULL: none has; *next is where one goes on, at most what it was. */
static const struct walk_source *find(struct walk_source *sources, size_t n, uint64_t at, uint64_t *next)
{
	for (size_t i = 0; i < n; i++) {
		struct walk_source *s = &sources[i];
		if (!reach(s, at))
			continue;
		if (s->run.dst <= at)
			return s;
		if (s->run.dst < *next)
			*next = s->run.dst;
	}
	return NULL;
}

uint64_t piece_walk(const struct shape *shape, const struct region *wanted, uint64_t volume,
		    struct walk_source *sources, size_t n,
		    void (*fn)(void *arg, const struct walk_source *source, const struct region_run *run), void *arg)
{
	uint64_t lacking = 0;
	n = begin(shape, wanted, sources, n);
	for (uint64_t at = 0, next; at < volume; at = next) {
		next = volume;
		const struct walk_source *s = find(sources, n, at, &next);
		if (!s) {
			lacking += next - at;
			continue;
		}
		uint64_t skip = at - s->run.dst;
		struct region_run run = {.src = s->run.src + skip, .dst = at, .count = s->run.count - skip};
		next = at + run.count;
		if (fn)
			fn(arg, s, &run);
	}
	return lacking;
}
