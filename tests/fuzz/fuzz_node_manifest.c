/* libFuzzer entry point: the decoder of node manifests. What is accepted is written so that it is accepted again, and then written the
 * same. */
#include "sealed.h"

static void decode_node(const uint8_t *data, size_t size)
{
	struct node_manifest m, again;
	struct wbuf text = {0}, copy = {0};
	struct err err;
	if (node_manifest_decode(data, size, &m, &err) == 0 && node_manifest_encode(&m, &text) == 0) {
		if (node_manifest_decode(text.data, text.len, &again, &err) == -EBADMSG)
			abort();
		if (again.world && node_manifest_encode(&again, &copy) == 0)
			same_text_or_abort(&text, &copy);
		node_manifest_free(&again);
	}
	wbuf_free(&text);
	wbuf_free(&copy);
	node_manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sealed_and_bare(decode_node, data, size);
	return 0;
}
