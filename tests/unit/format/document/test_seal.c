#include "format/files/manifest.h"
#include "format/sample.h"

#include <criterion/criterion.h>

/* The worked example of docs/reference/format.md. */
Test(seal, the_example_of_the_specification)
{
	static const char sealed[] =
		"{\"format\":\"ckpt.pin\",\"version\":1,\"job\":\"gpt\",\"step\":1000,\"epoch\":3,"
		"\"pinned_at\":1700000000000000000,"
		"\"note\":\"before the learning rate drop\",\"root\":\"78e54c51c0fe6ed6b3247af46aa7f6ff\"}\n";
	struct wbuf text;
	char body[sizeof(sealed)];
	snprintf(body, sizeof(body), "%.*s", (int)(strstr(sealed, ",\"root\"") - sealed), sealed);
	sample_sealed(body, &text);
	cr_assert_eq(text.len, sizeof(sealed) - 1);
	cr_assert_eq(memcmp(text.data, sealed, text.len), 0, "%.*s", (int)text.len, (const char *)text.data);
	wbuf_free(&text);
}

static void make(struct wbuf *text)
{
	struct node_manifest m;
	uint64_t seed = 4;
	sample_node(&seed, 0, 1, &m);
	sample_text(&m, text);
	node_manifest_free(&m);
}

Test(seal, every_flipped_bit_is_found)
{
	struct wbuf text;
	struct err err;
	make(&text);
	cr_assert_eq(seal_check(text.data, text.len, &err), 0);
	for (size_t bit = 0; bit < text.len * 8; bit++) {
		text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		err.text[0] = 0;
		cr_assert_eq(seal_check(text.data, text.len, &err), -EBADMSG, "bit %zu", bit);
		cr_assert_neq(err.text[0], 0);
		text.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_eq(seal_check(text.data, text.len, &err), 0);
	wbuf_free(&text);
}

Test(seal, every_truncation_is_found)
{
	struct wbuf text;
	make(&text);
	for (size_t len = 0; len < text.len; len++) {
		uint8_t *copy = malloc(len + 1); /* so that a read past the end is seen */
		memcpy(copy, text.data, len);
		copy = realloc(copy, len ? len : 1);
		cr_assert_eq(seal_check(copy, len, NULL), -EBADMSG, "length %zu", len);
		free(copy);
	}
	wbuf_free(&text);
}

Test(seal, bytes_after_the_seal_are_found)
{
	struct wbuf text;
	make(&text);
	wbuf_u8(&text, '\n');
	cr_assert_eq(seal_check(text.data, text.len, NULL), -EBADMSG);
	wbuf_free(&text);
}

Test(seal, a_second_seal_on_top_is_a_document_with_two_roots)
{
	struct wbuf text;
	struct node_manifest m;
	struct err err;
	make(&text);
	text.len -= 2; /* "}\n" */
	seal_append(&text);
	cr_assert_eq(seal_check(text.data, text.len, &err), 0);
	cr_assert_eq(node_manifest_decode(text.data, text.len, &m, &err), -EBADMSG);
	cr_assert_not_null(strstr(err.text, "root: stands twice"), "%s", err.text);
	wbuf_free(&text);
}
