#include "libckpt/ranks.h"

#include "client/session/session.h"

#include <criterion/criterion.h>
#include <string.h>

static struct ranks c;

static void open_one(void)
{
	ranks_open(&c, 1, NULL);
}

static void close_one(void)
{
	ranks_down(&c);
}

TestSuite(registration_calls, .init = open_one, .fini = close_one);

static float data[64];
static const uint64_t shape[] = {8, 8}, offset[] = {0, 4}, extent[] = {8, 4};
static const int64_t stride[] = {64, 4};

static ckpt_tensor tensor(void)
{
	static ckpt_piece whole;
	whole = (ckpt_piece){.data = data};
	return (ckpt_tensor){.size = sizeof(ckpt_tensor),
			     .name = "w",
			     .dtype = CKPT_F32,
			     .ndim = 2,
			     .shape = shape,
			     .pieces = &whole,
			     .npieces = 1,
			     .device = CKPT_HOST};
}

static void refused(const ckpt_tensor *t, int rc, const char *word)
{
	cr_assert_eq(ckpt_register_tensor(c.s[0], t), rc, "%s: %s", word, ckpt_error(c.s[0]));
	cr_assert(strstr(ckpt_error(c.s[0]), word), "\"%s\" does not say %s", ckpt_error(c.s[0]), word);
	cr_assert_eq(c.s[0]->table.reg.nentries, 0);
}

static void refused_piece(ckpt_piece piece, int rc, const char *word)
{
	ckpt_tensor t = tensor();
	t.pieces = &piece;
	refused(&t, rc, word);
}

Test(registration_calls, wrong_tensors_are_refused_with_the_reason)
{
	ckpt_tensor t = tensor();
	t.name = NULL;
	refused(&t, -EINVAL, "name");
	t = tensor();
	t.name = "a\nb";
	refused(&t, -EINVAL, "tensor");
	t = tensor();
	t.dtype = (ckpt_dtype)99;
	refused(&t, -EINVAL, "dtype 99");
	t = tensor();
	t.ndim = 9;
	refused(&t, -EINVAL, "ndim");
	t = tensor();
	t.shape = NULL;
	refused(&t, -EINVAL, "ndim");
	t = tensor();
	t.npieces = -1;
	refused(&t, -EINVAL, "npieces");
	t = tensor();
	t.pieces = NULL;
	refused(&t, -EINVAL, "npieces");
	t = tensor();
	t.device = -2;
	refused(&t, -EINVAL, "device");
	t = tensor();
	t.group = "../x";
	refused(&t, -EINVAL, "x");
	t = tensor();
	t.replica = "";
	refused(&t, -EINVAL, "replica");
	t = tensor();
	t.shape = (uint64_t[]){1ull << 40, 1ull << 40};
	refused(&t, -EOVERFLOW, "too large");
	t = tensor();
	t.size = 8;
	refused(&t, -EINVAL, "CKPT_INIT");
}

Test(registration_calls, wrong_pieces_are_refused_with_the_reason)
{
	refused_piece((ckpt_piece){.data = NULL}, -EINVAL, "NULL");
	refused_piece((ckpt_piece){.data = data, .offset = offset}, -EINVAL, "extent");
	refused_piece((ckpt_piece){.data = data, .extent = extent}, -EINVAL, "offset");
	refused_piece((ckpt_piece){.data = data, .offset = offset, .extent = extent, .count = 3}, -EINVAL, "flat");
	refused_piece((ckpt_piece){.data = data, .start = 3}, -EINVAL, "no elements");
	refused_piece((ckpt_piece){.data = data, .start = 60, .count = 5}, -ERANGE, "piece 0");
	refused_piece((ckpt_piece){.data = data, .offset = offset, .extent = shape}, -ERANGE, "piece 0");
	refused_piece((ckpt_piece){.data = data, .start = 3, .count = 5, .stride = stride}, -EINVAL, "stride");
	refused_piece((ckpt_piece){.data = data, .stride = (int64_t[]){0, 4}}, -EINVAL, "stride 0");
}

Test(registration_calls, a_device_without_its_layer_is_refused)
{
	ckpt_tensor t = tensor();
	t.device = 0;
	c.s[0]->layers.cuda = NULL;
	refused(&t, -ENODEV, "no CUDA");
	cr_assert_eq(ckpt_register_device_blob(c.s[0], "b", CKPT_SCOPE_RANK, data, 4, 0), -ENODEV);
	cr_assert_eq(ckpt_register_device_blob(c.s[0], "b", CKPT_SCOPE_RANK, data, 4, -2), -EINVAL);
	cr_assert_eq(ckpt_register_device_blob(c.s[0], "b", CKPT_SCOPE_RANK, data, 4, CKPT_HOST), 0);
}

Test(registration_calls, a_name_is_taken_once)
{
	ckpt_tensor t = tensor();
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0);
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), -EEXIST);
	cr_assert_eq(ckpt_register_blob(c.s[0], "w", CKPT_SCOPE_JOB, data, 4), -EEXIST);
	cr_assert_eq(ckpt_register_blob(c.s[0], "w", CKPT_SCOPE_RANK, data, 4), 0, "its name is w@00000");
}

Test(registration_calls, scalars_and_empty_pieces_are_possible)
{
	ckpt_tensor t = tensor();
	t.ndim = 0;
	t.shape = NULL;
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0, "%s", ckpt_error(c.s[0]));
	t = tensor();
	t.name = "empty";
	t.shape = (uint64_t[]){0, 8};
	t.pieces = &(ckpt_piece){.data = NULL};
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), 0, "%s", ckpt_error(c.s[0]));
	ranks_join(&c);
	ranks_save(&c, 1, CKPT_MEMORY);
}

Test(registration_calls, wrong_blobs_are_refused)
{
	cr_assert_eq(ckpt_register_blob(c.s[0], NULL, CKPT_SCOPE_JOB, data, 4), -EINVAL);
	cr_assert_eq(ckpt_register_blob(c.s[0], "b", CKPT_SCOPE_JOB, NULL, 4), -EINVAL);
	cr_assert_eq(ckpt_register_blob(c.s[0], "b", CKPT_SCOPE_JOB, data, 0), -EINVAL);
	cr_assert_eq(ckpt_register_blob(c.s[0], "b", (ckpt_scope)3, data, 4), -EINVAL);
	cr_assert_eq(ckpt_register_blob(c.s[0], "b\n", CKPT_SCOPE_RANK, data, 4), -EINVAL);
}

Test(registration_calls, registration_ends_with_the_join)
{
	ckpt_tensor t = tensor();
	ranks_join(&c);
	cr_assert_eq(ckpt_register_tensor(c.s[0], &t), -EBUSY);
	cr_assert_eq(ckpt_register_blob(c.s[0], "b", CKPT_SCOPE_JOB, data, 4), -EBUSY);
}
