/* What the ends of a rail say when they connect: whom it proves. */
#include "cluster/link/rail_words.h"

#include "base/cleanup.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(rail_words, .init = pair_setup, .fini = pair_teardown);

Test(rail_words, they_prove_the_session_to_its_other_end)
{
	uint8_t said[RAIL_WORDS];
	struct rail_words heard;
	struct pair p = open_pair();
	cr_assert(rail_words_say(p.call, 0, 7, said));
	cr_assert_eq(rail_words_decode(said, sizeof(said), &heard), 0);
	cr_expect(heard.speaker == 0 && heard.call == 7);
	cr_expect(rail_words_proved(p.answer, &heard));
	end_pair(&p);
}

Test(rail_words, no_other_word_and_no_other_session_is_proved)
{
	uint8_t said[RAIL_WORDS];
	struct rail_words heard;
	struct pair p = open_pair(), other = open_pair();
	cr_assert(rail_words_say(p.call, 0, 7, said));
	for (unsigned bit = 0; bit < 8 * sizeof(said); bit++) {
		said[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_eq(rail_words_decode(said, sizeof(said), &heard), 0);
		cr_expect(!rail_words_proved(p.answer, &heard), "bit %u", bit);
		said[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	cr_assert_eq(rail_words_decode(said, sizeof(said), &heard), 0);
	cr_expect(!rail_words_proved(other.answer, &heard));
	end_pair(&p);
	end_pair(&other);
}

Test(rail_words, what_is_cut_is_none)
{
	struct rail_words heard;
	for (size_t n = 0; n < RAIL_WORDS; n++) {
		AUTO_FREE uint8_t *cut = calloc(1, n ? n : 1); /* of exact size: the sanitizer sees an overrun */
		cr_expect_eq(rail_words_decode(cut, n, &heard), -EBADMSG, "%zu bytes", n);
	}
}
