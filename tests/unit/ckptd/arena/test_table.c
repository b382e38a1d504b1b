#include "base/cleanup.h"
#include "ckptd/job_maker.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>

static struct registration sample(uint64_t rows)
{
	struct registration reg = {.world = 1};
	struct shape shape = shape1(rows);
	add_tensor(&reg, "w", DTYPE_F32, shape, "", region_whole(&shape));
	return reg;
}

static struct table *table_of(uint64_t rows)
{
	struct registration reg = sample(rows);
	return maker_table(&reg);
}

Test(table, equal_registrations_make_equal_tables)
{
	struct table *a = table_of(8), *b = table_of(8), *c = table_of(9);
	cr_assert(table_equal(a, b));
	cr_assert_not(table_equal(a, c));
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(registration_encode(&b->reg, &out), 0);
	cr_assert_eq(out.len, b->bytes);
	cr_assert(digest_equal(digest_bytes(out.data, out.len), b->digest));
	table_put(a);
	table_put(b);
	table_put(c);
}

/* The sanitizer sees a table that goes too early, or never. */
Test(table, the_last_who_lets_go_frees_it)
{
	struct table *a = table_of(8), *b = table_get(a);
	table_put(a);
	cr_assert_eq(b->reg.nentries, 1u);
	cr_assert_str_eq(b->reg.entries[0].name, "w");
	table_put(b);
	table_put(NULL);
}

Test(table, what_cannot_be_decoded_makes_none)
{
	struct table *table = NULL;
	struct err err = {{0}};
	cr_assert_eq(table_decode("abc", 3, &table, &err), -EBADMSG);
	cr_assert_null(table);
	cr_assert(*err.text);
}
