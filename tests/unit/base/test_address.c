#include "base/address.h"

#include <criterion/criterion.h>
#include <errno.h>

Test(address, what_is_parsed_is_printed_alike)
{
	static const char *const good[] = {"127.0.0.1:9470", "0.0.0.0:0", "[::1]:65535", "[::]:1"};
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		union address a;
		char text[ADDRESS_MAX];
		cr_assert_eq(address_parse(good[i], &a), 0, "%s", good[i]);
		cr_assert_str_eq(address_print(&a, text, sizeof(text)), good[i]);
		cr_assert_eq(address_is_loopback(&a), i == 0 || i == 2);
	}
}

Test(address, names_and_what_has_no_port_are_refused)
{
	static const char *const bad[] = {
		"",      "9470",         "localhost:1",  "127.0.0.1",    "127.0.0.1:", "127.0.0.1:65536", "::1:1",
		"[::1]", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1:1x", "[::1:1",     "[127.0.0.1]:1"};
	union address a;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(address_parse(bad[i], &a), -EINVAL, "%s", bad[i]);
}
