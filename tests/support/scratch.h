/* A directory of its own for a test, below TMPDIR. */
#ifndef CKPT_TESTS_SCRATCH_H
#define CKPT_TESTS_SCRATCH_H

#include <stddef.h>

enum { SCRATCH_MAX = 256 };

/* Makes it; aborts when it cannot. */
void scratch_new(char path[SCRATCH_MAX]);
/* Removes it with all that is in it. */
void scratch_remove(const char *path);

/* Small files, for tests that damage them. All abort on error. */
size_t scratch_size(const char *dir, const char *name);
/* malloc'ed; *len may be NULL. */
void *scratch_read(const char *dir, const char *name, size_t *len);
void scratch_write(const char *dir, const char *name, const void *data, size_t len);
/* Inverts one bit of the file in place. */
void scratch_flip(const char *dir, const char *name, size_t byte, unsigned bit);

#endif
