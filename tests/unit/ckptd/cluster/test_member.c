#include "cluster/member.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct err err;

static struct member some(void)
{
	return (struct member){.number = 7,
			       .since_ms = 1764053000123,
			       .node = {.name = "gpu7",
					.host = "10.0.0.7",
					.port = 7470,
					.rack = "r1",
					.switch_name = "s2",
					.incarnation = 0x9f3a5c0d11223344}};
}

static int decode(const char *text, struct member *out)
{
	err = (struct err){{0}};
	return member_decode("gpu7", text, strlen(text), out, &err);
}

Test(member, stands_in_two_lines)
{
	struct member m = some(), again;
	char text[MEMBER_TEXT_MAX];
	size_t len = member_encode(&m, text);
	cr_assert_str_eq(text, "1 7 9f3a5c0d11223344 1764053000123\ngpu7 10.0.0.7:7470 rack=r1 switch=s2\n");
	cr_assert_eq(len, strlen(text));
	cr_assert_eq(decode(text, &again), 0, "%s", err.text);
	cr_assert(again.number == m.number && again.since_ms == m.since_ms);
	cr_assert(again.node.incarnation == m.node.incarnation && again.node.port == m.node.port);
	cr_assert_str_eq(again.node.name, m.node.name);
	cr_assert_str_eq(again.node.host, m.node.host);
	cr_assert_str_eq(again.node.rack, m.node.rack);
	cr_assert_str_eq(again.node.switch_name, m.node.switch_name);
}

Test(member, addresses_of_ipv6_stand_in_brackets)
{
	struct member m = some(), again;
	char text[MEMBER_TEXT_MAX];
	snprintf(m.node.host, sizeof(m.node.host), "fd00::7");
	*m.node.rack = *m.node.switch_name = '\0';
	member_encode(&m, text);
	cr_assert(strstr(text, "\ngpu7 [fd00::7]:7470\n"), "%s", text);
	cr_assert_eq(decode(text, &again), 0, "%s", err.text);
	cr_assert_str_eq(again.node.host, "fd00::7");
}

/* Nothing that ckptd would not have written, so that no two readers understand it differently. */
Test(member, what_is_written_otherwise_is_refused)
{
	static const char *const wrong[] = {
		"",
		"1 7 9f3a5c0d11223344 1",
		"2 7 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 7 9F3A5C0D11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 07 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 -7 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 16384 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 4294967303 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\n",
		"1 7 9f3a5c0d11223344 1 \ngpu7 10.0.0.7:7470\n",
		"1 7 9f3a5c0d11223344 1\ngpu8 10.0.0.7:7470\n",
		"1 7 9f3a5c0d11223344 1\ngpu7 gpu7.example:7470\n",
		"1 7 9f3a5c0d11223344 1\ngpu7 10.0.0.7:0\n",
		"1 7 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470\ngpu8 10.0.0.8:7470\n",
		"1 7 9f3a5c0d11223344 1\ngpu7 10.0.0.7:7470 rack=../x\n",
		"1 7 9f3a5c0d11223344 1\n# gpu7\n",
	};
	struct member m;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(decode(wrong[i], &m), -EINVAL, "%s", wrong[i]);
		cr_assert(*err.text);
	}
	char text[MEMBER_TEXT_MAX + 8];
	memset(text, ' ', sizeof(text));
	cr_assert_eq(member_decode("gpu7", text, sizeof(text), &m, &err), -EINVAL);
	cr_assert_eq(member_decode("gpu7", "1 7\0", 4, &m, &err), -EINVAL);
}

Test(member, an_open_roster_keeps_the_place_of_who_is_gone)
{
	struct roster *r = roster_new();
	struct roster_node a = {.name = "a", .host = "10.0.0.1", .port = 1}, gone = {.name = "a"};
	cr_assert(r && r->open && !r->n);
	cr_assert_eq(roster_first(r), NO_NODE);
	roster_put(r, 2, &a);
	cr_assert(r->n == 3 && roster_has(r, 2) && !roster_has(r, 0) && !roster_has(r, 3));
	cr_assert_eq(roster_find(r, "a"), 2);
	cr_assert_eq(roster_first(r), 2);
	cr_assert_eq(roster_room(r), ROSTER_ROOM_MIN);
	roster_put(r, 2, &gone);
	cr_assert(r->n == 3 && !roster_has(r, 2));
	cr_assert_eq(roster_find(r, "a"), -ENOENT);
	roster_put(r, 5, &a);
	cr_assert_eq(roster_find(r, "a"), 5);
	roster_put(r, ROSTER_MEMBERS_MAX, &a);
	cr_assert_eq(r->n, 6);
	roster_put(r, 99, &a);
	cr_assert_eq(roster_room(r), 200);
	roster_put(r, ROSTER_MEMBERS_MAX - 1, &a);
	cr_assert_eq(roster_room(r), ROSTER_MEMBERS_MAX);
	roster_free(r);
}
