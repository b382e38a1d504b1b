#include "base/repeat.h"

#include "base/clock.h"

#include <criterion/criterion.h>

/* What is found out every second is said how often in so many seconds? */
static unsigned said(struct repeat *r, const char *text, unsigned from, unsigned to)
{
	unsigned n = 0;
	for (unsigned s = from; s < to; s++)
		n += repeat_due(r, text, s * CLOCK_NS_PER_S);
	return n;
}

Test(repeat, the_same_is_said_ever_more_rarely)
{
	struct repeat r = {0};
	cr_expect_eq(said(&r, "no", 10, 11), 1, "it is new");
	cr_expect_eq(said(&r, "no", 11, 12), 0);
	cr_expect_eq(said(&r, "no", 12, 16), 1);
	cr_expect_eq(said(&r, "no", 16, 24), 1);
	cr_expect_eq(said(&r, "no", 24, 3600), 11, "at last every 10 minutes");
}

Test(repeat, what_is_new_is_said_at_once)
{
	struct repeat r = {0};
	cr_expect_eq(said(&r, "no", 0, 100), 6);
	cr_expect_eq(said(&r, "still no", 100, 101), 1);
	cr_expect_eq(said(&r, "no", 101, 102), 1);
	r = (struct repeat){0};
	cr_expect_eq(said(&r, "no", 102, 103), 1, "it was over meanwhile");
}
