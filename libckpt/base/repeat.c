#include "base/repeat.h"

#include "base/bytes.h"
#include "base/clock.h"

#define FIRST_NS (2 * CLOCK_NS_PER_S)
#define MOST_NS (600 * CLOCK_NS_PER_S)

/* FNV-1a */
static uint64_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h;
}

bool repeat_due(struct repeat *r, const char *text, uint64_t now)
{
	uint64_t is = hash(text);
	bool new = !r->gap_ns || is != r->text;
	if (!new &&now < r->next_ns)
		return false;
	r->text = is;
	r->gap_ns = new ? FIRST_NS : min_u64(2 * r->gap_ns, MOST_NS);
	r->next_ns = now + r->gap_ns;
	return true;
}
