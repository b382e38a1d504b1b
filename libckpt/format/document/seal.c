/* The seal of a JSON document: its last 44 bytes are `,"root":"<32 hex>"}\n`, root being the digest of all before them. */
#include "format/document/seal.h"

#include "format/tensor/digest.h"

#include "format/document/json_out.h"

#include <string.h>

static const char seal_head[] = ",\"root\":\"";
static const char seal_tail[] = "\"}\n";

enum {
	SEAL_HEAD = sizeof(seal_head) - 1,
	SEAL_HEX = DIGEST_TEXT - 1,
	SEAL_TAIL = sizeof(seal_tail) - 1,
	SEAL_SIZE = SEAL_HEAD + SEAL_HEX + SEAL_TAIL,
};

void seal_append(struct wbuf *out)
{
	if (out->failed)
		return;
	char hex[DIGEST_TEXT];
	digest_text(digest_bytes(out->data, out->len), hex);
	jout_raw(out, seal_head);
	jout_raw(out, hex);
	jout_raw(out, seal_tail);
}

int seal_check(const void *text, size_t len, struct err *err)
{
	if (len < SEAL_SIZE)
		return err_set(err, -EBADMSG, "%zu bytes are too few for a sealed document: truncated?", len);
	size_t body = len - SEAL_SIZE;
	const char *seal = (const char *)text + body;
	if (memcmp(seal, seal_head, SEAL_HEAD) != 0 || memcmp(seal + SEAL_HEAD + SEAL_HEX, seal_tail, SEAL_TAIL) != 0)
		return err_set(err, -EBADMSG, "no seal at the end: truncated, or not written by ckpt");
	char hex[DIGEST_TEXT], actual[DIGEST_TEXT];
	memcpy(hex, seal + SEAL_HEAD, SEAL_HEX);
	hex[SEAL_HEX] = 0;
	struct digest stored, computed = digest_bytes(text, body);
	digest_text(computed, actual);
	if (digest_parse(hex, &stored) < 0)
		return err_set(err, -EBADMSG, "the seal's root is not a digest: damaged");
	if (!digest_equal(stored, computed))
		return err_set(err, -EBADMSG, "damaged: the seal says %s, the text has %s", hex, actual);
	return 0;
}
