#include "cluster/link/silence.h"

#include "base/bytes.h"

/* A limit takes so many looks at least, and one may be as late as that. */
enum { LOOKS = 10, LATE = 2 };

void silence_begin(struct silence *s, uint64_t limit, uint64_t every, uint64_t now)
{
	*s = (struct silence){.limit = limit, .each = max_u64(limit / LOOKS, LATE * every), .looked = now};
}

void silence_break(struct silence *s, uint64_t now)
{
	s->silent = 0;
	s->looked = now;
}

bool silence_look(struct silence *s, uint64_t now)
{
	s->silent += min_u64(now - s->looked, s->each);
	s->looked = now;
	return s->silent >= s->limit;
}
