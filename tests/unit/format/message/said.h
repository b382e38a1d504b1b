/* What daemons say to each other, as the bytes of samples. Where these change, a daemon of another release misreads them: then HELLO_PROTOCOL is to be
 * raised, and SAID_PROTOCOL and the digests of the tests are to follow. */
#ifndef CKPT_TESTS_SAID_H
#define CKPT_TESTS_SAID_H

#include "base/bytes.h"
#include "cluster/link/hello.h"
#include "format/tensor/digest.h"

#include <criterion/criterion.h>

enum { SAID_PROTOCOL = 23 };
_Static_assert((int)HELLO_PROTOCOL == (int)SAID_PROTOCOL, "said.h, and the digests of the tests, follow the protocol");

static inline void expect_said(const struct wbuf *all, const char *expected)
{
	char text[DIGEST_TEXT];
	digest_text(digest_bytes(all->data, all->len), text);
	cr_expect_str_eq(
		text, expected,
		"a message has changed, and the digest is %s: raise HELLO_PROTOCOL (cluster/link/hello.h) above "
		"%d, unless this release has done so already, and let said.h and this test follow it",
		text, SAID_PROTOCOL);
}

#endif
