#include "model/data.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEQ = 16, ROWS = 10 };

/* A file in a directory of its own; the path is valid until the next call. */
static const char *new_file(const char *content, size_t size)
{
	static char path[64];
	char directory[] = "/tmp/ckpt-data-XXXXXX";
	FILE *f;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/text", directory);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(content, 1, size, f), size);
	fclose(f);
	return path;
}

static void remove_file(const char *path)
{
	char directory[64];

	unlink(path);
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	rmdir(directory);
}

static struct data *load_text(size_t size)
{
	char text[4096], error[DATA_ERROR_SIZE];
	struct data *d;

	for (size_t i = 0; i < size; i++)
		text[i] = (char)(i * 7 + i / 256);
	const char *path = new_file(text, size);
	cr_assert_eq(data_load(&path, 1, &d, error), 0, "%s", error);
	remove_file(path);
	return d;
}

Test(data, global_batch_does_not_depend_on_the_world)
{
	struct data *d = load_text(4096);
	uint8_t whole[ROWS][SEQ], whole_target[ROWS][SEQ], input[ROWS][SEQ], target[ROWS][SEQ];

	cr_assert_eq(data_batch(d, 3, 42, ROWS, 0, 1, SEQ, whole[0], whole_target[0]), 0);
	for (int world = 1; world <= 12; world++)
		for (int rank = 0; rank < world; rank++) {
			size_t rows = data_rows_of_rank(ROWS, rank, world);

			cr_assert_eq(data_batch(d, 3, 42, ROWS, rank, world, SEQ, input[0], target[0]), 0);
			for (size_t i = 0; i < rows; i++) {
				size_t row = (size_t)rank + i * (size_t)world;

				cr_assert_arr_eq(input[i], whole[row], SEQ);
				cr_assert_arr_eq(target[i], whole_target[row], SEQ);
			}
		}
	data_free(d);
}

Test(data, rows_of_all_ranks_add_up)
{
	for (size_t rows = 0; rows < 20; rows++)
		for (int world = 1; world < 20; world++) {
			size_t sum = 0;

			for (int rank = 0; rank < world; rank++)
				sum += data_rows_of_rank(rows, rank, world);
			cr_assert_eq(sum, rows);
		}
}

Test(data, target_is_the_text_one_byte_later)
{
	struct data *d = load_text(4096);
	uint8_t input[SEQ], target[SEQ];

	cr_assert_eq(data_row(d, 1, 2, 3, SEQ, input, target), 0);
	cr_assert_arr_eq(input + 1, target, SEQ - 1);
	data_free(d);
}

Test(data, steps_rows_and_seeds_give_different_rows)
{
	struct data *d = load_text(4096);
	uint8_t a[SEQ], b[SEQ], target[SEQ];

	data_row(d, 1, 2, 3, SEQ, a, target);
	data_row(d, 1, 3, 3, SEQ, b, target);
	cr_assert_arr_neq(a, b, SEQ);
	data_row(d, 1, 2, 4, SEQ, b, target);
	cr_assert_arr_neq(a, b, SEQ);
	data_row(d, 2, 2, 3, SEQ, b, target);
	cr_assert_arr_neq(a, b, SEQ);
	data_free(d);
}

Test(data, shortest_text_has_exactly_one_row)
{
	struct data *d = load_text(SEQ + 1);
	uint8_t input[SEQ + 1], target[SEQ + 1];

	cr_assert_eq(data_row(d, 1, 2, 3, SEQ, input, target), 0);
	cr_assert_eq(target[SEQ - 1], (uint8_t)(SEQ * 7));
	cr_assert_eq(data_row(d, 1, 2, 3, SEQ + 1, input, target), -ENODATA);
	data_free(d);
}

Test(data, files_are_concatenated_in_order)
{
	char error[DATA_ERROR_SIZE], first[64];
	struct data *d;
	uint8_t input[3], target[3];

	snprintf(first, sizeof(first), "%s", new_file("ab", 2));
	const char *files[2] = {first, new_file("cd", 2)};
	cr_assert_eq(data_load(files, 2, &d, error), 0);
	cr_assert_eq(data_size(d), 4);
	cr_assert_eq(data_row(d, 0, 0, 0, 3, input, target), 0);
	cr_assert_arr_eq(input, "abc", 3);
	cr_assert_arr_eq(target, "bcd", 3);
	data_free(d);
	remove_file(files[0]);
	remove_file(files[1]);
}

Test(data, fingerprint_tells_texts_apart)
{
	struct data *a = load_text(100), *b = load_text(101), *c = load_text(100);

	cr_assert_neq(data_fingerprint(a), data_fingerprint(b));
	cr_assert_eq(data_fingerprint(a), data_fingerprint(c));
	data_free(c);
	data_free(b);
	data_free(a);
}

Test(data, missing_file_is_named)
{
	const char *file = "/nonexistent/text";
	char error[DATA_ERROR_SIZE];
	struct data *d;

	cr_assert_eq(data_load(&file, 1, &d, error), -ENOENT);
	cr_assert_str_eq(error, "/nonexistent/text: No such file or directory");
}

Test(data, directory_is_refused_by_name)
{
	const char *file = "/tmp";
	char error[DATA_ERROR_SIZE];
	struct data *d;

	cr_assert_eq(data_load(&file, 1, &d, error), -EINVAL);
	cr_assert_str_eq(error, "/tmp: not a regular file");
}

Test(data, fifo_is_refused_without_waiting)
{
	const char *file = new_file("", 0);
	char error[DATA_ERROR_SIZE];
	struct data *d;

	unlink(file);
	cr_assert_eq(mkfifo(file, 0600), 0);
	cr_assert_eq(data_load(&file, 1, &d, error), -EINVAL);
	remove_file(file);
}

Test(data, empty_text_is_refused)
{
	const char *file = new_file("", 0);
	char error[DATA_ERROR_SIZE];
	struct data *d;

	cr_assert_eq(data_load(&file, 1, &d, error), -ENODATA);
	remove_file(file);
}

Test(data, default_text_is_there)
{
	char error[DATA_ERROR_SIZE];
	struct data *d;

	if (access(DATA_DEFAULT_DIRECTORY, R_OK) < 0)
		cr_skip_test(DATA_DEFAULT_DIRECTORY " is not on this machine");
	cr_assert_eq(data_load(NULL, 0, &d, error), 0, "%s", error);
	cr_assert_gt(data_size(d), 100000);
	data_free(d);
}
