#include "base/bytes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

Test(bytes, align_up_goes_to_the_next_multiple)
{
	cr_assert_eq(align_up(0, 4096), 0);
	cr_assert_eq(align_up(1, 4096), 4096);
	cr_assert_eq(align_up(4096, 4096), 4096);
	cr_assert_eq(align_up(4097, 4096), 8192);
	cr_assert_eq(align_up(10, 3), 12);
}

Test(bytes, div_up_does_not_overflow)
{
	cr_assert_eq(div_up(0, 7), 0);
	cr_assert_eq(div_up(7, 7), 1);
	cr_assert_eq(div_up(8, 7), 2);
	cr_assert_eq(div_up(UINT64_MAX, 2), UINT64_MAX / 2 + 1);
}

Test(bytes, fields_come_back_as_they_were_put)
{
	AUTO_WBUF struct wbuf w = {0};
	wbuf_u8(&w, 0xab);
	wbuf_u16(&w, 0x1234);
	wbuf_u32(&w, 0xdeadbeef);
	wbuf_u64(&w, 0x0123456789abcdefull);
	wbuf_str(&w, "layer.0");
	wbuf_put(&w, "xyz", 3);
	cr_assert_eq(wbuf_finish(&w), 0);

	struct rbuf r = rbuf_of(w.data, w.len);
	char s[16], xyz[3];
	cr_assert_eq(rbuf_u8(&r), 0xab);
	cr_assert_eq(rbuf_u16(&r), 0x1234);
	cr_assert_eq(rbuf_u32(&r), 0xdeadbeef);
	cr_assert_eq(rbuf_u64(&r), 0x0123456789abcdefull);
	rbuf_str(&r, s, sizeof(s));
	cr_assert_str_eq(s, "layer.0");
	cr_assert_eq(rbuf_left(&r), 3);
	rbuf_get(&r, xyz, 3);
	cr_assert_arr_eq(xyz, "xyz", 3);
	cr_assert_eq(rbuf_finish(&r), 0);
}

Test(bytes, fields_are_little_endian)
{
	AUTO_WBUF struct wbuf w = {0};
	wbuf_u32(&w, 0x01020304);
	cr_assert_arr_eq(w.data, "\x04\x03\x02\x01", 4);
}

Test(bytes, writer_grows_past_its_first_buffer)
{
	AUTO_WBUF struct wbuf w = {0};
	for (uint32_t i = 0; i < 100000; i++)
		wbuf_u32(&w, i);
	cr_assert_eq(wbuf_finish(&w), 0);
	struct rbuf r = rbuf_of(w.data, w.len);
	for (uint32_t i = 0; i < 100000; i++)
		cr_assert_eq(rbuf_u32(&r), i);
	cr_assert_eq(rbuf_finish(&r), 0);
}

Test(bytes, writer_that_cannot_grow_fails_and_stays_failed)
{
	uint8_t byte = 0;
	AUTO_WBUF struct wbuf w = {0};
	wbuf_u8(&w, 1);
	wbuf_put(&w, &byte, SIZE_MAX - 1);
	cr_assert(w.failed);
	wbuf_u8(&w, 2);
	cr_assert_eq(w.len, 1);
	cr_assert_eq(wbuf_finish(&w), -ENOMEM);
}

Test(bytes, string_too_long_to_write_fails)
{
	AUTO_WBUF struct wbuf w = {0};
	char *s = malloc(UINT16_MAX + 2);
	memset(s, 'a', UINT16_MAX + 1);
	s[UINT16_MAX + 1] = 0;
	wbuf_str(&w, s);
	free(s);
	cr_assert_eq(wbuf_finish(&w), -ENOMEM);
}

