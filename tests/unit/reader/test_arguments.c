/* Every function of ckpt_reader.h with every wrong argument: what it returns, and its sentence. tests/tidy/test_arguments.py reads the
 * rows: no function of ckpt_reader.map may be missing, and each code must stand in ckpt_reader.h. */
#include "reader_store.h"

#include "base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

static ckpt_reader *r;

static void up(void)
{
	reader_store_make();
	r = reader_open(NULL);
}

static void down(void)
{
	ckpt_reader_close(r);
	reader_store_drop();
}

TestSuite(arguments, .init = up, .fini = down);

/* That the sentence is of this call, a person can read it, and it stays on its line. */
static void check_sentence(const char *call, const char *says)
{
	const char *text = ckpt_reader_error();
	cr_assert(strstr(text, says), "%s says \"%s\", not \"%s\"", call, text, says);
	for (size_t i = 0, n; text[i]; i += n) {
		n = utf8_sequence(text + i, strlen(text + i));
		cr_assert(n, "%s: not UTF-8", call);
		cr_assert_geq((unsigned char)text[i], 0x20, "%s: a control character", call);
	}
}

/* A failure before, whose sentence must not be left. */
static void leave_another_sentence(void)
{
	cr_assert_null(ckpt_reader_find(r, "another"));
	cr_assert(strstr(ckpt_reader_error(), "\"another\""));
}

