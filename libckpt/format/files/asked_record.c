#include "format/files/asked_record.h"

#include "format/document/json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool asked_record_is_drained(const struct asked_record *a, const char *node)
{
	for (uint32_t i = 0; i < a->ndrained; i++)
		if (!strcmp(a->drained[i], node))
			return true;
	return false;
}

int asked_record_drain(struct asked_record *a, const char *node)
{
	if (asked_record_is_drained(a, node))
		return 0;
	if (a->ndrained == ASKED_DRAINED_MAX)
		return -ENOSPC;
	void *grown = reallocarray(a->drained, a->ndrained + 1, sizeof(*a->drained));
	if (!grown)
		return -ENOMEM;
	a->drained = grown;
	snprintf(a->drained[a->ndrained++], sizeof(*a->drained), "%s", node);
	return 0;
}

int asked_record_copy(const struct asked_record *a, struct asked_record *copy)
{
	void *drained = a->ndrained ? reallocarray(NULL, a->ndrained, sizeof(*a->drained)) : NULL;
	*copy = (struct asked_record){0};
	if (a->ndrained && !drained)
		return -ENOMEM;
	*copy = *a;
	copy->drained = drained;
	if (drained)
		memcpy(drained, a->drained, a->ndrained * sizeof(*a->drained));
	return 0;
}

void asked_record_free(struct asked_record *a)
{
	free(a->drained);
	*a = (struct asked_record){0};
}

static const char *const halts[ASKED_HALT_END] = {
	[ASKED_HALT_NOW] = "now", [ASKED_HALT_AFTER_NEXT] = "after-next", [ASKED_HALT_BEFORE] = "before"};

static void put_halt(struct wbuf *out, const struct asked_record *a)
{
	jout_raw(out, ",\"halt\":{\"number\":");
	jout_u64(out, a->halt_number);
	if (a->halt) {
		jout_raw(out, ",\"when\":");
		jout_string(out, halts[a->halt]);
	}
	if (a->halt == ASKED_HALT_BEFORE) {
		jout_raw(out, ",\"before\":");
		jout_u64(out, a->halt_before);
	}
	jout_raw(out, "}");
}

void asked_record_put(struct wbuf *out, const struct asked_record *a)
{
	if (a->halt_number)
		put_halt(out, a);
	for (uint32_t i = 0; i < a->ndrained; i++) {
		jout_raw(out, i ? "," : ",\"drained\":[");
		jout_string(out, a->drained[i]);
	}
	if (a->ndrained)
		jout_raw(out, "]");
}

static enum asked_halt read_when(struct jin *in)
{
	char text[16] = "";
	jin_string(in, text, sizeof(text));
	for (int i = ASKED_HALT_NOW; !in->rc && i < ASKED_HALT_END; i++)
		if (!strcmp(text, halts[i]))
			return (enum asked_halt)i;
	if (!in->rc)
		jin_fail(in, "\"%s\" is no time for a halt", text);
	return ASKED_NO_HALT;
}

void asked_record_read_halt(struct jin *in, struct asked_record *a)
{
	enum { NUMBER, WHEN, BEFORE };
	static const char *const keys[] = {"number", "when", "before", NULL};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == NUMBER)
			a->halt_number = (uint32_t)jin_u64(in, UINT32_MAX);
		else if (k == WHEN)
			a->halt = read_when(in);
		else
			a->halt_before = jin_u64(in, UINT64_MAX);
	jin_require(in, keys, seen, 1u << NUMBER | (a->halt == ASKED_HALT_BEFORE ? 1u << BEFORE : 0));
	if (!in->rc && !a->halt_number)
		jin_fail(in, "is a halt without a number");
}

void asked_record_read_drained(struct jin *in, struct asked_record *a)
{
	char node[NAME_NODE_MAX] = "";
	jin_array(in);
	while (jin_element(in)) {
		jin_string(in, node, sizeof(node));
		if (!in->rc)
			jin_check(in, name_check("node", node, sizeof(node), in->err));
		if (!in->rc && asked_record_is_drained(a, node))
			jin_fail(in, "names node %s twice", node);
		int rc = in->rc ? 0 : asked_record_drain(a, node);
		if (rc == -ENOSPC)
			jin_fail(in, "names more than %d nodes", ASKED_DRAINED_MAX);
		else if (rc)
			jin_check(in, err_set(in->err, rc, "no memory"));
		if (in->rc)
			return;
	}
}
