#include "model/data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rng.h"

struct data {
	uint8_t *text;
	size_t size;
	uint64_t fingerprint;
};

static const size_t max_size = (size_t)1 << 30;

static int complain(char *error, const char *file, int rc, const char *what)
{
	snprintf(error, DATA_ERROR_SIZE, "%s: %s", file, what ? what : strerror(-rc));
	return rc;
}

/* Reads exactly `size` bytes; a file that shrinks meanwhile is an error. */
static int read_all(int fd, uint8_t *to, size_t size)
{
	while (size) {
		ssize_t n = read(fd, to, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		to += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Makes room for `more` bytes behind the text. */
static int grow(struct data *d, size_t more)
{
	uint8_t *text;

	if (more > max_size - d->size)
		return -EFBIG;
	text = realloc(d->text, d->size + more + 1); /* + 1: a size of 0 would free */
	if (!text)
		return -ENOMEM;
	d->text = text;
	return 0;
}

static int append_open_file(struct data *d, int fd, const char *file, char *error)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return complain(error, file, -errno, NULL);
	if (!S_ISREG(st.st_mode))
		return complain(error, file, -EINVAL, "not a regular file");
	rc = grow(d, (size_t)st.st_size);
	if (rc < 0)
		return complain(error, file, rc, rc == -EFBIG ? "the text would exceed 1 GiB" : NULL);
	rc = read_all(fd, d->text + d->size, (size_t)st.st_size);
	if (rc < 0)
		return complain(error, file, rc, rc == -EIO ? "cannot be read to its end" : NULL);
	d->size += (size_t)st.st_size;
	return 0;
}

static int append_file(struct data *d, const char *file, char *error)
{
	int rc, fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: opening a FIFO must not hang */

	if (fd < 0)
		return complain(error, file, -errno, NULL);
	rc = append_open_file(d, fd, file, error);
	close(fd);
	return rc;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int append_regular(struct data *d, const char *name, char *error)
{
	char path[sizeof(DATA_DEFAULT_DIRECTORY) + 256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", DATA_DEFAULT_DIRECTORY, name);
	if (lstat(path, &st) < 0)
		return complain(error, path, -errno, NULL);
	return S_ISREG(st.st_mode) ? append_file(d, path, error) : 0;
}

static int append_default(struct data *d, char *error)
{
	struct dirent **entries;
	int rc = 0, n = scandir(DATA_DEFAULT_DIRECTORY, &entries, NULL, by_bytes);

	if (n < 0)
		return complain(error, DATA_DEFAULT_DIRECTORY, -errno, NULL);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = append_regular(d, entries[i]->d_name, error);
		free(entries[i]);
	}
	free(entries);
	return rc;
}

static uint64_t fingerprint(const struct data *d)
{
	uint64_t sum = rng_mix(d->size + 1), word;
	size_t i = 0;

	for (; i + sizeof(word) <= d->size; i += sizeof(word)) {
		memcpy(&word, d->text + i, sizeof(word));
		sum = rng_mix(sum ^ word);
	}
	for (; i < d->size; i++)
		sum = rng_mix(sum ^ d->text[i]);
	return sum;
}

static int fill(struct data *d, const char *const *files, size_t count, char *error)
{
	int rc = count ? 0 : append_default(d, error);

	for (size_t i = 0; i < count && rc == 0; i++)
		rc = append_file(d, files[i], error);
	if (rc == 0 && d->size == 0)
		rc = complain(error, count ? files[0] : DATA_DEFAULT_DIRECTORY, -ENODATA, "no text");
	return rc;
}

int data_load(const char *const *files, size_t count, struct data **data, char error[DATA_ERROR_SIZE])
{
	struct data *d = calloc(1, sizeof(*d));
	int rc;

	error[0] = '\0';
	if (!d)
		return complain(error, "training text", -ENOMEM, NULL);
	rc = fill(d, files, count, error);
	if (rc < 0) {
		data_free(d);
		return rc;
	}
	d->fingerprint = fingerprint(d);
	*data = d;
	return 0;
}

void data_free(struct data *d)
{
	if (!d)
		return;
	free(d->text);
	free(d);
}

size_t data_size(const struct data *d)
{
	return d->size;
}

uint64_t data_fingerprint(const struct data *d)
{
	return d->fingerprint;
}

int data_row(const struct data *d, uint64_t seed, uint64_t step, uint64_t row, size_t seq_len, uint8_t *input,
	     uint8_t *target)
{
	uint64_t start;

	if (seq_len >= d->size)
		return -ENODATA;
	start = rng_below(rng_mix(seed ^ UINT64_C(0x64617461)), step, row,
			  d->size - seq_len); /* "data": not the model's draws */
	memcpy(input, d->text + start, seq_len);
	memcpy(target, d->text + start + 1, seq_len);
	return 0;
}

size_t data_rows_of_rank(size_t global_rows, int rank, int world)
{
	size_t r = (size_t)rank, n = (size_t)world;

	return global_rows / n + (global_rows % n > r);
}

int data_batch(const struct data *d, uint64_t seed, uint64_t step, size_t global_rows, int rank, int world,
	       size_t seq_len, uint8_t *input, uint8_t *target)
{
	int rc = 0;

	for (size_t row = (size_t)rank; row < global_rows && rc == 0; row += (size_t)world) {
		rc = data_row(d, seed, step, row, seq_len, input, target);
		input += seq_len;
		target += seq_len;
	}
	return rc;
}
