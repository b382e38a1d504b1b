#include "cluster/link/hello.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct hello a_hello(void)
{
	struct hello h = {.protocol = HELLO_PROTOCOL,
			  .from = "node-0",
			  .to = "node-1",
			  .incarnation = 7,
			  .attempt = 3,
			  .resumes = 2,
			  .way = 2,
			  .registry = "/ckpt/",
			  .copies = {{1, 2, 3}, 3}};
	memset(h.roster, 9, sizeof(h.roster));
	return h;
}

Test(hello, it_comes_back_and_no_other_length_does)
{
	AUTO_WBUF struct wbuf w = {0};
	struct hello h = a_hello(), back;
	hello_encode(&h, &w);
	cr_assert_eq(hello_decode(w.data, w.len, &back), 0);
	cr_expect_eq(memcmp(&h, &back, sizeof(h)), 0);
	for (size_t n = 0; n < w.len; n++) {
		AUTO_FREE uint8_t *cut = malloc(n ? n : 1); /* of exact size: the sanitizer sees an overrun */
		memcpy(cut, w.data, n);
		cr_expect_eq(hello_decode(cut, n, &back), -EBADMSG, "%zu bytes", n);
	}
	wbuf_u8(&w, 0);
	cr_expect_eq(hello_decode(w.data, w.len, &back), -EBADMSG);
}

Test(hello, another_protocol_is_told_with_the_names)
{
	AUTO_WBUF struct wbuf w = {0};
	struct hello h = a_hello(), back;
	h.protocol = HELLO_PROTOCOL + 1;
	hello_encode(&h, &w);
	wbuf_u64(&w, 0); /* what it may say more */
	cr_assert_eq(hello_decode(w.data, w.len, &back), -EPROTO);
	cr_expect_eq(back.protocol, HELLO_PROTOCOL + 1u);
	cr_expect_str_eq(back.from, "node-0");
	cr_expect_str_eq(back.to, "node-1");
}

Test(hello, names_and_addresses_that_are_too_long_are_refused)
{
	AUTO_WBUF struct wbuf w = {0};
	struct hello h = a_hello(), back;
	char name[NAME_NODE_MAX + 1];
	memset(name, 'x', NAME_NODE_MAX);
	name[NAME_NODE_MAX] = 0;
	wbuf_u32(&w, HELLO_PROTOCOL);
	wbuf_str(&w, name);
	wbuf_str(&w, "b");
	cr_expect_eq(hello_decode(w.data, w.len, &back), -EBADMSG);
	w.len = 0;
	memset(h.registry, 'x', sizeof(h.registry) - 1);
	hello_encode(&h, &w);
	cr_expect_eq(hello_decode(w.data, w.len, &back), 0);
	w.data[w.len - h.copies.len - 1 - (HELLO_REGISTRY_MAX - 1) - 2]++;
	cr_expect_eq(hello_decode(w.data, w.len, &back), -EBADMSG, "a prefix that is too long");
	w.len = 0;
	hello_encode(&h, &w);
	w.data[w.len - h.copies.len - 1] = HELLO_ADDRESS_MAX + 1;
	for (unsigned i = 0; i < HELLO_ADDRESS_MAX; i++)
		wbuf_u8(&w, 0);
	cr_expect_eq(hello_decode(w.data, w.len, &back), -EBADMSG);
}
