#include "cluster/link/rumours.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cluster/link/neighbours.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS CLOCK_NS_PER_MS
#define S CLOCK_NS_PER_S
#define LIMIT (1000 * MS)

static struct rumours known;
static uint64_t now;

static void setup(void)
{
	known = (struct rumours){.lost_at = 0};
	now = 100 * S;
}

TestSuite(rumours, .init = setup);

static struct rumour of(uint32_t by, uint32_t ms)
{
	return (struct rumour){.node = 7, .by = by, .ms = ms, .hops = 64};
}

static bool doubt(uint32_t by, uint32_t ms)
{
	struct rumour r = of(by, ms);
	return rumours_doubt(&known, &r, LIMIT, now);
}

static bool lost(uint32_t by, uint32_t ms)
{
	struct rumour r = of(by, ms);
	return rumours_lost(&known, &r, now);
}

Test(rumours, they_come_back_and_no_other_length_does)
{
	AUTO_WBUF struct wbuf w = {0};
	struct rumour r = {1, 2, 3, 4}, back;
	rumour_encode(&r, &w);
	cr_assert_eq(w.len, RUMOUR_BYTES);
	cr_assert_eq(rumour_decode(w.data, w.len, &back), 0);
	cr_expect(back.node == 1 && back.by == 2 && back.ms == 3 && back.hops == 4);
	for (size_t n = 0; n < w.len; n++) {
		AUTO_FREE uint8_t *cut = malloc(n ? n : 1); /* of exact size: the sanitizer sees an overrun */
		memcpy(cut, w.data, n);
		cr_expect_eq(rumour_decode(cut, n, &back), -EBADMSG, "%zu bytes", n);
	}
	wbuf_u8(&w, 0);
	cr_expect_eq(rumour_decode(w.data, w.len, &back), -EBADMSG);
}

Test(rumours, a_doubt_is_told_on_once_by_each_of_two)
{
	cr_expect(doubt(1, 250));
	cr_expect(!doubt(1, 250));
	now += 300 * MS; /* the same, round the ring */
	cr_expect(!doubt(1, 250));
	cr_expect(doubt(2, 600));
	cr_expect(!doubt(2, 600));
	cr_expect(!doubt(3, 600), "two are enough");
}

Test(rumours, a_later_silence_is_another_doubt)
{
	cr_expect(doubt(1, 250));
	now += 3 * S;
	cr_expect(doubt(1, 250));
	cr_expect(doubt(3, 250));
}

Test(rumours, a_loss_is_told_on_once_whoever_says_so)
{
	cr_expect(lost(1, 0));
	cr_expect(!lost(1, 0));
	cr_expect(!lost(2, 0));
	now += 5 * S;
	cr_expect(!lost(2, 5000), "the same, told late");
	cr_expect(!lost(3, 0));
	now += RUMOUR_FRESH_S * S;
	cr_expect(lost(3, 0), "another one");
}

Test(rumours, an_old_loss_is_no_news)
{
	cr_expect(lost(1, 0));
	now += 30 * S;
	cr_expect(!lost(2, 30000));
}

Test(rumours, those_who_come_hear_of_a_fresh_loss)
{
	struct rumour r;
	cr_expect(!rumours_fresh(&known, &r, now));
	cr_expect(lost(1, 2000));
	now += 3 * S;
	cr_assert(rumours_fresh(&known, &r, now));
	cr_expect_eq(r.ms, 5000);
	now += RUMOUR_FRESH_S * S;
	cr_expect(!rumours_fresh(&known, &r, now));
}

Test(rumours, a_time_before_the_clock_began_is_its_beginning)
{
	now = 1000 * MS;
	cr_expect(lost(1, UINT32_MAX));
	cr_expect_eq(known.lost_at, 1);
}

/* ---- a ring of nodes, with sessions between neighbours alone -------------------------------------------------------------- */

enum { MANY = 2048 };

struct ring {
	unsigned n, lost;
	struct rumours *of;   /* by node: what it has told of the lost one */
	unsigned *said;       /* and how often it has said something */
	struct rumour *inbox; /* of those that are on their way */
	unsigned *to, *from, first, last;
};

static bool all_but_lost(const void *arg, unsigned node)
{
	return node != ((const struct ring *)arg)->lost;
}

static bool all(const void *arg, unsigned node)
{
	(void)arg, (void)node;
	return true;
}

static void tell(struct ring *r, unsigned self, unsigned from, struct rumour rumour)
{
	unsigned found[NEIGHBOURS];
	neighbours_find(r->n, self, all, r, found);
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		if (found[i] == r->lost || found[i] == from)
			continue;
		r->to[r->last] = found[i];
		r->from[r->last] = self;
		r->inbox[r->last++] = rumour;
		r->said[self]++;
	}
}

static void hear(struct ring *r)
{
	struct rumour rumour = r->inbox[r->first];
	unsigned self = r->to[r->first], from = r->from[r->first];
	r->first++;
	if (rumours_lost(&r->of[self], &rumour, now) && rumour.hops--)
		tell(r, self, from, rumour);
}

/* Messages of the one that says most; all have heard of it. */
static unsigned most_said(unsigned n)
{
	unsigned watchers[NEIGHBOURS], most = 0, unheard = 0;
	struct ring r = {.n = n,
			 .lost = n / 3,
			 .of = calloc(n, sizeof(*r.of)),
			 .said = calloc(n, sizeof(*r.said)),
			 .inbox = calloc(8 * n, sizeof(*r.inbox)),
			 .to = calloc(8 * n, sizeof(*r.to)),
			 .from = calloc(8 * n, sizeof(*r.from))};
	neighbours_find(n, r.lost, all_but_lost, &r, watchers);
	for (unsigned i = 0; i < NEIGHBOURS; i++) {
		struct rumour rumour = {.node = r.lost, .by = watchers[i], .hops = n};
		if (rumours_lost(&r.of[watchers[i]], &rumour, now))
			tell(&r, watchers[i], r.lost, rumour);
	}
	while (r.first < r.last)
		hear(&r);
	for (unsigned i = 0; i < n; i++) {
		most = r.said[i] > most ? r.said[i] : most;
		unheard += i != r.lost && !r.of[i].lost_at;
	}
	cr_expect_eq(unheard, 0, "%u of %u have not heard", unheard, n);
	free(r.of);
	free(r.said);
	free(r.inbox);
	free(r.to);
	free(r.from);
	return most;
}

Test(rumours, all_hear_of_a_loss_by_as_many_messages_in_a_cluster_of_any_size)
{
	cr_expect_leq(most_said(16), NEIGHBOURS);
	cr_expect_leq(most_said(64), NEIGHBOURS);
	cr_expect_leq(most_said(MANY), NEIGHBOURS);
}
