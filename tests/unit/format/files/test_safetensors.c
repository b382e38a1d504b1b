#include "format/files/safetensors.h"
#include "format/one_file.h"
#include "format/sample.h"

#include <criterion/criterion.h>

static struct entry tensor(const char *name, enum dtype dtype, struct shape shape, struct region *pieces, uint32_t n)
{
	return (struct entry){.name = (char *)name,
			      .kind = ENTRY_TENSOR,
			      .dtype = dtype,
			      .shape = shape,
			      .group = "params",
			      .npieces = n,
			      .pieces = pieces};
}

static struct region box(uint64_t o0, uint64_t o1, uint64_t e0, uint64_t e1)
{
	return (struct region){.kind = REGION_BOX, .offset = {o0, o1}, .extent = {e0, e1}};
}

static const struct shape matrix = {2, {4, 6}}, vector = {1, {10}}, scalar = {0, {0}}, cube = {3, {3, 4, 5}};

/* The header of the entries' pieces, and what the parser makes of it in a file of the right size. */
static struct wbuf header(struct entry *entries, uint32_t n, struct safetensors *st)
{
	struct one_file f;
	struct wbuf out = {0};
	struct err err = {""};
	one_file_make(&f, entries, n);
	cr_assert_eq(safetensors_header(&f.reg, &f.layout, 0, &out), 0);
	cr_assert_eq(safetensors_parse(out.data, out.len, out.len + f.file.data_size, st, &err), 0, "%s", err.text);
	cr_assert_eq(st->data_at, out.len);
	cr_assert_eq(st->nentries, f.file.npieces);
	one_file_free(&f);
	return out;
}

static void assert_has(const struct wbuf *text, const char *what)
{
	cr_expect_not_null(memmem(text->data, text->len, what, strlen(what)), "without %s in %.*s", what,
			   (int)text->len - 8, (const char *)text->data + 8);
}

Test(safetensors, the_data_starts_at_a_multiple_of_4096)
{
	for (uint32_t n = 0; n <= 200; n++) {
		struct entry entries[200];
		char names[200][16];
		struct region whole = region_whole(&vector);
		struct safetensors st;
		for (uint32_t i = 0; i < n; i++) {
			snprintf(names[i], sizeof(names[i]), "t%u", i);
			entries[i] = tensor(names[i], DTYPE_F32, vector, &whole, 1);
		}
		struct wbuf out = header(entries, n, &st);
		cr_assert_eq(out.len % LAYOUT_ALIGN, 0);
		cr_assert_eq(out.data[8], '{');
		safetensors_free(&st);
		wbuf_free(&out);
	}
}

Test(safetensors, boxes_and_flat_ranges_have_the_names_and_shapes_of_the_convention)
{
	struct region w[] = {box(0, 0, 2, 6), box(2, 3, 2, 3), region_flat(13, 3), region_flat(0, 5)};
	struct region v[] = {region_flat(2, 3)}, s[] = {region_whole(&scalar)};
	struct entry entries[] = {tensor("w", DTYPE_BF16, matrix, w, 4), tensor("v", DTYPE_F8_E4M3, vector, v, 1),
				  tensor("s", DTYPE_BOOL, scalar, s, 1)};
	struct safetensors st;
	struct wbuf out = header(entries, 3, &st);
	assert_has(&out, ",\"w\":{\"dtype\":\"BF16\",\"shape\":[2,6],\"data_offsets\":[0,24]}");
	assert_has(&out, ",\"w#1\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[24,36]}");
	/* elements 13 to 15 lie in one row: a box; 0 to 4 too */
	assert_has(&out, ",\"w#2\":{\"dtype\":\"BF16\",\"shape\":[1,3],\"data_offsets\":[36,42]}");
	assert_has(&out, ",\"w#3\":{\"dtype\":\"BF16\",\"shape\":[1,5],\"data_offsets\":[42,52]}");
	assert_has(&out, ",\"v\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[52,55]}");
	assert_has(&out, ",\"s\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[55,56]}}");
	/* the metadata values are JSON in strings */
	assert_has(
		&out,
		"\\\"w#1\\\":{\\\"logical_fqn\\\":\\\"w\\\",\\\"saved_offsets\\\":[2,3],\\\"global_shape\\\":[4,6]}");
	assert_has(&out, "\\\"w#2\\\":{\\\"tensor\\\":\\\"w\\\",\\\"shape\\\":[4,6],\\\"offset\\\":[2,1]}");
	assert_has(&out, "\\\"v\\\":{\\\"tensor\\\":\\\"v\\\",\\\"shape\\\":[10],\\\"offset\\\":[2]}");
	assert_has(&out, "\\\"s\\\":{\\\"logical_fqn\\\":\\\"s\\\",\\\"saved_offsets\\\":[],\\\"global_shape\\\":[]}");
	safetensors_free(&st);
	wbuf_free(&out);
}

