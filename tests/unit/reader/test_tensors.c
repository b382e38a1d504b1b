#include "reader_store.h"

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

TestSuite(tensors, .init = up, .fini = down);

static const ckpt_reader_tensor *find(const char *name)
{
	const ckpt_reader_tensor *t = ckpt_reader_find(r, name);
	cr_assert_not_null(t, "%s", ckpt_reader_error());
	return t;
}

Test(tensors, are_listed_by_name_and_found)
{
	for (size_t i = 0; i < ckpt_reader_count(r); i++) {
		const ckpt_reader_tensor *t = ckpt_reader_tensor_at(r, i);
		cr_assert_eq(find(t->name), t);
		cr_assert(!i || strcmp(ckpt_reader_tensor_at(r, i - 1)->name, t->name) < 0);
	}
	const ckpt_reader_tensor *t = find("rowwise");
	cr_expect(t->scope == 0 && t->rank == -1 && t->dtype == CKPT_F32 && t->ndim == 2 && t->element == 4);
	cr_expect(t->shape[0] == 64 && t->shape[1] == 48 && t->bytes == 64 * 48 * 4 && t->npieces == 4);
	cr_expect_str_eq(t->group, "params");
	cr_expect_eq(find("scale")->ndim, 0);
	cr_expect_eq(find("scale")->bytes, 4);
	cr_expect_eq(find("empty")->bytes, 0);
	t = find("loader");
	cr_expect(t->scope == CKPT_SCOPE_JOB && t->rank == -1 && t->dtype == CKPT_U8 && t->bytes == 100);
	t = find("rng@00003");
	cr_expect(t->scope == CKPT_SCOPE_RANK && t->rank == 3 && t->bytes == 37);
}

Test(tensors, pieces_say_what_they_are_and_where)
{
	ckpt_reader_piece p = CKPT_INIT(ckpt_reader_piece);
	const ckpt_reader_tensor *t = find("rowwise");
	uint64_t bytes = 0;
	for (int i = 0; i < t->npieces; i++) {
		cr_assert_eq(ckpt_reader_piece_at(r, t, i, &p), 0, "%s", ckpt_reader_error());
		cr_assert_eq(p.size, sizeof(p));
		cr_assert_eq(p.rank, i);
		cr_assert_eq(p.offset[0], 16 * (uint64_t)i);
		cr_assert_eq(p.extent[0], 16);
		cr_assert_eq(p.extent[1], 48);
		cr_assert_eq(p.count, 0);
		cr_assert_eq(p.compressed, 0);
		cr_assert(strstr(p.file, ".safetensors"), "%s", p.file);
		bytes += p.bytes;
	}
	cr_assert_eq(bytes, t->bytes);
	t = find("moment");
	cr_assert_eq(ckpt_reader_piece_at(r, t, 1, &p), 0);
	cr_assert(p.count && !p.extent[0] && p.start + p.count <= 64 * 48);
	void *due = reader_due(r, t);
	char *there = scratch_read(ckpt_reader_path(r), p.file, NULL);
	cr_assert_arr_eq(there + p.at, (char *)due + p.start * 4, p.bytes, "they can be mapped");
	free(due);
	free(there);
}
