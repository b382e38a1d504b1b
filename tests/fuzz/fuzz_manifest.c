/* libFuzzer entry point: the decoder of MANIFEST.json. */
#include "sealed.h"

static void decode_manifest(const uint8_t *data, size_t size)
{
	struct manifest m;
	struct err err;
	if (manifest_decode(data, size, &m, &err) == 0 && (!m.nnodes || !m.world))
		abort();
	manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sealed_and_bare(decode_manifest, data, size);
	return 0;
}
