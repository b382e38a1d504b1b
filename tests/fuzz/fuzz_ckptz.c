/* libFuzzer entry point: packed files. The index, on bytes as they are and with its last 16 replaced by a digest that matches, and the
 * chunks that it describes, each with a digest that matches, so that the decoder is reached. */
#include "format/files/packed.h"
#include "store/read/chunk.h"

#include <stdlib.h>
#include <string.h>

enum { TAIL = 16, COUNT_AT = 16 };

/* Of the index, as the input itself says; 0: it has none. */
static size_t index_len(const uint8_t *data, size_t size)
{
	uint64_t n;
	if (size < COUNT_AT + sizeof(n))
		return 0;
	memcpy(&n, data + COUNT_AT, sizeof(n));
	return n < size && packed_index_size(n) <= size ? packed_index_size(n) : 0;
}

static void unpack(struct chunk_unpacker *unpacker, const struct packed_index *index, const uint8_t *data, size_t size)
{
	for (uint32_t i = 0; i < index->nchunks; i++) {
		struct packed_chunk c = index->chunks[i];
		const uint8_t *plain;
		struct err err;
		if (c.at > size || c.bytes > size - c.at)
			continue;
		c.digest = digest_bytes(data + c.at, c.bytes);
		chunk_forget(unpacker);
		if (chunk_unpack(unpacker, &c, data + c.at, &plain, &err) == 0 && digest_bytes(plain, c.plain).low == 1)
			abort(); /* reads all of it */
	}
}

static void decode(struct chunk_unpacker *unpacker, const uint8_t *data, size_t size)
{
	struct packed_index index;
	struct err err;
	size_t len = index_len(data, size);
	if (packed_index_decode(data, len ? len : size, &index, &err) == 0) {
		if (index.index_size != len || packed_find(&index, index.data_size, 1))
			abort();
		unpack(unpacker, &index, data, size);
	}
	packed_index_free(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct chunk_unpacker *unpacker;
	size_t len = index_len(data, size);
	if (!unpacker && chunk_unpacker_new(&unpacker) < 0)
		abort();
	decode(unpacker, data, size);
	uint8_t *forged = len ? malloc(size) : NULL;
	if (!forged)
		return 0;
	memcpy(forged, data, size);
	struct digest d = digest_bytes(forged, len - TAIL);
	memcpy(forged + len - TAIL, &d, TAIL);
	decode(unpacker, forged, size);
	free(forged);
	return 0;
}
