#include "control/lemon/lemon.h"

#include "format/document/json_in.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HOUR 3600000000000ull
#define DAY (24 * HOUR)

static struct lemon lemon;

static void setup(void)
{
	lemon = (struct lemon){.name = "gpu3"};
}

TestSuite(lemon, .init = setup);

Test(lemon, failures_count_within_the_window)
{
	lemon_add(&lemon, 1 * DAY, "gpt", "rank 1 is lost");
	lemon_add(&lemon, 2 * DAY, "gpt", "rank 1 is lost");
	cr_assert_eq(lemon_count(&lemon, 2 * DAY, DAY), 2u);
	cr_assert_eq(lemon_count(&lemon, 2 * DAY + 1, DAY), 1u);
	cr_assert_eq(lemon_count(&lemon, 4 * DAY, DAY), 0u);
	cr_assert_eq(lemon_count(&lemon, 1 * DAY, HOUR), 2u, "clocks that differ lose nothing");
}

Test(lemon, the_last_ones_are_remembered)
{
	for (uint64_t i = 1; i <= LEMON_FAILURES + 5; i++)
		lemon_add(&lemon, i, "gpt", "x");
	cr_assert_eq(lemon.n, (uint32_t)LEMON_FAILURES);
	cr_assert_eq(lemon.failures[0].at_ns, 6u);
	cr_assert_eq(lemon.failures[LEMON_FAILURES - 1].at_ns, LEMON_FAILURES + 5u);
}

Test(lemon, one_is_who_fails_often_and_much_more_often_than_the_others)
{
	cr_expect(!lemon_is(2, 3, 0, 9), "too few");
	cr_expect(lemon_is(3, 3, 0, 9));
	cr_expect(lemon_is(3, 3, 12, 9), "the others have 1.33 each");
	cr_expect(!lemon_is(3, 3, 14, 9), "the others have 1.56 each");
	cr_expect(!lemon_is(10, 3, 45, 9), "a program that crashes everywhere");
	cr_expect(!lemon_is(3, 3, 0, 0), "there is nobody else");
	cr_expect(!lemon_is(100, 0, 0, 9), "nobody ever is");
}

/* Losses that are drawn alike over all nodes: how many nodes are taken for lemons after so many, of which half hit node 0 if it is bad. */
static unsigned drawn(uint64_t seed, uint32_t nodes, uint32_t losses, bool bad, bool *first)
{
	uint32_t count[64] = {0};
	bool is[64] = {false};
	unsigned n = 0;
	for (uint32_t i = 1; i <= losses; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t hit = bad && i % 2 ? 0 : (uint32_t)((seed >> 33) % nodes);
		count[hit]++;
		is[hit] |= lemon_is(count[hit], 3, i - count[hit], nodes - 1);
	}
	for (uint32_t i = 0; i < nodes; i++)
		n += is[i];
	*first = is[0];
	return n;
}

Test(lemon, a_bad_node_is_found_among_many)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		bool first;
		drawn(seed, 32, 6, true, &first);
		cr_assert(first, "seed %lu", (unsigned long)seed);
	}
}

Test(lemon, the_reason_names_how_often_and_the_last)
{
	lemon_add(&lemon, DAY, "gpt", "rank 1 is lost: killed");
	lemon_set_aside(&lemon, DAY, 3, DAY);
	cr_assert_eq(lemon.since_ns, DAY);
	cr_assert_str_eq(lemon.reason, "it has failed 3 times within 24 h, last in job gpt: rank 1 is lost: killed");
	lemon_set_aside(&lemon, DAY, 2, 90 * 60000000000ull);
	cr_assert(strstr(lemon.reason, "2 times within 90 min,"));
	lemon_set_aside(&lemon, DAY, 2, 1500000000ull);
	cr_assert(strstr(lemon.reason, "2 times within 1 s,"));
}

Test(lemon, what_two_have_noted_is_one)
{
	struct lemon other = {.name = "gpu3"};
	lemon_add(&lemon, 1, "a", "x");
	lemon_add(&lemon, 4, "b", "y");
	lemon_add(&other, 1, "a", "x");
	lemon_add(&other, 2, "c", "z");
	lemon_set_aside(&other, 5, 3, DAY);
	lemon_merge(&lemon, &other);
	cr_assert_eq(lemon.n, 3u);
	cr_assert(lemon.failures[0].at_ns == 1 && lemon.failures[1].at_ns == 2 && lemon.failures[2].at_ns == 4);
	cr_assert_eq(lemon.since_ns, 5u);
	cr_assert_str_eq(lemon.reason, other.reason);
	for (uint64_t i = 0; i < LEMON_FAILURES; i++) {
		lemon_add(&lemon, 100 + 2 * i, "a", "x");
		lemon_add(&other, 101 + 2 * i, "a", "x");
	}
	lemon_merge(&lemon, &other);
	cr_assert_eq(lemon.n, (uint32_t)LEMON_FAILURES);
	for (uint32_t i = 1; i < lemon.n; i++)
		cr_assert_lt(lemon.failures[i - 1].at_ns, lemon.failures[i].at_ns);
}

static int read_back(const char *text, struct lemon *out)
{
	struct jin in;
	struct err err = {{0}};
	jin_open(&in, text, strlen(text), "it", &err);
	lemon_read(&in, out);
	return jin_close(&in);
}

Test(lemon, its_record_is_read_back_whole)
{
	AUTO_WBUF struct wbuf w = {0};
	struct lemon out;
	lemon_add(&lemon, UINT64_MAX, "gpt", "node \"x\"\nis lost");
	lemon_add(&lemon, UINT64_MAX, "gpt", "");
	lemon_set_aside(&lemon, 17, 3, DAY);
	lemon_put(&lemon, &w);
	wbuf_u8(&w, 0);
	cr_assert_eq(wbuf_finish(&w), 0);
	cr_assert_eq(read_back((const char *)w.data, &out), 0);
	cr_assert_eq(memcmp(&out, &lemon, sizeof(out)), 0);
}

Test(lemon, its_record_has_a_bound)
{
	AUTO_WBUF struct wbuf w = {0};
	char why[LEMON_WHY_MAX];
	memset(why, 1, sizeof(why) - 1); /* six characters each */
	why[sizeof(why) - 1] = '\0';
	for (int i = 0; i < LEMON_FAILURES; i++)
		lemon_add(&lemon, UINT64_MAX, "gpt", why);
	lemon_set_aside(&lemon, UINT64_MAX, 3, DAY);
	lemon_put(&lemon, &w);
	cr_assert_eq(wbuf_finish(&w), 0);
	cr_assert_leq(w.len, (size_t)LEMON_BYTES_MAX);
}

Test(lemon, what_is_no_record_is_refused)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"name\":\"a\",\"since_ns\":0,\"reason\":\"\"}",
		"{\"name\":\"a/b\",\"since_ns\":0,\"reason\":\"\",\"failures\":[]}",
		"{\"name\":\"a\",\"since_ns\":-1,\"reason\":\"\",\"failures\":[]}",
		"{\"name\":\"a\",\"since_ns\":0,\"reason\":\"\",\"failures\":[{\"at_ns\":1}]}",
		"{\"name\":\"a\",\"since_ns\":0,\"reason\":\"\",\"failures\":[}",
	};
	struct lemon out;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(read_back(bad[i], &out), -EBADMSG, "%s", bad[i]);
	cr_expect_eq(read_back("{\"name\":\"a\",\"since_ns\":0,\"reason\":\"\",\"failures\":[]}", &out), 0);
}
