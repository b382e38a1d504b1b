#include "kept.h"

#include "base/bytes.h"

#include <criterion/criterion.h>

#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 16 };

static struct piece {
	void *at;
	size_t bytes;
	unsigned long given; /* when; 0: it is in use */
} pieces[PIECES];

static unsigned long gifts;

static struct piece *find_given(size_t bytes)
{
	struct piece *found = NULL;
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].given && pieces[i].bytes == bytes && (!found || pieces[i].given < found->given))
			found = &pieces[i];
	return found;
}

static struct piece *make(size_t bytes)
{
	int i = 0;
	while (i < PIECES && pieces[i].at)
		i++;
	cr_assert_lt(i, PIECES, "more than %d pieces at a time", PIECES);
	pieces[i] = (struct piece){.at = aligned_alloc(4096, align_up(bytes, 4096)), .bytes = bytes};
	cr_assert_not_null(pieces[i].at);
	return &pieces[i];
}

void *kept_take(size_t bytes)
{
	struct piece *piece = find_given(bytes);
	if (!piece)
		piece = make(bytes);
	piece->given = 0;
	ASAN_UNPOISON_MEMORY_REGION(piece->at, bytes);
	return memset(piece->at, 0, bytes);
}

static struct piece *in_use(void *at)
{
	int i = 0;
	while (i < PIECES && pieces[i].at != at)
		i++;
	cr_assert_lt(i, PIECES, "no piece is at %p", at);
	cr_assert_eq(pieces[i].given, 0u, "the piece at %p was given back before", at);
	return &pieces[i];
}

void kept_give(void *at)
{
	struct piece *piece = in_use(at);
	piece->given = ++gifts;
	ASAN_POISON_MEMORY_REGION(at, piece->bytes);
}

void kept_end(void *at)
{
	*in_use(at) = (struct piece){0};
	free(at);
}
