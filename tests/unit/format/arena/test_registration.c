#include "format/arena/registration.h"
#include "format/make_registration.h"
#include "format/random_region.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <time.h>

static struct registration sample(void)
{
	struct registration reg = {.rank = 3, .world = 8};
	struct shape matrix = shape2(64, 32);
	struct entry *e = add_tensor(&reg, "z.weight", DTYPE_BF16, matrix, "", box2(0, 8, 0, 32));
	add_piece(e, region_flat(8 * 32, 100));
	add_piece(e, box2(63, 1, 5, 7));
	add_tensor(&reg, "a.scale", DTYPE_F32, (struct shape){0}, "dp", region_whole(&(struct shape){0}));
	add_entry(&reg, "not.here", ENTRY_TENSOR, DTYPE_F64, shape1(5), "optimizer", "");
	add_blob(&reg, "data.loader", ENTRY_RANK_BLOB, 1000);
	add_blob(&reg, "config", ENTRY_JOB_BLOB, 77);
	add_blob(&reg, "tree", ENTRY_JOB_BLOB, 4104)->sized = true;
	add_tensor(&reg, "empty", DTYPE_I64, shape2(0, 9), "", box2(0, 0, 0, 9));
	return reg;
}

static int encode_decode(const struct registration *reg, struct registration *back, struct err *err)
{
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(registration_encode(reg, &out), 0);
	return registration_decode(out.data, out.len, back, err);
}

static void assert_same(const struct registration *a, const struct registration *b)
{
	cr_assert(a->rank == b->rank && a->world == b->world && a->nentries == b->nentries);
	for (uint32_t i = 0; i < a->nentries; i++) {
		const struct entry *x = &a->entries[i], *y = &b->entries[i];
		cr_assert_str_eq(x->name, y->name);
		cr_assert_str_eq(x->group, y->group);
		cr_assert_str_eq(x->replica, y->replica);
		cr_assert(x->kind == y->kind && x->sized == y->sized && x->dtype == y->dtype &&
			  shape_equal(&x->shape, &y->shape));
		cr_assert_eq(x->npieces, y->npieces);
		for (uint32_t p = 0; p < x->npieces; p++)
			cr_assert(x->pieces[p].kind == y->pieces[p].kind &&
				  region_equal(&x->shape, &x->pieces[p], &y->pieces[p]));
	}
}

Test(registration, decodes_what_was_encoded)
{
	struct registration reg = sample(), back;
	struct err err = {0};
	cr_assert_eq(encode_decode(&reg, &back, &err), 0, "%s", err.text);
	assert_same(&reg, &back);
	AUTO_WBUF struct wbuf once = {0}, again = {0};
	cr_assert_eq(registration_encode(&reg, &once), 0);
	cr_assert_eq(registration_encode(&back, &again), 0);
	cr_assert(once.len == again.len && !memcmp(once.data, again.data, once.len));
	registration_free(&back);
	registration_free(&back);
	registration_free(&reg);
}

Test(registration, entries_are_found_by_name_with_and_without_the_index)
{
	struct registration reg = sample(), back;
	cr_assert_eq(encode_decode(&reg, &back, NULL), 0);
	cr_assert_null(reg.by_name);
	cr_assert_not_null(back.by_name);
	for (uint32_t i = 0; i < reg.nentries; i++) {
		cr_assert_eq(registration_find(&reg, reg.entries[i].name), &reg.entries[i]);
		cr_assert_eq(registration_find(&back, reg.entries[i].name), &back.entries[i]);
	}
	static const char *const absent[] = {"", "a", "a.scale ", "zz", "config@00003"};
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		cr_assert_null(registration_find(&reg, absent[i]));
		cr_assert_null(registration_find(&back, absent[i]));
	}
	registration_free(&back);
	registration_free(&reg);
}

/* Encodes a table with one fault, and expects this error and these words. */
static void assert_refused(struct registration *reg, int rc, const char *words)
{
	struct registration back = {.rank = 99};
	struct err err = {0};
	int got = encode_decode(reg, &back, &err);
	cr_assert_eq(got, rc, "%d, not %d: %s", got, rc, err.text);
	cr_assert(strstr(err.text, words), "\"%s\" is not in: %s", words, err.text);
	cr_assert(!back.entries && !back.by_name && !back.nentries && !back.rank);
	registration_free(reg);
}

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)

static void rename_entry(struct entry *e, const char *name)
{
	free(e->name);
	e->name = strdup(name);
}

