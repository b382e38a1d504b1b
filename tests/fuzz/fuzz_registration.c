/* libFuzzer entry point: u32 length and bytes of a registration, then the encoding of its layout, as in an arena's head.
 * What is accepted has one encoding, and can be laid out; what is read to compare replicas lies within the leaves of a slot. */
#include "format/arena/witness.h"

#include <stdlib.h>
#include <string.h>

static void same_or_abort(const struct wbuf *again, const uint8_t *data, size_t size)
{
	if (!again->failed && (again->len != size || memcmp(again->data, data, size)))
		abort();
}

static void find_witnesses(const struct registration *reg, const struct layout *layout)
{
	struct witnesses w;
	uint64_t leaves = layout->nleaves + layout->nwitnesses;
	if (witnesses_make(reg, layout, &w))
		return;
	for (uint32_t i = 0; i < w.npieces; i++)
		if (w.pieces[i].first_leaf > leaves || w.pieces[i].nleaves > leaves - w.pieces[i].first_leaf)
			abort();
	witnesses_free(&w);
}

static void decode_layout(const struct registration *reg, const uint8_t *data, size_t size)
{
	struct layout layout;
	struct err err;
	struct rbuf in = rbuf_of(data, size);
	if (layout_decode(&in, reg, &layout, &err))
		return;
	struct wbuf again = {0};
	if (layout_encode(&layout, &again) == 0)
		same_or_abort(&again, data, in.pos);
	find_witnesses(reg, &layout);
	wbuf_free(&again);
	layout_free(&layout);
}

static void lay_out(const struct registration *reg)
{
	struct layout layout;
	struct err err;
	if (layout_make(&reg, 1, false, LAYOUT_FILE_MAX, &layout, &err))
		return;
	struct wbuf out = {0};
	if (layout_encode(&layout, &out) == 0) {
		struct layout back;
		struct rbuf in = rbuf_of(out.data, out.len);
		if (layout_decode(&in, reg, &back, &err) == -EBADMSG)
			abort();
		layout_free(&back);
	}
	find_witnesses(reg, &layout);
	wbuf_free(&out);
	layout_free(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbuf in = rbuf_of(data, size);
	size_t len = rbuf_u32(&in);
	len = len < rbuf_left(&in) ? len : rbuf_left(&in);
	const uint8_t *table = data + in.pos;
	struct registration reg;
	struct err err;
	if (in.failed || registration_decode(table, len, &reg, &err))
		return 0;
	struct wbuf again = {0};
	if (registration_encode(&reg, &again) == 0)
		same_or_abort(&again, table, len);
	wbuf_free(&again);
	lay_out(&reg);
	decode_layout(&reg, table + len, rbuf_left(&in) - len);
	registration_free(&reg);
	return 0;
}
