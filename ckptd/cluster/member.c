#include "cluster/member.h"

#include "base/quoted.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD "1 %" PRIu32 " %016" PRIx64 " %" PRIu64 "\n"

size_t member_encode(const struct member *m, char text[MEMBER_TEXT_MAX])
{
	char address[ROSTER_TEXT_MAX];
	roster_print(&m->node, address, sizeof(address));
	return (size_t)snprintf(text, MEMBER_TEXT_MAX, HEAD "%s %s\n", m->number, m->node.incarnation, m->since_ms,
				m->node.name, address);
}

static bool is_literal(const char *host)
{
	struct in6_addr address;
	return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static int take_node(const char *name, const char *line, struct member *out, struct err *err)
{
	struct roster *roster;
	int rc = roster_parse("the record", line, strlen(line), &roster, err);
	if (rc)
		return rc;
	uint64_t incarnation = out->node.incarnation;
	out->node = roster->nodes[0];
	out->node.line = 0;
	out->node.incarnation = incarnation;
	bool one = roster->n == 1;
	roster_free(roster);
	if (!one || strcmp(out->node.name, name) != 0)
		return err_set(err, -EINVAL, "the record is not of node %s alone", name);
	if (!is_literal(out->node.host))
		return err_set(err, -EINVAL, "its host %s is no address", quoted(out->node.host).text);
	return 0;
}

/* What is read must be what would be written: no second spelling of anything. */
int member_decode(const char *name, const void *text, size_t len, struct member *out, struct err *err)
{
	char copy[MEMBER_TEXT_MAX], again[MEMBER_TEXT_MAX];
	*out = (struct member){0};
	if (len >= sizeof(copy) || memchr(text, 0, len))
		return err_set(err, -EINVAL, "the record has %zu bytes, or a NUL", len);
	memcpy(copy, text, len);
	copy[len] = 0;
	const char *line = strchr(copy, '\n');
	if (!line || sscanf(copy, "1 %" SCNu32 " %" SCNx64 " %" SCNu64, &out->number, &out->node.incarnation,
			    &out->since_ms) != 3)
		return err_set(err, -EINVAL, "the record does not begin with 1 NUMBER INCARNATION SINCE");
	int rc = take_node(name, line + 1, out, err);
	if (!rc && (member_encode(out, again) != len || memcmp(again, copy, len) != 0))
		rc = err_set(err, -EINVAL, "the record is not written as ckptd writes it");
	if (!rc && out->number >= ROSTER_MEMBERS_MAX)
		rc = err_set(err, -EINVAL, "its number is %u: at most %d", out->number, ROSTER_MEMBERS_MAX - 1);
	return rc;
}