Test(safetensors, a_flat_range_that_is_no_box_is_a_vector)
{
	struct region w[] = {region_flat(5, 7), region_flat(20, 4), region_flat(0, 0)};
	struct entry entries[] = {tensor("w", DTYPE_F32, matrix, w, 3)};
	struct safetensors st;
	struct wbuf out = header(entries, 1, &st);
	assert_has(&out, ",\"w#flat\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,28]}");
	assert_has(&out, ",\"w\":{\"dtype\":\"F32\",\"shape\":[1,4],\"data_offsets\":[28,44]}");
	assert_has(&out, ",\"w#flat1\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[44,44]}");
	assert_has(&out, "\\\"w#flat\\\":{\\\"logical_fqn\\\":\\\"w#flat\\\",\\\"saved_offsets\\\":[5],\\\"global_"
			 "shape\\\":[24]}");
	assert_has(&out, "\\\"w#flat\\\":{\\\"tensor\\\":\\\"w\\\",\\\"shape\\\":[4,6],\\\"start\\\":5}");
	safetensors_free(&st);
	wbuf_free(&out);
}

/* A reader that takes an entry's name for the tensor's must get all of it, or nothing at all. */
Test(safetensors, files_that_a_reader_by_names_would_leave_holes_in_are_not_for_it)
{
	const struct shape none = {2, {0, 6}};
	struct region rows[] = {box(0, 0, 2, 6), box(2, 0, 2, 6)}, ragged[] = {region_flat(5, 7)},
		      nothing[] = {box(0, 0, 1, 6), box(1, 0, 0, 6)}, nowhere[] = {region_flat(24, 0)},
		      whole[] = {region_whole(&none)}, columns[] = {box(0, 0, 4, 2)};
	struct {
		struct entry entry;
		bool hidden;
	} cases[] = {
		{tensor("w", DTYPE_F32, matrix, columns, 1), false},
		{tensor("w", DTYPE_F32, matrix, rows, 1), false},
		{tensor("w", DTYPE_F32, matrix, rows, 2), true},
		{tensor("w", DTYPE_F32, matrix, ragged, 1), true},
		{tensor("w", DTYPE_F32, matrix, nothing, 2), false},
		{tensor("w", DTYPE_F32, matrix, nowhere, 1), false},
		{tensor("w", DTYPE_F32, none, whole, 1), false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct safetensors st;
		struct wbuf out = header(&cases[i].entry, 1, &st);
		assert_has(&out, cases[i].hidden ? "\"DCP_SHARDING_INFO\":\"!\\\"w" : "\"DCP_SHARDING_INFO\":\"{\\\"w");
		safetensors_free(&st);
		wbuf_free(&out);
	}
}

/* Beside packed files, which such a reader does not see. */
Test(safetensors, a_notice_is_a_file_without_entries_that_a_reader_by_names_refuses)
{
	struct safetensors st;
	struct err err = {{0}};
	AUTO_WBUF struct wbuf out = {0};
	cr_assert_eq(safetensors_notice(&out), 0);
	cr_assert_eq(safetensors_parse(out.data, out.len, out.len, &st, &err), 0, "%s", err.text);
	cr_expect_eq(st.nentries, 0);
	cr_expect_eq(out.len, LAYOUT_ALIGN);
	assert_has(&out, "\"DCP_SHARDING_INFO\":\"! ");
	safetensors_free(&st);
}

/* Whether some box of the cube is the flat range. */
static bool find_box(uint64_t start, uint64_t count, struct region *r)
{
	uint64_t begin, n, volume = 60;
	for (uint64_t first = start, last = 0; last < volume; last++) { /* the box between two corners */
		uint64_t f = first, l = last;
		*r = (struct region){.kind = REGION_BOX};
		for (uint32_t d = 3; d-- > 0; f /= cube.dim[d], l /= cube.dim[d]) {
			r->offset[d] = f % cube.dim[d];
			r->extent[d] = l % cube.dim[d] + 1 - r->offset[d];
		}
		if (region_check(&cube, r, NULL) == 0 && region_volume(&cube, r) == count &&
		    region_contiguous(&cube, r, &begin, &n) && begin == start)
			return true;
	}
	return false;
}

Test(safetensors, flat_ranges_are_shown_as_boxes_exactly_when_they_are)
{
	unsigned boxes = 0;
	for (uint64_t start = 0; start < 60; start++)
		for (uint64_t count = 1; start + count <= 60; count++) {
			struct region flat = region_flat(start, count), found;
			bool is_box = find_box(start, count, &found);
			struct entry e = tensor("w", DTYPE_U8, cube, &flat, 1);
			struct safetensors st;
			struct wbuf out = header(&e, 1, &st);
			cr_assert_str_eq(st.entries[0].name, is_box ? "w" : "w#flat", "[%lu, +%lu)", start, count);
			cr_assert_eq(st.entries[0].shape.ndim, is_box ? 3 : 1);
			for (uint32_t d = 0; d < 3 && is_box; d++)
				cr_assert_eq(st.entries[0].shape.dim[d], found.extent[d], "[%lu, +%lu)", start, count);
			boxes += is_box;
			safetensors_free(&st);
			wbuf_free(&out);
		}
	cr_assert_eq(boxes,
		     12 * 15 + 3 * 6 + 3); /* within a row; of two and more rows of a plane; of two and more planes */
}

Test(safetensors, empty_tensors_keep_their_shape)
{
	const struct shape none = {3, {4, 0, 6}};
	struct region w[] = {region_flat(0, 0)}, v[] = {region_whole(&none)};
	struct entry entries[] = {tensor("w", DTYPE_F64, none, w, 1), tensor("v", DTYPE_C64, none, v, 1)};
	struct safetensors st;
	struct wbuf out = header(entries, 2, &st);
	assert_has(&out, ",\"w\":{\"dtype\":\"F64\",\"shape\":[4,0,6],\"data_offsets\":[0,0]}");
	assert_has(&out, ",\"v\":{\"dtype\":\"C64\",\"shape\":[4,0,6],\"data_offsets\":[0,0]}");
	safetensors_free(&st);
	wbuf_free(&out);
}

Test(safetensors, names_stay_unique_when_a_tensor_has_the_name_of_a_piece)
{
	struct region w[] = {box(0, 0, 1, 6), box(1, 0, 1, 6), region_flat(13, 7)};
	struct region one[] = {box(0, 0, 4, 6)}, flat[] = {region_flat(1, 7), box(3, 0, 1, 6)};
	struct entry entries[] = {tensor("w", DTYPE_F32, matrix, w, 3), tensor("w#1", DTYPE_F32, matrix, one, 1),
				  tensor("w#flat", DTYPE_F32, matrix, flat, 2)};
	struct safetensors st;
	struct wbuf out = header(entries, 3, &st); /* the parser refuses names that stand twice */
	static const char *const names[] = {"w", "w#2", "w#flat1", "w#1", "w#flat#flat", "w#flat"};
	for (size_t i = 0; i < 6; i++)
		cr_assert_str_eq(st.entries[i].name, names[i]);
	safetensors_free(&st);
	wbuf_free(&out);
}

Test(safetensors, odd_and_long_names_come_back)
{
	char longest[NAME_TENSOR_MAX];
	memset(longest, '"', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	struct region w[] = {box(0, 0, 1, 6), box(1, 0, 1, 6), region_flat(13, 7)};
	struct entry entries[] = {tensor(longest, DTYPE_F32, matrix, w, 3),
				  tensor("größe\\重み", DTYPE_F32, matrix, w, 3)};
	struct safetensors st;
	struct wbuf out = header(entries, 2, &st);
	cr_assert_str_eq(st.entries[0].name, longest);
	cr_assert_eq(strlen(st.entries[2].name), NAME_TENSOR_MAX - 1 + strlen("#flat"));
	cr_assert_str_eq(st.entries[4].name, "größe\\重み#1");
	safetensors_free(&st);
	wbuf_free(&out);
}

Test(safetensors, a_header_above_the_upstream_bound_is_refused)
{
	enum { MANY = 40000 };
	char name[NAME_TENSOR_MAX];
	memset(name, '"', sizeof(name) - 1); /* escaped twice in the metadata */
	name[sizeof(name) - 1] = 0;
	struct region *pieces = calloc(MANY, sizeof(*pieces));
	for (uint64_t i = 0; i < MANY; i++)
		pieces[i] = region_flat(i, 1);
	struct entry e = tensor(name, DTYPE_U8, (struct shape){1, {MANY}}, pieces, MANY);
	struct one_file f;
	struct wbuf out = {0};
	one_file_make(&f, &e, 1); /* by hand: layout_make would split it */
	cr_assert_eq(safetensors_header(&f.reg, &f.layout, 0, &out), -E2BIG);
	wbuf_free(&out);
	one_file_free(&f);
	free(pieces);
}

/* A header as another writer makes it, in a buffer of exactly its length. */
static int parse(const char *json, uint64_t data, struct safetensors *st, struct err *err)
{
	size_t len = strlen(json);
	struct wbuf out = {0};
	wbuf_u64(&out, len);
	wbuf_put(&out, json, len);
	uint8_t *exact = memcpy(malloc(out.len), out.data, out.len);
	*err = (struct err){""};
	int rc = safetensors_parse(exact, out.len, out.len + data, st, err);
	cr_assert(!rc || (!st->entries && !st->nentries && !st->data_at));
	free(exact);
	wbuf_free(&out);
	return rc;
}

Test(safetensors, headers_of_other_writers_are_read_in_any_order)
{
	struct safetensors st;
	struct err err;
	cr_assert_eq(parse("{\"b\":{\"shape\":[2],\"data_offsets\":[8,12],\"dtype\":\"F16\",\"later\":{}},"
			   "\"__metadata__\":{\"format\":\"pt\"},"
			   "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
			   "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}  \n",
			   12, &st, &err),
		     0, "%s", err.text);
	static const char *const names[] = {"a", "e", "b"};
	for (int i = 0; i < 3; i++)
		cr_assert_str_eq(st.entries[i].name, names[i]);
	cr_assert_eq(st.entries[2].dtype, DTYPE_F16);
	cr_assert_eq(st.entries[2].begin, 8);
	cr_assert_eq(st.entries[2].end, 12);
	safetensors_free(&st);
	cr_assert_eq(parse("{}", 0, &st, &err), 0, "%s", err.text);
	safetensors_free(&st);
}

#define A "\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}"

Test(safetensors, wrong_headers_are_refused_with_the_reason)
{
	static const struct {
		const char *json, *message;
		uint64_t data;
	} cases[] = {
		{"", "is not an object", 0},
		{" {}", "does not begin with '{'", 0},
		{"[]", "does not begin with '{'", 0},
		{"{" A "} x", "after the end", 4},
		{"{" A, "expected", 4},
		{"{" A "," A "}", "\"a\" stands twice", 4},
		{"{" A "}", "the entries end at 4, the data at 5", 5},
		{"{" A "}", "outside of 3 bytes", 3},
		{"{" A ",\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[5,6]}}", "a hole", 6},
		{"{" A ",\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[3,4]}}", "an overlap", 4},
		{"{\"a\":{\"dtype\":\"I7\",\"shape\":[4],\"data_offsets\":[0,4]}}", "a.dtype: unknown type \"I7\"", 4},
		{"{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}",
		 "a.dtype: type \"F4\" has elements below a byte", 4},
		{"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[8],\"data_offsets\":[0,6]}}", "below a byte: not supported",
		 6},
		{"{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", "a.dtype: is not a string", 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[5],\"data_offsets\":[0,4]}}",
		 "span 4 bytes, type and shape need 5", 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":4,\"data_offsets\":[0,4]}}", "a.shape: is not an array", 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[4]}}", "a.data_offsets: is not [begin, end]",
		 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[4,0]}}", "outside of", 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[4]}}", "\"data_offsets\" is missing", 4},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", "shape: stands twice",
		 4},
		{"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", "overflows",
		 0},
		{"{\"a\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", "more than 8", 1},
		{"{\"a\":7}", "a: is not an object", 0},
		{"{\"\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "without a name", 4},
		{"{\"\\u0007\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "control character", 4},
		{"{\"__metadata__\":{\"a\":7}}", "__metadata__.a: is not a string", 0},
		{"{\"__metadata__\":{},\"__metadata__\":{}}", "stands twice", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct safetensors st;
		struct err err;
		cr_expect_eq(parse(cases[i].json, cases[i].data, &st, &err), -EBADMSG, "%s", cases[i].json);
		cr_expect_not_null(strstr(err.text, cases[i].message), "%s: %s", cases[i].json, err.text);
	}
}

Test(safetensors, lengths_are_bounded_before_they_are_used)
{
	struct safetensors st;
	struct err err;
	uint8_t word[8];
	uint64_t size;
	static const struct {
		uint64_t json, file;
		int rc;
	} cases[] = {
		{2, 10, 0},
		{2, 9, -EBADMSG},
		{0, 7, -EBADMSG},
		{UINT64_MAX, UINT64_MAX, -EBADMSG},
		{UINT64_MAX - 7, UINT64_MAX, -EBADMSG},
		{SAFETENSORS_HEADER_MAX, 1ull << 40, 0},
		{SAFETENSORS_HEADER_MAX + 1, 1ull << 40, -EBADMSG},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int b = 0; b < 8; b++)
			word[b] = (uint8_t)(cases[i].json >> 8 * b);
		cr_assert_eq(safetensors_header_size(word, cases[i].file, &size, &err), cases[i].rc, "%zu", i);
		cr_assert(cases[i].rc || size == cases[i].json + 8);
	}
	for (size_t len = 0; len < 8; len++)
		cr_assert_eq(safetensors_parse(word, len, 1 << 20, &st, &err), -EBADMSG);
	memset(word, 0, sizeof(word));
	word[0] = 2;
	cr_assert_eq(safetensors_parse(word, 8, 10, &st, &err), -EBADMSG);
}

Test(safetensors, every_truncation_is_found)
{
	struct region w[] = {box(0, 0, 2, 6), box(2, 3, 2, 3)};
	struct entry e = tensor("w", DTYPE_BF16, matrix, w, 2);
	struct safetensors st;
	struct err err;
	struct wbuf out = header(&e, 1, &st);
	uint64_t size = out.len + 36;
	safetensors_free(&st);
	for (size_t len = 0; len < out.len; len += len < 600 ? 1 : 97)
		cr_assert_eq(safetensors_parse(out.data, len, size, &st, &err), -EBADMSG, "%zu", len);
	for (uint64_t file = 0; file < size; file += file < out.len ? 97 : 1)
		cr_assert_eq(safetensors_parse(out.data, out.len, file, &st, &err), -EBADMSG, "%lu", file);
	cr_assert_eq(safetensors_parse(out.data, out.len, size + 1, &st, &err), -EBADMSG);
	wbuf_free(&out);
}