Test(bytes, reader_stops_at_its_end)
{
	struct rbuf r = rbuf_of("\x01\x02\x03", 3);
	cr_assert_eq(rbuf_u16(&r), 0x0201);
	cr_assert_eq(rbuf_u32(&r), 0);
	cr_assert(r.failed);
	cr_assert_eq(rbuf_u8(&r), 0, "a failed reader reads nothing more");
	cr_assert_eq(rbuf_left(&r), 0);
	cr_assert_null(rbuf_take(&r, 0));
	cr_assert_eq(rbuf_finish(&r), -EBADMSG);
}

Test(bytes, short_get_fills_with_zeros)
{
	struct rbuf r = rbuf_of("\xff", 1);
	uint8_t dst[4] = {1, 2, 3, 4}, zero[4] = {0};
	rbuf_get(&r, dst, sizeof(dst));
	cr_assert_arr_eq(dst, zero, sizeof(dst));
}

Test(bytes, take_of_a_huge_size_fails)
{
	struct rbuf r = rbuf_of("\x01\x02", 2);
	rbuf_u8(&r);
	cr_assert_null(rbuf_take(&r, SIZE_MAX));
	cr_assert(r.failed);
}

Test(bytes, bytes_left_over_are_malformed)
{
	struct rbuf r = rbuf_of("\x01\x02", 2);
	rbuf_u8(&r);
	cr_assert_eq(rbuf_finish(&r), -EBADMSG);
}

Test(bytes, string_must_fit_with_its_nul)
{
	static const char wire[] = {4, 0, 'a', 'b', 'c', 'd'};
	char exact[5], small[4];
	struct rbuf r = rbuf_of(wire, sizeof(wire));
	rbuf_str(&r, exact, sizeof(exact));
	cr_assert_str_eq(exact, "abcd");
	cr_assert_eq(rbuf_finish(&r), 0);

	r = rbuf_of(wire, sizeof(wire));
	rbuf_str(&r, small, sizeof(small));
	cr_assert_str_eq(small, "");
	cr_assert_eq(rbuf_finish(&r), -EBADMSG);
}

Test(bytes, string_with_a_nul_inside_fails)
{
	static const char wire[] = {3, 0, 'a', 0, 'c'};
	struct rbuf r = rbuf_of(wire, sizeof(wire));
	char s[8];
	rbuf_str(&r, s, sizeof(s));
	cr_assert_str_eq(s, "");
	cr_assert_eq(rbuf_finish(&r), -EBADMSG);
}

Test(bytes, human_sizes)
{
	char s[16];
	cr_assert_str_eq(bytes_human(s, sizeof(s), 0), "0 B");
	cr_assert_str_eq(bytes_human(s, sizeof(s), 1023), "1023 B");
	cr_assert_str_eq(bytes_human(s, sizeof(s), 1536), "1.5 KiB");
	cr_assert_str_eq(bytes_human(s, sizeof(s), 4ull << 30), "4.0 GiB");
	cr_assert_str_eq(bytes_human(s, sizeof(s), UINT64_MAX), "16.0 EiB");
}

Test(bytes, a_count_is_what_it_would_take)
{
	struct wbuf w = wbuf_counting();
	wbuf_u32(&w, 7);
	wbuf_str(&w, "layer.0");
	cr_assert_eq(wbuf_finish(&w), 0);
	cr_assert_eq(w.len, 4u + 2u + 7u);
	cr_assert_null(w.data);
}

Test(bytes, borrowed_memory_is_filled_and_never_left)
{
	uint8_t memory[8] = {0};
	AUTO_WBUF struct wbuf w = wbuf_over(memory, sizeof(memory) - 2);
	wbuf_u32(&w, 0x04030201);
	wbuf_u16(&w, 0x0605);
	cr_assert_eq(wbuf_finish(&w), 0);
	cr_assert_eq(memcmp(memory, (uint8_t[]){1, 2, 3, 4, 5, 6, 0, 0}, sizeof(memory)), 0);
	wbuf_u8(&w, 7);
	cr_assert_eq(wbuf_finish(&w), -ENOMEM);
	cr_assert_eq(memory[6], 0);
	cr_assert_eq(w.data, memory);
}
