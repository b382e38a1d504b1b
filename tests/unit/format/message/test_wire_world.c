#include "format/message/wire.h"

#include "format/files/plan_record.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What is encoded comes back; every strict prefix and one byte too many are refused. The structs have no padding. */
#define ROUND_TRIP(name, in)                                                                                           \
	do {                                                                                                           \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {""};                                                                                \
		struct wire_##name back_;                                                                              \
		cr_assert_eq(wire_##name##_encode(&(in), &w_), 0);                                                     \
		cr_assert_eq(wire_##name##_decode(w_.data, w_.len, &back_, &err_), 0, "%s", err_.text);                \
		cr_assert_eq(memcmp(&(in), &back_, sizeof(back_)), 0);                                                 \
		for (size_t len_ = 0; len_ <= w_.len + 1; len_++) {                                                    \
			uint8_t *body_ = calloc(1, len_ + 1);                                                          \
			memcpy(body_, w_.data, len_ < w_.len ? len_ : w_.len);                                         \
			cr_assert_eq(wire_##name##_decode(body_, len_, &back_, &err_), len_ == w_.len ? 0 : -EBADMSG,  \
				     "length %zu of %zu", len_, w_.len);                                               \
			free(body_);                                                                                   \
		}                                                                                                      \
	} while (0)

#define REFUSED(name, in)                                                                                              \
	do {                                                                                                           \
		AUTO_WBUF struct wbuf w_ = {0};                                                                        \
		struct err err_ = {""};                                                                                \
		struct wire_##name back_;                                                                              \
		cr_assert_eq(wire_##name##_encode(&(in), &w_), 0);                                                     \
		cr_assert_eq(wire_##name##_decode(w_.data, w_.len, &back_, &err_), -EBADMSG);                          \
		cr_assert(*err_.text);                                                                                 \
	} while (0)

Test(wire_world, moved)
{
	struct wire_moved m = {.rank = 2, .world = 3, .local_world = 3};
	ROUND_TRIP(moved, m);
	m.rank = 3;
	REFUSED(moved, m);
	m = (struct wire_moved){.rank = 2, .world = 3};
	REFUSED(moved, m);
	m.local_world = 4;
	REFUSED(moved, m);
	m = (struct wire_moved){.rank = 2, .world = RANK_MAX + 1, .local_world = 1};
	REFUSED(moved, m);
}

Test(wire_world, offer)
{
	struct wire_offer m = {.want = 8,
			       .least = 4,
			       .processes = 3,
			       .spread = true,
			       .leaving = true,
			       .drained = true,
			       .plan = 2,
			       .n = 2,
			       .ranks = {5, 1}};
	ROUND_TRIP(offer, m);
	m.ranks[1] = 5;
	REFUSED(offer, m);
	m.ranks[1] = 8;
	REFUSED(offer, m);
	m.ranks[1] = 1;
	m.plan = 0;
	REFUSED(offer, m);
	m.plan = PLAN_FOLLOWED_MAX + 1; /* else the next plans had numbers that no record can hold */
	REFUSED(offer, m);
	m = (struct wire_offer){.want = 8, .least = 9, .processes = 3};
	REFUSED(offer, m);
	m.least = 0;
	REFUSED(offer, m);
	m = (struct wire_offer){.want = 8, .least = 8, .processes = WIRE_LOCAL_MAX + 1};
	REFUSED(offer, m);
	m = (struct wire_offer){.want = 8, .least = 8, .processes = 1, .plan = 1, .n = 2, .ranks = {0, 1}};
	REFUSED(offer, m);
}

Test(wire_world, plan)
{
	struct wire_plan m = {
		.number = 3, .world = 4, .n = 3, .ranks = {0, 3, 1}, .was = {0, WIRE_NEW_PROCESS, WIRE_NEW_PROCESS}};
	ROUND_TRIP(plan, m);
	m.was[1] = 0;
	REFUSED(plan, m);
	m = (struct wire_plan){.number = 3, .world = 4, .n = 2, .ranks = {0, 4}, .was = {0, 1}};
	REFUSED(plan, m);
	m.ranks[1] = 0;
	REFUSED(plan, m);
	m = (struct wire_plan){.world = 0};
	ROUND_TRIP(plan, m);
	m.number = 1;
	REFUSED(plan, m);
	m = (struct wire_plan){.number = 5, .world = 4};
	ROUND_TRIP(plan, m);
}