#define REFUSED(rc, words, ...)                                                                                        \
	do {                                                                                                           \
		struct registration reg = sample();                                                                    \
		struct entry *e = reg.entries;                                                                         \
		(void)e;                                                                                               \
		__VA_ARGS__;                                                                                           \
		assert_refused(&reg, rc, words);                                                                       \
	} while (0)

Test(registration, each_fault_is_named)
{
	REFUSED(-EINVAL, "rank 8 of 8", reg.rank = 8);
	REFUSED(-EINVAL, "rank 3 of 0", reg.world = 0);
	REFUSED(-EINVAL, "at most 262144", reg.world = RANK_MAX + 1);
	REFUSED(-EINVAL, "entry 1: tensor name", e[1].name[0] = '\n');
	REFUSED(-EINVAL, "entry 1: tensor name", rename_entry(&e[1], "\xff"));
	REFUSED(-EINVAL, "group name", SET(e[1].group, "../x"));
	REFUSED(-EINVAL, "group name", SET(e[1].group, "x.part-0001"));
	REFUSED(-EINVAL, "group name", SET(e[1].group, ""));
	REFUSED(-EINVAL, "replica group name", SET(e[1].replica, "a b"));
	REFUSED(-EINVAL, "\"a.scale\": unknown element type 200", e[1].dtype = 200);
	REFUSED(-EINVAL, "\"a.scale\": unknown kind 9", e[1].kind = 9);
	REFUSED(-EOVERFLOW, "\"z.weight\": shape [", e[0].shape.dim[0] = 1ull << 60);
	REFUSED(-ERANGE, "\"z.weight\": piece 1: flat range", e[0].pieces[1].count = 64 * 32);
	REFUSED(-ERANGE, "\"z.weight\": piece 2: box offset 5 + extent 28", e[0].pieces[2].extent[1] = 28);
	REFUSED(-EEXIST, "\"z.weight\": pieces 0 and 1 overlap: [0:8, 0:32] and flat 255:355", e[0].pieces[1].start--);
	REFUSED(-EEXIST, "\"config\" is registered twice", rename_entry(&e[0], "config"));
	REFUSED(-EINVAL, "ends in \"@00003\"", reg.rank = 3; rename_entry(&e[3], "data@00004"));
	REFUSED(-EINVAL, "ends in \"@00003\"", rename_entry(&e[3], "@00003"));
	REFUSED(-EINVAL, "\"a.scale\": a tensor has a fixed size", e[1].sized = true);
	REFUSED(-EINVAL, "a blob of changing size has more than 8 bytes",
		e[5].shape.dim[0] = e[5].pieces[0].extent[0] = 8);
	REFUSED(-EINVAL, "a blob is U8", e[4].dtype = DTYPE_I8);
	REFUSED(-EINVAL, "a blob has no replica group", SET(e[4].replica, "dp"));
	REFUSED(-EINVAL, "a blob has exactly one piece", e[4].pieces[0].extent[0] = 76);
	REFUSED(-EINVAL, "a blob has exactly one piece", e[4].npieces = 0);
	REFUSED(-EBADMSG, "2 pieces do not fit", add_piece(&e[1], e[1].pieces[0]));
}

Test(registration, more_than_an_exbibyte_is_refused)
{
	struct registration reg = {.rank = 0, .world = 1};
	uint64_t big = (1ull << 59) - 1;
	add_tensor(&reg, "a", DTYPE_U8, shape1(big), "", region_flat(0, big));
	add_tensor(&reg, "b", DTYPE_U8, shape1(big), "", region_flat(0, big));
	add_tensor(&reg, "c", DTYPE_U8, shape1(3), "", region_flat(0, 3));
	assert_refused(&reg, -EOVERFLOW, "\"c\": with piece 0");
}

Test(registration, counts_beyond_the_message_are_refused_before_they_are_allocated)
{
	static const uint32_t counts[] = {2, 1000, REGISTRATION_ENTRIES_MAX, REGISTRATION_ENTRIES_MAX + 1, UINT32_MAX};
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		AUTO_WBUF struct wbuf out = {0};
		wbuf_u32(&out, 0);
		wbuf_u32(&out, 1);
		wbuf_u32(&out, counts[i]);
		wbuf_put(&out, (char[16]){0}, 16);
		struct registration reg;
		int rc = registration_decode(out.data, out.len, &reg, NULL);
		cr_assert_eq(rc, counts[i] > REGISTRATION_ENTRIES_MAX ? -E2BIG : -EBADMSG);
	}
}

