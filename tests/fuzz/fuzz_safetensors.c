/* libFuzzer entry point: the parser of safetensors headers. The file that the header claims to be of is as long as the input, and
 * then as long as makes the last entry end where the file does. */
#include "format/files/safetensors.h"

#include <stdlib.h>

static void parse(const uint8_t *data, size_t size, uint64_t file_size)
{
	struct safetensors st;
	struct err err;
	if (safetensors_parse(data, size, file_size, &st, &err) == 0) {
		uint64_t at = 0;
		for (uint32_t i = 0; i < st.nentries; at = st.entries[i++].end)
			if (st.entries[i].begin != at || st.entries[i].end < at)
				abort();
		if (st.data_at + at != file_size || st.data_at > size)
			abort();
	}
	safetensors_free(&st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	parse(data, size, size);
	if (size >= 2) /* the input's last two bytes are the data's length */
		parse(data, size - 2, size - 2 + (data[size - 2] | (uint64_t)data[size - 1] << 8));
	return 0;
}