#define REFUSES(call, code, says)                                                                                      \
	do {                                                                                                           \
		leave_another_sentence();                                                                              \
		int refused = (int)(call);                                                                             \
		cr_assert_eq(refused, code, "%s is %d: %s", #call, refused, ckpt_reader_error());                      \
		check_sentence(#call, says);                                                                           \
	} while (0)

/* What returns a pointer. */
#define REFUSES_WITHOUT(call, code, says)                                                                              \
	do {                                                                                                           \
		leave_another_sentence();                                                                              \
		cr_assert_eq(call, code, "%s", #call);                                                                 \
		check_sentence(#call, says);                                                                           \
	} while (0)

/* What has no error to return. */
#define RETURNS(call, value) cr_assert_eq(call, value, "%s", #call)

static const ckpt_reader_options *options(ckpt_reader_options o)
{
	static ckpt_reader_options kept;
	kept = o;
	if (!kept.size)
		kept.size = sizeof(kept);
	if (!kept.store)
		kept.store = reader_root;
	return &kept;
}

static float data[64][48];

#define OPEN(...) ckpt_reader_open(options((ckpt_reader_options){__VA_ARGS__}), &out)

Test(arguments, of_open)
{
	ckpt_reader *out = r;
	struct {
		ckpt_reader_options known;
		uint64_t newer;
	} later = {.known = {.size = sizeof(later)}, .newer = 1};
	REFUSES(ckpt_reader_open(NULL, NULL), -EINVAL, "`out` is NULL");
	REFUSES(ckpt_reader_open(NULL, &out), -EINVAL, "no store was named: give its directory or set CKPT_REPO");
	cr_assert_null(out);
	REFUSES(OPEN(.size = 8), -EINVAL, "CKPT_INIT(ckpt_reader_options)");
	REFUSES(ckpt_reader_open(&later.known, &out), -E2BIG, "ckpt_reader_options has fields");
	REFUSES(OPEN(.store = ""), -EINVAL, "the store is \"\"");
	REFUSES(OPEN(.store = "/nowhere"), -ENOENT, "no repository at /nowhere");
	REFUSES(OPEN(.store = "/"), -ENOENT, "not a repository");
	REFUSES(OPEN(.job = ""), -EINVAL, "job name is empty");
	REFUSES(OPEN(.job = "a\nb"), -EINVAL, "job name \"a\\nb\"");
	REFUSES(OPEN(.job = "other"), -ENOENT, "there is no job other in ");
	REFUSES(OPEN(.which = ""), -EINVAL, "\"\" is no checkpoint: say latest");
	REFUSES(OPEN(.which = "a\n"), -EINVAL, "\"a\\n\" is no checkpoint");
	REFUSES(OPEN(.which = "11"), -ENOENT, "the nearest are step-000000000010.e0001 below");
	REFUSES(OPEN(.which = "40"), -ENOENT, "40 was never committed");
	REFUSES(OPEN(.which = "worst"), -ENOENT, "there is no tag \"worst\" in job main");
	REFUSES(OPEN(.threads = -1), -EINVAL, "threads is -1");
	cr_assert_null(out);
}

Test(arguments, of_a_list)
{
	ckpt_reader_list *list = (ckpt_reader_list *)r;
	REFUSES(ckpt_reader_list_make(reader_root, NULL, NULL), -EINVAL, "`out` is NULL");
	REFUSES(ckpt_reader_list_make(NULL, NULL, &list), -EINVAL, "no store was named");
	cr_assert_null(list);
	REFUSES(ckpt_reader_list_make("", NULL, &list), -EINVAL, "the store is \"\"");
	REFUSES(ckpt_reader_list_make("/nowhere", NULL, &list), -ENOENT, "no repository at /nowhere");
	REFUSES(ckpt_reader_list_make(reader_root, "../x", &list), -EINVAL, "job name \"../x\"");
	RETURNS(ckpt_reader_list_make(reader_root, "main", &list), 0);
	RETURNS(ckpt_reader_list_at(list, 3), NULL);
	RETURNS(ckpt_reader_list_at(list, SIZE_MAX), NULL);
	RETURNS((ckpt_reader_list_free(list), 0), 0);
	RETURNS((ckpt_reader_list_free(NULL), 0), 0);
	RETURNS(ckpt_reader_list_count(NULL), 0);
	RETURNS(ckpt_reader_list_at(NULL, 0), NULL);
}

Test(arguments, without_a_reader)
{
	const char says[] = "the reader is NULL";
	ckpt_reader_piece p = CKPT_INIT(ckpt_reader_piece);
	ckpt_reader_box box = CKPT_INIT(ckpt_reader_box);
	REFUSES_WITHOUT(ckpt_reader_info(NULL), NULL, says);
	REFUSES_WITHOUT(ckpt_reader_path(NULL), NULL, says);
	REFUSES_WITHOUT(ckpt_reader_tensor_at(NULL, 0), NULL, says);
	REFUSES_WITHOUT(ckpt_reader_find(NULL, "rowwise"), NULL, says);
	REFUSES(ckpt_reader_piece_at(NULL, NULL, 0, &p), -EINVAL, says);
	REFUSES(ckpt_reader_read(NULL, &box, 1), -EINVAL, says);
	REFUSES(ckpt_reader_blob(NULL, "loader", data, 100), -EINVAL, says);
	RETURNS(ckpt_reader_count(NULL), 0);
	RETURNS((ckpt_reader_close(NULL), 0), 0);
	RETURNS(ckpt_reader_version()[0], '0');
	RETURNS(ckpt_reader_error()[0], 't');
}

Test(arguments, of_tensors_and_pieces)
{
	const ckpt_reader_tensor *t = ckpt_reader_find(r, "rowwise");
	const ckpt_reader_tensor *inside = (const ckpt_reader_tensor *)((const char *)t + 8);
	ckpt_reader_piece p = CKPT_INIT(ckpt_reader_piece), small = {.size = 8};
	const ckpt_reader_tensor copy = *t;
	REFUSES_WITHOUT(ckpt_reader_tensor_at(r, 12), NULL, "has 12 tensors and blobs: there is no index 12");
	REFUSES_WITHOUT(ckpt_reader_find(r, NULL), NULL, "the name is NULL");
	REFUSES_WITHOUT(ckpt_reader_find(r, "a\n"), NULL, "no tensor \"a\\n\"");
	REFUSES(ckpt_reader_piece_at(r, NULL, 0, &p), -EINVAL, "the tensor is NULL");
	REFUSES(ckpt_reader_piece_at(r, &copy, 0, &p), -EINVAL, "not one of this reader");
	REFUSES(ckpt_reader_piece_at(r, inside, 0, &p), -EINVAL, "not one of this reader");
	REFUSES(ckpt_reader_piece_at(r, t, 0, NULL), -EINVAL, "the ckpt_reader_piece is NULL");
	REFUSES(ckpt_reader_piece_at(r, t, 0, &small), -EINVAL, "CKPT_INIT(ckpt_reader_piece)");
	REFUSES(ckpt_reader_piece_at(r, t, -1, &p), -ERANGE, "\"rowwise\" has 4 pieces: there is no piece -1");
	REFUSES(ckpt_reader_piece_at(r, t, 4, &p), -ERANGE, "there is no piece 4");
	RETURNS(ckpt_reader_info(r)->step, 30);
	RETURNS(ckpt_reader_path(r)[0], '/');
}

static const uint64_t offset[] = {60, 40}, extent[] = {5, 8}, huge[] = {UINT64_MAX, 1};

#define READ(...)                                                                                                      \
	({                                                                                                             \
		ckpt_reader_box box = {.size = sizeof(box), .name = "rowwise", .data = data};                          \
		box __VA_ARGS__;                                                                                       \
		ckpt_reader_read(r, &box, 1);                                                                          \
	})
#define STRIDES(...)                                                                                                   \
	.stride = (int64_t[])                                                                                          \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

Test(arguments, of_a_read)
{
	ckpt_reader_box two[] = {{.size = sizeof(two[0]), .name = "rowwise", .data = data},
				 {.size = sizeof(two[0]) + 8, .name = "rowwise", .data = data}};
	REFUSES(ckpt_reader_read(r, NULL, 1), -EINVAL, "`boxes` is NULL, and 1 are to be read");
	REFUSES(ckpt_reader_read(r, two, SIZE_MAX), -EINVAL, "are too many");
	REFUSES(ckpt_reader_read(r, two, 2), -EINVAL, "box 1: its size is");
	REFUSES(READ(.size = 0), -EINVAL, "box 0: ckpt_reader_box.size is 0");
	REFUSES(READ(.name = NULL), -EINVAL, "box 0: its name is NULL");
	REFUSES(READ(.name = "a\n"), -ENOENT, "box 0: the checkpoint has no tensor \"a\\n\"");
	REFUSES(READ(.data = NULL), -EINVAL, "box 0: tensor \"rowwise\": its data is NULL");
	REFUSES(READ(.offset = offset), -EINVAL, "both offset and extent");
	REFUSES(READ(.extent = extent), -EINVAL, "both offset and extent");
	REFUSES(READ(.offset = offset; box.extent = extent), -ERANGE, "tensor \"rowwise\": ");
	REFUSES(READ(.offset = huge; box.extent = extent), -ERANGE, "tensor \"rowwise\": ");
	REFUSES(READ(.offset = offset; box.extent = huge), -ERANGE, "tensor \"rowwise\": ");
	REFUSES(READ(STRIDES(INT64_MAX, 4)), -EINVAL, "stride 9223372036854775807 in dimension 0 goes beyond");
	REFUSES(READ(STRIDES(INT64_MIN, 4)), -EINVAL, "goes beyond what memory can be");
	REFUSES(READ(STRIDES(1ll << 57, 1ll << 56)), -EINVAL, "goes beyond what memory can be");
	RETURNS(READ(.data = data), 0);
}

Test(arguments, of_a_blob)
{
	REFUSES(ckpt_reader_blob(r, NULL, data, 100), -EINVAL, "the name is NULL");
	REFUSES(ckpt_reader_blob(r, "rng", data, 100), -ENOENT, "no blob \"rng\"");
	REFUSES(ckpt_reader_blob(r, "rowwise", data, 100), -ENOENT, "no blob \"rowwise\"");
	REFUSES(ckpt_reader_blob(r, "loader", data, 99), -ENOSPC, "has 100 bytes, and there is room for 99");
	RETURNS(ckpt_reader_blob(r, "loader", NULL, 0), 100);
	RETURNS(ckpt_reader_blob(r, "rng@00003", data, 37), 37);
}
