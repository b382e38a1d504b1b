#include "control/lemon/lemon.h"

#include "format/document/json_in.h"
#include "format/document/json_out.h"

#include <stdio.h>
#include <string.h>

enum { TIMES = 2 }; /* as many as the others */

/* ---- the rule -------------------------------------------------------------------------------------------------- */

void lemon_add(struct lemon *l, uint64_t at_ns, const char *job, const char *why)
{
	if (l->n == LEMON_FAILURES)
		memmove(l->failures, l->failures + 1, --l->n * sizeof(l->failures[0]));
	struct lemon_failure *f = &l->failures[l->n++];
	f->at_ns = at_ns;
	snprintf(f->job, sizeof(f->job), "%s", job);
	snprintf(f->why, sizeof(f->why), "%s", why);
}

uint32_t lemon_count(const struct lemon *l, uint64_t now_ns, uint64_t window_ns)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->n; i++)
		n += l->failures[i].at_ns > now_ns || now_ns - l->failures[i].at_ns <= window_ns;
	return n;
}

bool lemon_is(uint32_t count, uint32_t limit, uint64_t sum, uint32_t others)
{
	return limit && count >= limit && (uint64_t)count * others > TIMES * sum;
}

static void put_time(char *dst, size_t size, uint64_t ns)
{
	uint64_t minutes = ns / 60000000000ull;
	if (minutes >= 60 && minutes % 60 == 0)
		snprintf(dst, size, "%lu h", (unsigned long)(minutes / 60));
	else if (minutes)
		snprintf(dst, size, "%lu min", (unsigned long)minutes);
	else
		snprintf(dst, size, "%lu s", (unsigned long)(ns / 1000000000));
}

void lemon_set_aside(struct lemon *l, uint64_t now_ns, uint32_t count, uint64_t window_ns)
{
	const struct lemon_failure *last = &l->failures[l->n - 1];
	char window[32];
	put_time(window, sizeof(window), window_ns);
	l->since_ns = now_ns;
	snprintf(l->reason, sizeof(l->reason), "it has failed %u times within %s, last in job %s: %s", count, window,
		 last->job, last->why);
}

static bool knows(const struct lemon *l, const struct lemon_failure *f)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->failures[i].at_ns == f->at_ns && !strcmp(l->failures[i].job, f->job))
			return true;
	return false;
}

/* The next of one that the merged does not have yet; the older of two heads comes first. */
void lemon_merge(struct lemon *into, const struct lemon *from)
{
	struct lemon merged = *into;
	merged.n = 0;
	for (uint32_t a = 0, b = 0; a < into->n || b < from->n;) {
		bool first = b == from->n || (a < into->n && into->failures[a].at_ns <= from->failures[b].at_ns);
		const struct lemon_failure *f = first ? &into->failures[a++] : &from->failures[b++];
		if (!knows(&merged, f))
			lemon_add(&merged, f->at_ns, f->job, f->why);
	}
	if (!merged.since_ns) {
		merged.since_ns = from->since_ns;
		memcpy(merged.reason, from->reason, sizeof(merged.reason));
	}
	*into = merged;
}

/* ---- its record ------------------------------------------------------------------------------------------------ */

static void put_failure(const struct lemon_failure *f, struct wbuf *out)
{
	jout_raw(out, "{\"at_ns\":");
	jout_u64(out, f->at_ns);
	jout_raw(out, ",\"job\":");
	jout_text(out, f->job);
	jout_raw(out, ",\"why\":");
	jout_text(out, f->why);
	jout_raw(out, "}");
}

void lemon_put(const struct lemon *l, struct wbuf *out)
{
	jout_raw(out, "{\"name\":");
	jout_text(out, l->name);
	jout_raw(out, ",\"since_ns\":");
	jout_u64(out, l->since_ns);
	jout_raw(out, ",\"reason\":");
	jout_text(out, l->reason);
	jout_raw(out, ",\"failures\":[");
	for (uint32_t i = 0; i < l->n; i++) {
		if (i)
			jout_raw(out, ",");
		put_failure(&l->failures[i], out);
	}
	jout_raw(out, "]}");
}

static void read_failure(struct jin *in, struct lemon *l)
{
	static const char *const keys[] = {"at_ns", "job", "why", NULL};
	struct lemon_failure f = {0};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;) {
		if (k == 0)
			f.at_ns = jin_u64(in, UINT64_MAX);
		else if (k == 1)
			jin_string(in, f.job, sizeof(f.job));
		else
			jin_string(in, f.why, sizeof(f.why));
	}
	jin_require(in, keys, seen, 7);
	lemon_add(l, f.at_ns, f.job, f.why); /* of more the last ones stay */
}

int lemon_read(struct jin *in, struct lemon *l)
{
	static const char *const keys[] = {"name", "since_ns", "reason", "failures", NULL};
	uint32_t seen = 0;
	struct err err = {{0}};
	*l = (struct lemon){.n = 0};
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;) {
		if (k == 0)
			jin_string(in, l->name, sizeof(l->name));
		else if (k == 1)
			l->since_ns = jin_u64(in, UINT64_MAX);
		else if (k == 2)
			jin_string(in, l->reason, sizeof(l->reason));
		else
			for (jin_array(in); jin_element(in);)
				read_failure(in, l);
	}
	jin_require(in, keys, seen, 15);
	if (!in->rc && name_check("node", l->name, sizeof(l->name), &err))
		jin_fail(in, "%s", err.text);
	return in->rc;
}
