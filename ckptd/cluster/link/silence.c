#include "cluster/link/silence.h"

#include "base/bytes.h"

/* A limit takes so many looks at least, and one may be as late as that. */
enum { LOOKS = 10, LATE = 2 };

void silence_begin(struct silence *s, uint64_t limit, uint64_t every, uint64_t now)
{
	*s = (struct silence){.limit = limit, .each = max_u64(limit / LOOKS, LATE * every), .looked = now};
}

bool silence_look(struct silence *s, uint64_t now)
{
	s->silent += min_u64(now - s->looked, s->each);
	s->looked = now;
	return s->silent >= s->limit;
}

uint64_t silence_due(const struct silence *s, uint64_t part)
{
	uint64_t next = s->silent < part ? part : s->limit;
	return s->looked + min_u64(next - min_u64(s->silent, next), s->each / LATE);
}
