/* libFuzzer entry point: what another daemon says once it has proved that it belongs to the cluster: its hello, that of a lane, what is
 * said over one, and parts of messages. What is decoded
 * comes back byte by byte. */
#include "base/cleanup.h"
#include "cluster/link/hello.h"
#include "cluster/link/inbox.h"
#include "cluster/link/lane.h"
#include "cluster/link/rumours.h"

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

static void tell(const uint8_t *data, size_t size)
{
	uint8_t bytes[RUMOUR_BYTES];
	struct wbuf again = wbuf_over(bytes, sizeof(bytes));
	struct rumour rumour;
	if (rumour_decode(data, size, &rumour))
		return;
	rumour_encode(&rumour, &again);
	if (again.len != size || memcmp(bytes, data, size) != 0)
		abort();
}

static void open_lane(const uint8_t *data, size_t size)
{
	AUTO_WBUF struct wbuf again = {0};
	struct lane_hello hello;
	if (lane_hello_decode(data, size, &hello))
		return;
	lane_hello_encode(&hello, &again);
	if (again.len != size || memcmp(again.data, data, size) != 0)
		abort();
}

static void ask_and_answer(const uint8_t *data, size_t size)
{
	struct lane_request request;
	struct lane_answer answer;
	uint8_t again[LANE_REQUEST_BYTES];
	if (size < LANE_REQUEST_BYTES || lane_request_decode(data, &request))
		return;
	lane_request_encode(&request, again);
	if (memcmp(again, data, sizeof(again)) != 0)
		abort();
	data += LANE_REQUEST_BYTES;
	size -= LANE_REQUEST_BYTES;
	if (size >= LANE_ANSWER_BYTES && !lane_answer_decode(data, request.kind, request.len, &answer) &&
	    answer.len > request.len)
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
	tell(data, size);
	open_lane(data, size);
	ask_and_answer(data, size);
	fill_inbox(data, size);
	return 0;
}
