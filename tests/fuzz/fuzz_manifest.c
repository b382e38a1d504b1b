/* libFuzzer entry point: the decoders of MANIFEST.json and of the marks, on the input as it is and with a seal that matches,
 * so that what comes after the first check is reached. */
#include "format/manifest.h"
#include "format/marks.h"

#include <stdlib.h>

static void decode_text(const uint8_t *data, size_t size)
{
	struct manifest m;
	struct health health;
	struct pin pin;
	struct err err;
	if (manifest_decode(data, size, &m, &err) == 0 && (!m.nnodes || !m.world))
		abort();
	manifest_free(&m);
	health_decode(data, size, &health, &err);
	pin_decode(data, size, &pin, &err);
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
