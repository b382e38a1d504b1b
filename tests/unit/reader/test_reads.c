#include "reader_store.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
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

TestSuite(reads, .init = up, .fini = down);

static ckpt_reader_box whole(const char *name, void *data)
{
	ckpt_reader_box box = CKPT_INIT(ckpt_reader_box);
	box.name = name;
	box.data = data;
	return box;
}

/* Everything in one call. */
static int read_all(void)
{
	size_t n = ckpt_reader_count(r);
	AUTO_FREE ckpt_reader_box *boxes = calloc(n, sizeof(*boxes));
	for (size_t i = 0; i < n; i++) {
		const ckpt_reader_tensor *t = ckpt_reader_tensor_at(r, i);
		boxes[i] = whole(t->name, malloc(t->bytes + 1));
	}
	int rc = ckpt_reader_read(r, boxes, n);
	for (size_t i = 0; i < n; i++) {
		const ckpt_reader_tensor *t = ckpt_reader_tensor_at(r, i);
		AUTO_FREE void *due = reader_due(r, t);
		if (!rc && memcmp(boxes[i].data, due, t->bytes))
			rc = 1;
		free(boxes[i].data);
	}
	return rc;
}

Test(reads, everything_that_was_saved)
{
	cr_assert_eq(read_all(), 0, "%s", ckpt_reader_error());
}

Test(reads, a_box_in_the_place_where_it_belongs)
{
	static float matrix[64][100];
	const uint64_t offset[] = {10, 5}, extent[] = {20, 30};
	const int64_t stride[] = {sizeof(matrix[0]), sizeof(float)};
	ckpt_reader_box box = whole("colwise", &matrix[10][50]);
	box.offset = offset;
	box.extent = extent;
	box.stride = stride;
	cr_assert_eq(ckpt_reader_read(r, &box, 1), 0, "%s", ckpt_reader_error());
	AUTO_FREE float *due = reader_due(r, ckpt_reader_find(r, "colwise"));
	for (size_t i = 0; i < 64; i++)
		for (size_t k = 0; k < 100; k++) {
			bool in = i >= 10 && i < 30 && k >= 50 && k < 80;
			float want = in ? due[i * 48 + k - 45] : 0;
			cr_assert_eq(memcmp(&matrix[i][k], &want, sizeof(want)), 0, "[%zu, %zu]", i, k);
		}
	cr_assert_eq(ckpt_reader_read(r, NULL, 0), 0);
}

static void *read_in_thread(void *failed)
{
	for (int i = 0; i < 20; i++)
		if (read_all())
			*(int *)failed = 1;
	return NULL;
}

Test(reads, by_several_threads_at_once)
{
	enum { THREADS = 12 };
	pthread_t threads[THREADS];
	int failed[THREADS] = {0};
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, read_in_thread, &failed[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		cr_assert_eq(failed[i], 0);
	}
}

Test(reads, damage_is_named_and_what_was_removed_is_not_damage)
{
	static float data[64][48];
	ckpt_reader_piece p = CKPT_INIT(ckpt_reader_piece);
	const ckpt_reader_tensor *t = ckpt_reader_find(r, "rowwise");
	const ckpt_reader_box box = whole("rowwise", data);
	cr_assert_eq(ckpt_reader_piece_at(r, t, 1, &p), 0);
	scratch_flip(ckpt_reader_path(r), p.file, p.at + 100, 1);
	cr_assert_eq(ckpt_reader_read(r, &box, 1), -EBADMSG);
	cr_assert(strstr(ckpt_reader_error(), "main/step-000000000030.e0002: ") &&
			  strstr(ckpt_reader_error(), p.file) && strstr(ckpt_reader_error(), "rowwise"),
		  "%s", ckpt_reader_error());
	scratch_remove(ckpt_reader_path(r));
	cr_assert_eq(ckpt_reader_read(r, &box, 1), -ENOENT);
	cr_assert(strstr(ckpt_reader_error(), "was removed while it was read"), "%s", ckpt_reader_error());
}

static int stop(void *arg, uint64_t done, uint64_t total)
{
	*(uint64_t *)arg = total;
	return done < total;
}

Test(reads, progress_can_end_it)
{
	static float data[64][48];
	uint64_t total = 0;
	ckpt_reader *other;
	ckpt_reader_options o = CKPT_INIT(ckpt_reader_options);
	o.store = reader_root;
	o.progress = stop;
	o.progress_arg = &total;
	cr_assert_eq(ckpt_reader_open(&o, &other), 0);
	const ckpt_reader_box box = whole("rowwise", data);
	cr_assert_eq(ckpt_reader_read(other, &box, 1), -ECANCELED);
	cr_assert_eq(total, sizeof(data));
	ckpt_reader_close(other);
}