Test(registration, every_cut_and_every_extra_byte_is_refused)
{
	struct registration reg = sample(), back;
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(registration_encode(&reg, &out), 0);
	for (size_t len = 0; len < out.len; len++) {
		void *exact = malloc(len + 1); /* so that a read beyond the end is seen */
		memcpy((char *)exact + 1, out.data, len);
		cr_assert_lt(registration_decode((char *)exact + 1, len, &back, NULL), 0, "%zu", len);
		free(exact);
	}
	wbuf_u8(&out, 0);
	cr_assert_eq(registration_decode(out.data, out.len, &back, NULL), -EBADMSG);
	registration_free(&reg);
}

/* Whatever is accepted has one encoding, so that equal digests mean equal registrations. */
Test(registration, damaged_bytes_are_refused_or_mean_what_they_say)
{
	struct registration reg = sample(), back;
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(registration_encode(&reg, &out), 0);
	uint64_t seed = 5;
	unsigned accepted = 0;
	for (int round = 0; round < 40000; round++) {
		AUTO_WBUF struct wbuf damaged = {0}, again = {0};
		wbuf_put(&damaged, out.data, out.len);
		for (uint64_t k = 1 + random_below(&seed, 3); k > 0; k--)
			damaged.data[random_below(&seed, out.len)] = (uint8_t)random_below(&seed, 256);
		struct err err;
		if (registration_decode(damaged.data, damaged.len, &back, &err) < 0)
			continue;
		accepted++;
		cr_assert_eq(registration_encode(&back, &again), 0);
		cr_assert_eq(again.len, damaged.len);
		cr_assert_eq(memcmp(again.data, damaged.data, again.len), 0);
		registration_free(&back);
	}
	cr_assert(accepted > 100 && accepted < 39000, "%u", accepted);
	registration_free(&reg);
}

/* Seconds of processor time: other load on the machine does not count. */
static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

Test(registration, five_thousand_entries_are_quick)
{
	struct registration reg = {.rank = 0, .world = 8}, back;
	for (int i = 0; i < 5000; i++) {
		char name[64];
		snprintf(name, sizeof(name), "model.layers.%d.mlp.weight", i * 4001 % 5000);
		add_tensor(&reg, name, DTYPE_BF16, shape2(4096, 1024), "", box2(0, 512, 0, 1024));
	}
	double begin = cpu_seconds();
	cr_assert_eq(encode_decode(&reg, &back, NULL), 0);
	cr_assert_lt(cpu_seconds() - begin, 0.5, "milliseconds without a sanitizer");
	cr_assert_eq(back.nentries, 5000u);
	registration_free(&back);
	registration_free(&reg);
}

/* Rods along all three dimensions, each between the others: no axis separates them, 42 million pairs in each entry. */
Test(registration, interleaved_pieces_share_one_budget)
{
	enum { SIDE = 128 };
	struct registration reg = {.rank = 0, .world = 1}, back;
	for (int i = 0; i < 4; i++) {
		struct shape cube = {.ndim = 3, .dim = {SIDE, SIDE, SIDE}};
		struct entry *e = add_entry(&reg, (char[]){(char)('a' + i), 0}, ENTRY_TENSOR, DTYPE_U8, cube, "g", "");
		for (uint64_t p = 0; p < SIDE * SIDE / 4; p++) {
			uint64_t u = p / (SIDE / 2) * 2, v = p % (SIDE / 2) * 2;
			struct region rod = {.kind = REGION_BOX};
			memcpy(rod.offset, (uint64_t[]){0, u, v}, 24);
			memcpy(rod.extent, (uint64_t[]){SIDE, 1, 1}, 24);
			add_piece(e, rod);
			memcpy(rod.offset, (uint64_t[]){u, 0, v + 1}, 24);
			memcpy(rod.extent, (uint64_t[]){1, SIDE, 1}, 24);
			add_piece(e, rod);
			memcpy(rod.offset, (uint64_t[]){u + 1, v + 1, 0}, 24);
			memcpy(rod.extent, (uint64_t[]){1, 1, SIDE}, 24);
			add_piece(e, rod);
		}
	}
	struct err err;
	cr_assert_eq(encode_decode(&reg, &back, &err), -E2BIG);
	/* not of the three before it: these are within the budget */
	cr_assert(strstr(err.text, "\"d\": its 12288 pieces are too interleaved"), "%s", err.text);
	registration_free(&reg);
}
