#include "registry/mirror_private.h"

#include "registry/answer_private.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mirror m;

static int put(const char *key, const char *value, uint64_t created, uint64_t changed)
{
	struct answer_record record = {strdup(key), strdup(value), strlen(value), created, changed, 3, false};
	int rc = mirror_put(&m, &record);
	free(record.key);
	free(record.value);
	return rc;
}

static void begin(void)
{
	m = mirror_empty(1000, 1 << 20);
}

static void end(void)
{
	mirror_free(&m);
}

TestSuite(mirror, .init = begin, .fini = end);

/* All keys that begin so. */
static const char *keys(const char *prefix)
{
	static char text[256];
	text[0] = 0;
	for (const struct mirror_record *r = NULL; (r = mirror_next(&m, prefix, r));)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", r->key);
	return text;
}

Test(mirror, in_the_order_of_their_keys)
{
	static const char *const given[] = {"b/2", "a", "b/1", "c", "b", "b/10", "b0"};
	for (size_t i = 0; i < 7; i++)
		cr_assert_eq(put(given[i], "v", 1, 1), 1);
	cr_assert_str_eq(keys(""), "a b b/1 b/10 b/2 b0 c ");
	cr_assert_str_eq(keys("b/"), "b/1 b/10 b/2 ");
	cr_assert_str_eq(keys("b/1"), "b/1 b/10 ");
	cr_assert_str_eq(keys("d"), "");
	cr_assert_str_eq(mirror_find(&m, "b/10")->key, "b/10");
	cr_assert_null(mirror_find(&m, "b/"));
}

Test(mirror, only_what_differs_is_news)
{
	cr_assert_eq(put("k", "v", 5, 5), 1);
	cr_assert_eq(put("k", "v", 5, 5), 0);
	cr_assert_eq(put("k", "v", 5, 6), 1);
	cr_assert_eq(put("k", "w", 5, 6), 1); /* the registry was restored: the same revision, another past */
	cr_assert_eq(put("k", "w", 4, 6), 1);
	cr_assert_eq(put("k", "", 4, 6), 1);
	cr_assert_eq(mirror_find(&m, "k")->len, 0u);
	cr_assert_eq(m.n, 1u);
}

Test(mirror, a_deletion_is_newer_than_what_it_deletes)
{
	put("k", "v", 5, 7);
	cr_assert_null(mirror_remove(&m, "k", 7));
	cr_assert_null(mirror_remove(&m, "k", 6));
	cr_assert_null(mirror_remove(&m, "l", 9));
	struct mirror_record *record = mirror_remove(&m, "k", 8);
	cr_assert_str_eq(record->key, "k");
	mirror_record_free(record);
	cr_assert_eq(m.n, 0u);
	cr_assert_eq(m.bytes, 0u);
}

Test(mirror, what_was_not_seen_in_a_round_is_swept)
{
	size_t at = 0;
	char gone[64] = "";
	for (const char *k = "abcdef"; *k; k++)
		put((char[]){*k, 0}, "v", 1, 2);
	mirror_unmark(&m);
	cr_expect(mirror_mark(&m, "b", 1, 2));
	cr_expect_not(mirror_mark(&m, "c", 1, 3), "another one of that name");
	cr_expect_not(mirror_mark(&m, "x", 1, 2));
	put("e", "v", 1, 2);
	put("g", "v", 9, 9);
	for (struct mirror_record *r; (r = mirror_sweep(&m, &at));) {
		strncat(gone, r->key, 1);
		mirror_record_free(r);
	}
	cr_assert_str_eq(gone, "acdf");
	cr_assert_str_eq(keys(""), "b e g ");
}

Test(mirror, it_is_bounded_in_number)
{
	char key[16];
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%04u", i * 7 % 1000);
		cr_assert_eq(put(key, "v", 1, 1), 1);
	}
	cr_assert_eq(put("one more", "v", 1, 1), -ENOSPC);
	cr_assert_eq(put("0007", "w", 1, 2), 1);
	cr_assert_eq(m.n, 1000u);
	for (size_t i = 1; i < m.n; i++)
		cr_assert_lt(strcmp(m.records[i - 1]->key, m.records[i]->key), 0);
}

Test(mirror, and_in_bytes)
{
	static char big[(1 << 20) - 150];
	memset(big, 'v', sizeof(big) - 1);
	cr_assert_eq(put("k", big, 1, 1), 1);
	cr_assert_eq(put("l", "12345678901234567890123456789012345678901234567890", 1, 1), -ENOSPC);
	cr_assert_eq(put("k", "12345678901234567890123456789012345678901234567890", 1, 2), 1);
	cr_assert_eq(put("l", "12345678901234567890123456789012345678901234567890", 1, 1), 1);
	cr_assert_eq(put("l", big, 1, 2), -ENOSPC);
	cr_assert_eq(mirror_find(&m, "l")->len, 50u);
}
