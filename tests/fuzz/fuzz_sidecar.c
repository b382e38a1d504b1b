/* libFuzzer entry point: the sidecar's decoder, on bytes as they are and with their last 16 replaced by a digest that matches,
 * so that what comes after the first check is reached. */
#include "format/files/sidecar.h"

#include <stdlib.h>
#include <string.h>

enum { TAIL = 16 };

static void decode_sidecar(const uint8_t *data, size_t size)
{
	struct sidecar sc;
	struct err err;
	if (sidecar_decode(data, size, &sc, &err) == 0 && sidecar_size(sc.npieces, sc.nleaves) != size)
		abort();
	sidecar_free(&sc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode_sidecar(data, size);
	if (size < TAIL)
		return 0;
	struct wbuf forged = {0};
	struct digest d = digest_bytes(data, size - TAIL);
	wbuf_put(&forged, data, size - TAIL);
	wbuf_u64(&forged, d.low);
	wbuf_u64(&forged, d.high);
	if (!forged.failed)
		decode_sidecar(forged.data, forged.len);
	wbuf_free(&forged);
	return 0;
}
