/* Messages between nodes and coordinator: the first byte is the type. What is accepted is written so that it is accepted again, and then
 * written the same. */
#include "format/message/peer_coord.h"

#include <stdlib.h>
#include <string.h>

static void same(const struct wbuf *a, const struct wbuf *b)
{
	if (a->len != b->len || memcmp(a->data, b->data, a->len) != 0)
		abort();
}

static void report(uint16_t type, const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf text = {0}, copy = {0};
	struct peer_report m, again;
	struct err err;
	if (peer_report_decode(type, data, size, &m, &err) || peer_report_encode(&m, &text))
		return;
	if (peer_report_decode(type, text.data, text.len, &again, &err))
		abort();
	if (!peer_report_encode(&again, &copy))
		same(&text, &copy);
}

static void order(uint16_t type, const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf text = {0}, copy = {0};
	struct peer_order m, again;
	struct err err;
	if (peer_order_decode(type, data, size, &m, &err))
		return;
	int rc = peer_order_encode(&m, &text);
	peer_order_free(&m);
	if (rc)
		return;
	if (peer_order_decode(type, text.data, text.len, &again, &err))
		abort();
	if (!peer_order_encode(&again, &copy))
		same(&text, &copy);
	peer_order_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	uint16_t type = data[0] % PEER_ORDER_END;
	if (type && type < PEER_REPORT_END)
		report(type, data + 1, size - 1);
	else if (type >= PEER_ADOPT)
		order(type, data + 1, size - 1);
	return 0;
}
