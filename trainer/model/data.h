/*
 * The training text: one or more files, concatenated in the order given, and the rows drawn from it. Which bytes
 * a row holds depends on the seed, the step and the row's number in the global batch only, never on the world
 * size: rank r of n takes rows r, r + n, r + 2n, ...
 */
#ifndef CKPT_TRAINER_DATA_H
#define CKPT_TRAINER_DATA_H

#include <stddef.h>
#include <stdint.h>

struct data;

enum { DATA_ERROR_SIZE = 512 };

/* The directory that is read when no file is named: licence texts, which every Debian and Ubuntu has. */
#define DATA_DEFAULT_DIRECTORY "/usr/share/common-licenses"

/*
 * Reads `count` files into memory (at most 1 GiB in all); with count 0 all regular files of
 * DATA_DEFAULT_DIRECTORY in byte order of their names (links are skipped: they repeat a text).
 * Returns 0 and a text to be freed with data_free(), or -errno with the reason, naming the file, in `error`
 * (-EINVAL: not a regular file; -ENODATA: no bytes in all; -EFBIG: more than 1 GiB; -ENOMEM).
 */
int data_load(const char *const *files, size_t count, struct data **data, char error[DATA_ERROR_SIZE]);

/* NULL is allowed. */
void data_free(struct data *data);

/* Bytes of text. */
size_t data_size(const struct data *data);

/* A 64-bit fingerprint of the text, for ranks to compare: different machines may hold different files. */
uint64_t data_fingerprint(const struct data *data);

/*
 * Writes one row: input[seq_len] and target[seq_len], the same text one byte later. Thread-safe: the text is
 * read-only. Returns 0, or -ENODATA when the text has fewer than seq_len + 1 bytes.
 */
int data_row(const struct data *data, uint64_t seed, uint64_t step, uint64_t row, size_t seq_len, uint8_t *input,
	     uint8_t *target);

/* How many of `global_rows` rows are rank's. */
size_t data_rows_of_rank(size_t global_rows, int rank, int world);

/*
 * Writes all of a rank's rows of one step, in order of their numbers: data_rows_of_rank() * seq_len bytes into
 * input and into target. Errors as data_row().
 */
int data_batch(const struct data *data, uint64_t seed, uint64_t step, size_t global_rows, int rank, int world,
	       size_t seq_len, uint8_t *input, uint8_t *target);

#endif
