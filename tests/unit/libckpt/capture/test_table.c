#include "client/capture/table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct table *t, const char *name, struct region *pieces, uint32_t n, struct err *err)
{
	struct entry e = {.name = strdup(name),
			  .kind = ENTRY_TENSOR,
			  .dtype = DTYPE_F32,
			  .shape = {1, {100}},
			  .group = "params",
			  .npieces = n,
			  .pieces = calloc(n + 1, sizeof(*pieces))};
	struct held h = {.device = -1, .places = calloc(n + 1, sizeof(*h.places))};
	memcpy(e.pieces, pieces, n * sizeof(*pieces));
	int rc = table_add(t, &e, &h, err);
	if (rc) {
		free(e.name);
		free(e.pieces);
		free(h.places);
	}
	return rc;
}

Test(table, names_are_found_among_many)
{
	struct table t;
	char name[32];
	struct region whole = region_flat(0, 100);
	table_init(&t, 0, 1);
	cr_assert_eq(table_find(&t, "t0"), -ENOENT);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		cr_assert_eq(add(&t, name, &whole, 1, NULL), 0);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		cr_assert_eq(table_find(&t, name), i);
	}
	cr_assert_eq(table_find(&t, "t5000"), -ENOENT);
	table_free(&t);
}

Test(table, a_name_is_taken_once)
{
	struct table t;
	struct err err = {0};
	struct region whole = region_flat(0, 100);
	table_init(&t, 0, 1);
	cr_assert_eq(add(&t, "w", &whole, 1, &err), 0);
	cr_assert_eq(add(&t, "w", &whole, 1, &err), -EEXIST);
	cr_assert(strstr(err.text, "the name \"w\" is taken"), "%s", err.text);
	cr_assert_eq(t.reg.nentries, 1);
	table_free(&t);
}

Test(table, sealing_checks_as_the_daemon_does)
{
	struct table t;
	struct err err = {0};
	struct region pieces[] = {region_flat(0, 60), region_flat(50, 50)};
	table_init(&t, 0, 1);
	cr_assert_eq(add(&t, "w", pieces, 2, &err), 0);
	cr_assert_eq(table_seal(&t, &err), -EEXIST);
	cr_assert(strstr(err.text, "w"), "%s", err.text);
	cr_assert_not(table_sealed(&t));
	table_free(&t);
	table_init(&t, 0, 1);
	pieces[1] = region_flat(60, 40);
	cr_assert_eq(add(&t, "w", pieces, 2, &err), 0);
	cr_assert_eq(table_seal(&t, &err), 0, "%s", err.text);
	cr_assert(table_sealed(&t));
	table_free(&t);
}

Test(table, an_empty_table_can_be_sealed)
{
	struct table t;
	struct err err = {0};
	table_init(&t, 0, 1);
	cr_assert_eq(table_seal(&t, &err), 0, "%s", err.text);
	table_free(&t);
}

Test(table, packed_memory_is_recognised)
{
	struct region box = {.kind = REGION_BOX, .extent = {4, 1, 6}};
	struct place place;
	place_pack(&box, 3, 2, place.stride);
	cr_assert_eq(place.stride[0], 12);
	cr_assert_eq(place.stride[2], 2);
	cr_assert(place_packed(&place, &box, 3, 2));
	place.stride[1] = 4711; /* one step is never taken */
	cr_assert(place_packed(&place, &box, 3, 2));
	place.stride[0] = 16;
	cr_assert_not(place_packed(&place, &box, 3, 2));
}

Test(table, moves_are_known_until_others_have_taken_their_place)
{
	struct table t;
	struct err err;
	char here, there;
	table_init(&t, 0, 1);
	struct region whole = region_flat(0, 1);
	cr_assert_eq(add(&t, "a", &whole, 1, &err), 0, "%s", err.text);
	cr_assert_eq(add(&t, "b", &whole, 1, &err), 0, "%s", err.text);
	cr_assert_not(table_moves_known(&t, 0));
	table_move(&t, 1, 0, &here);
	table_move(&t, 1, 0, &here);
	cr_assert_eq(t.moves, 1, "it is there already");
	cr_assert(t.moved[0].entry == 1 && t.moved[0].piece == 0 && table_moves_known(&t, 0));
	for (uint64_t k = 1; k < TABLE_MOVES; k++)
		table_move(&t, 0, 0, k % 2 ? &there : &here);
	cr_assert(t.moves == TABLE_MOVES && table_moves_known(&t, 0));
	table_move(&t, 1, 0, &there);
	cr_assert(!table_moves_known(&t, 0) && table_moves_known(&t, 1));
	table_free(&t);
}
