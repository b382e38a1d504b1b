/* Messages about who reaches whom: the first byte is the type. What is accepted encodes to the same bytes. */
#include "format/message/peer_reach.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf out = {0};
	struct peer_reach m;
	struct err err;
	if (!size--)
		return 0;
	uint16_t type = PEER_REACH_ASK + *data++ % (PEER_REACH_END - PEER_REACH_ASK);
	if (peer_reach_decode(type, data, size, &m, &err))
		return 0;
	if (peer_reach_encode(&m, &out) || out.len != size || (size && memcmp(out.data, data, size) != 0))
		abort();
	return 0;
}
