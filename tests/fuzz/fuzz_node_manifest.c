/* libFuzzer entry point: the decoder of node manifests, on the input as it is and with a seal that matches, so that what comes
 * after the first check is reached. */
#include "format/manifest.h"

#include <stdlib.h>

static void decode_text(const uint8_t *data, size_t size)
{
	struct node_manifest m, again;
	struct wbuf text = {0};
	struct err err;
	if (node_manifest_decode(data, size, &m, &err) == 0) {
		if (node_manifest_encode(&m, &text) < 0 || node_manifest_decode(text.data, text.len, &again, &err) < 0)
			abort();
		node_manifest_free(&again);
		wbuf_free(&text);
	}
	node_manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wbuf sealed = {0};
	decode_text(data, size);
	wbuf_put(&sealed, data, size);
	seal_append(&sealed);
	if (!sealed.failed)
		decode_text(sealed.data, sealed.len);
	wbuf_free(&sealed);
	return 0;
}
