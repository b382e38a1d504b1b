#include "cluster/link/inbox.h"

#include "cluster/net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct inbox in;

static void teardown(void)
{
	inbox_clear(&in);
}

TestSuite(inbox, .fini = teardown);

static int take(uint16_t type, size_t len, const char *bytes)
{
	uint8_t part[64];
	inbox_write_head(part, type, len);
	memcpy(part + INBOX_HEAD, bytes, strlen(bytes));
	return inbox_take(&in, part, INBOX_HEAD + strlen(bytes));
}

Test(inbox, a_message_is_put_together_from_its_parts)
{
	cr_assert_eq(take(7, 10, "hello"), 0);
	cr_assert_eq(inbox_take(&in, (const uint8_t *)" wor", 4), 0);
	cr_assert_eq(inbox_take(&in, (const uint8_t *)"d", 1), 1);
	cr_assert_eq(in.type, 7);
	cr_assert_eq(in.frames, 3u);
	cr_assert_arr_eq(in.body, "hello word", 10);
	inbox_clear(&in);
	cr_assert_eq(take(8, 0, ""), 1, "one without a body");
	cr_assert_eq(in.len, 0u);
}

Test(inbox, what_is_longer_than_it_may_be_is_refused)
{
	cr_assert_eq(take(1, NET_MESSAGE_MAX + 1, "x"), -EBADMSG);
	cr_assert_eq(take(1, 3, "four"), -EBADMSG);
	inbox_clear(&in);
	cr_assert_eq(take(1, 3, "on"), 0);
	cr_assert_eq(inbox_take(&in, (const uint8_t *)"ee", 2), -EBADMSG);
	cr_assert_eq(inbox_take(&in, NULL, 0), -EBADMSG, "a part without bytes");
	inbox_clear(&in);
	cr_assert_eq(inbox_take(&in, (const uint8_t *)"12345", 5), -EBADMSG, "a head that is cut");
}
