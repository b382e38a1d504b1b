/* libFuzzer entry point: what another daemon says once it has proved that it belongs to the cluster: its hello, and parts of messages. What is decoded
 * comes back byte by byte. */
#include "base/cleanup.h"
#include "cluster/net/hello.h"
#include "cluster/net/inbox.h"

#include <stdlib.h>
#include <string.h>

static void greet(const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf again = {0};
	struct hello hello;
	if (hello_decode(data, size, &hello))
		return;
	hello_encode(&hello, &again);
	if (again.len != size || memcmp(again.data, data, size) != 0)
		abort();
}

/* Parts of messages, in pieces of the length that the first byte says. */
static void fill_inbox(const uint8_t *data, size_t size)
{
	struct inbox in = {NULL};
	size_t step = size ? data[0] + 1u : 1;
	for (size_t at = 0; at < size; at += step) {
		int rc = inbox_take(&in, data + at, size - at < step ? size - at : step);
		if (rc > 0 && in.have != in.len)
			abort();
		if (rc)
			inbox_clear(&in);
	}
	inbox_clear(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	greet(data, size);
	fill_inbox(data, size);
	return 0;
}
