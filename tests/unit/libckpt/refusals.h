/* What a call that fails returns, and its sentence. tests/tidy/test_arguments.py reads these rows: a function's name, a code, a part of the sentence. */
#ifndef CKPT_TESTS_REFUSALS_H
#define CKPT_TESTS_REFUSALS_H

#include "ckpt.h"

#include <criterion/criterion.h>

/* That the sentence is of this call, a person can read it, and it stays on its line. */
void check_sentence(const char *call, const char *text, const char *says);
/* A failure before, whose sentence must not be left. */
void leave_another_sentence(ckpt *s);

/* The code, and a part of the sentence, on the session `s`. */
#define REFUSES(call, code, says)                                                                                      \
	do {                                                                                                           \
		leave_another_sentence(s);                                                                             \
		int refused = (int)(call);                                                                             \
		cr_assert_eq(refused, code, "%s is %d: %s", #call, refused, ckpt_error(s));                            \
		check_sentence(#call, ckpt_error(s), says);                                                            \
	} while (0)

/* The same of a call that was given no session: who has none can ask, too. */
#define REFUSES_WITHOUT(call, code, says)                                                                              \
	do {                                                                                                           \
		REFUSES(call, code, says);                                                                             \
		check_sentence(#call, ckpt_error(NULL), says);                                                         \
	} while (0)

/* Where there is no session to ask, before ckpt_open or after ckpt_close: the sentence is in `why`. */
#define REFUSES_IN_WHY(call, code, says)                                                                               \
	do {                                                                                                           \
		why[0] = 0;                                                                                            \
		int refused = (int)(call);                                                                             \
		cr_assert_eq(refused, code, "%s is %d: %s", #call, refused, why);                                      \
		check_sentence(#call, why, says);                                                                      \
	} while (0)

#endif
