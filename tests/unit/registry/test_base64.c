#include "registry/base64_private.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static char text[512];
static uint8_t bytes[512];

static const char *put(const void *data, size_t len)
{
	struct wbuf w = wbuf_over(text, sizeof(text) - 1);
	base64_put(&w, data, len);
	text[w.len] = 0;
	return text;
}

Test(base64, the_vectors_of_the_rfc)
{
	static const char *const vectors[][2] = {{"", ""},
						 {"f", "Zg=="},
						 {"fo", "Zm8="},
						 {"foo", "Zm9v"},
						 {"foob", "Zm9vYg=="},
						 {"fooba", "Zm9vYmE="},
						 {"foobar", "Zm9vYmFy"}};
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const char *plain = vectors[i][0], *coded = vectors[i][1];
		cr_assert_str_eq(put(plain, strlen(plain)), coded);
		cr_assert_eq(base64_get(coded, strlen(coded), bytes), (long)strlen(plain));
		cr_assert_arr_eq(bytes, plain, strlen(plain));
	}
}

Test(base64, every_byte_comes_back)
{
	uint8_t all[256];
	for (unsigned i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)(i * 151);
	for (size_t len = 0; len <= sizeof(all); len++) {
		put(all, len);
		cr_assert_leq(len, base64_room(strlen(text)));
		cr_assert_eq(base64_get(text, strlen(text), bytes), (long)len);
		cr_assert_arr_eq(bytes, all, len);
	}
}

Test(base64, there_is_one_way_to_write_it)
{
	static const char *const wrong[] = {"Z",     "Zg",       "Zg=",       "Zh==", "Zm9=", "====",
					    "Z===",  "Zg==Zg==", "Zm9vYg= =", "Zm-v", "Zm_v", "Zm\nv",
					    "Zm9v=", "=m9v",     "Z=9v",      "Zm=v", "Zg=A"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(base64_get(wrong[i], strlen(wrong[i]), bytes), -EBADMSG, "%s is taken", wrong[i]);
	cr_assert_eq(base64_get("Zm9\0", 4, bytes), -EBADMSG);
}
