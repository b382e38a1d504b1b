#include "format/message/field.h"
#include "format/tensor/names.h"

#include <criterion/criterion.h>
#include <string.h>

struct pair {
	uint32_t rank;
	bool late;
};

struct whole {
	uint32_t kind, n;
	struct pair of[3];
	struct step_id id;
	char why[8];
};

static const struct field pair_fields[] = {FIELD_U32_OF(struct pair, rank), FIELD_BOOL_OF(struct pair, late), {0}};
static const struct field whole_fields[] = {
	FIELD_U8_OF(struct whole, kind),
	FIELD_LIST_OF(struct whole, n, of, pair_fields),
	FIELD_ID_OF(struct whole, id),
	FIELD_TEXT_OF(struct whole, why),
	{0},
};

static const struct whole sample = {.kind = 7, .n = 2, .of = {{5, true}, {9, false}}, .id = {10, 3}, .why = "a\nb"};
static const uint8_t bytes[] = {7, 2, 0, 0, 0, 5, 0, 0, 0, 1, 9, 0, 0, 0,   0,    10,
				0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 'a', '\n', 'b'};

Test(field, a_table_is_the_order_on_the_wire)
{
	AUTO_WBUF struct wbuf w = {0};
	fields_put(&w, whole_fields, &sample);
	cr_assert_eq(w.len, sizeof(bytes));
	cr_assert_arr_eq(w.data, bytes, sizeof(bytes));
}

Test(field, what_was_put_comes_back_and_text_is_fit_to_be_shown)
{
	struct rbuf r = rbuf_of(bytes, sizeof(bytes));
	struct whole m = {0};
	fields_get(&r, whole_fields, &m);
	cr_assert_eq(rbuf_finish(&r), 0);
	cr_assert(m.kind == 7 && m.n == 2 && m.id.step == 10 && m.id.epoch == 3);
	cr_assert(m.of[0].rank == 5 && m.of[0].late && m.of[1].rank == 9 && !m.of[1].late);
	cr_assert_str_eq(m.why, "a b");
}

/* With another byte at this place, and no lack of bytes behind them. */
static bool is_refused(size_t at, uint8_t byte)
{
	uint8_t other[sizeof(bytes) + 64] = {0};
	struct whole m = {0};
	memcpy(other, bytes, sizeof(bytes));
	other[at] = byte;
	struct rbuf r = rbuf_of(other, sizeof(other));
	fields_get(&r, whole_fields, &m);
	return r.failed;
}

Test(field, more_elements_than_there_is_room_for_and_a_truth_of_two_are_refused)
{
	cr_assert(!is_refused(0, 255));
	cr_assert(is_refused(1, 4));
	cr_assert(is_refused(9, 2));
}

Test(field, no_table_is_no_bytes)
{
	AUTO_WBUF struct wbuf w = {0};
	fields_put(&w, NULL, &sample);
	cr_assert_eq(w.len, 0u);
}
