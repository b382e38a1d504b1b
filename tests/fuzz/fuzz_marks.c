/* libFuzzer entry point: the decoders of the marks. What is accepted is written so that it is accepted again, and then written the
 * same. */
#include "sealed.h"

#include "format/files/marks.h"

#define ROUND_TRIP(mark)                                                                                               \
	static void round_trip_##mark(const uint8_t *data, size_t size)                                                \
	{                                                                                                              \
		struct mark m, again;                                                                                  \
		struct wbuf text = {0}, copy = {0};                                                                    \
		struct err err;                                                                                        \
		if (mark##_decode(data, size, &m, &err) || mark##_encode(&m, &text))                                   \
			return wbuf_free(&text);                                                                       \
		if (mark##_decode(text.data, text.len, &again, &err))                                                  \
			abort();                                                                                       \
		mark##_encode(&again, &copy);                                                                          \
		same_text_or_abort(&text, &copy);                                                                      \
	}
ROUND_TRIP(health)
ROUND_TRIP(health_mark)
ROUND_TRIP(pin)
ROUND_TRIP(tag)
ROUND_TRIP(begun)

static void decode_marks(const uint8_t *data, size_t size)
{
	round_trip_health(data, size);
	round_trip_health_mark(data, size);
	round_trip_pin(data, size);
	round_trip_tag(data, size);
	round_trip_begun(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sealed_and_bare(decode_marks, data, size);
	return 0;
}
