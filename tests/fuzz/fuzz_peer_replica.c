/* Messages of replicas: the first byte chooses the decoder. What is accepted encodes to the same bytes. */
#include "format/message/peer_replica.h"

#include <stdlib.h>
#include <string.h>

static void same(int rc, const struct wbuf *out, const uint8_t *data, size_t size)
{
	if (rc || out->len != size || (size && memcmp(out->data, data, size) != 0))
		abort();
}

#define TRY(name)                                                                                                      \
	do {                                                                                                           \
		struct peer_##name m_;                                                                                 \
		if (!peer_##name##_decode(data, size, &m_, &err))                                                      \
			same(peer_##name##_encode(&m_, &out), &out, data, size);                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf out = {0};
	struct err err;
	struct peer_head head;
	if (!size--)
		return 0;
	switch (*data++ % 7) {
	case 0:
		TRY(offer);
		break;
	case 1:
		TRY(open);
		break;
	case 2:
		TRY(fetch);
		break;
	case 3:
		TRY(source);
		break;
	case 4:
		TRY(forget);
		break;
	case 5:
		TRY(holdings);
		break;
	default:
		if (!peer_head_decode(PEER_SEAL, data, size, &head, &err))
			same(peer_head_encode(&head, &out), &out, data, size);
	}
	return 0;
}
