#include "refusals.h"

#include "base/utf8.h"

#include <errno.h>
#include <string.h>

void check_sentence(const char *call, const char *text, const char *says)
{
	cr_assert(strstr(text, says), "%s says \"%s\", not \"%s\"", call, text, says);
	cr_assert_lt(strlen(text), 500, "%s: %s", call, text);
	for (size_t i = 0, n; text[i]; i += n) {
		n = utf8_sequence(text + i, strlen(text + i));
		cr_assert(n, "%s: not UTF-8", call);
		cr_assert_geq((unsigned char)text[i], 0x20, "%s: a control character", call);
	}
}

void leave_another_sentence(ckpt *s)
{
	cr_assert_eq(ckpt_mark(s, 1, 1, (ckpt_health)77, NULL, 0), -EINVAL);
	cr_assert(strstr(ckpt_error(s), "health 77"));
}
