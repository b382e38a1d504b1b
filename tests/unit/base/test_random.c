#include "base/random.h"

#include <criterion/criterion.h>

/* The first of the sequence that implementations are compared by. */
Test(random, is_splitmix64)
{
	static const uint64_t known[] = {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull,
					 4593380528125082431ull, 16408922859458223821ull};
	uint64_t state = 1234567;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		cr_expect_eq(random_next(&state), known[i], "number %zu", i);
}
