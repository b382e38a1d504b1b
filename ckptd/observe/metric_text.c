#include "observe/metric_text.h"

#include "base/clock.h"
#include "format/document/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct labels labels_and(struct labels l, const char *name, const char *value)
{
	unsigned at = l.name[0] ? 1 : 0;
	l.name[at] = name;
	l.value[at] = value;
	return l;
}

static void put_value(struct wbuf *out, const char *text)
{
	wbuf_u8(out, '"');
	for (; *text; text++) {
		if (*text == '\n') {
			jout_raw(out, "\\n");
			continue;
		}
		if (*text == '"' || *text == '\\')
			wbuf_u8(out, '\\');
		wbuf_u8(out, (uint8_t)*text);
	}
	wbuf_u8(out, '"');
}

static void put_labels(struct wbuf *out, struct labels l, const char *le)
{
	const char *before = "{";
	for (unsigned i = 0; i < 2 && l.name[i]; i++, before = ",") {
		jout_raw(out, before);
		jout_raw(out, l.name[i]);
		jout_raw(out, "=");
		put_value(out, l.value[i]);
	}
	char text[32];
	if (l.rank >= 0) {
		snprintf(text, sizeof(text), "%srank=\"%d\"", before, l.rank);
		jout_raw(out, text);
		before = ",";
	}
	if (le) {
		snprintf(text, sizeof(text), "%sle=\"%s\"", before, le);
		jout_raw(out, text);
		before = ",";
	}
	if (*before == ',')
		jout_raw(out, "}");
}

void metric_family(struct wbuf *out, const char *name, const char *type, const char *help)
{
	jout_raw(out, "# HELP ");
	jout_raw(out, name);
	jout_raw(out, " ");
	jout_raw(out, help);
	jout_raw(out, "\n# TYPE ");
	jout_raw(out, name);
	jout_raw(out, " ");
	jout_raw(out, type);
	jout_raw(out, "\n");
}

/* What stands before a value. */
static void put_name(struct wbuf *out, const char *name, const char *part, struct labels l, const char *le)
{
	jout_raw(out, name);
	jout_raw(out, part);
	put_labels(out, l, le);
	jout_raw(out, " ");
}

static void put_part(struct wbuf *out, const char *name, const char *part, struct labels l, const char *le,
		     uint64_t value)
{
	put_name(out, name, part, l, le);
	jout_u64(out, value);
	jout_raw(out, "\n");
}

void metric_sample(struct wbuf *out, const char *name, struct labels l, uint64_t value)
{
	put_part(out, name, "", l, NULL, value);
}

static void put_seconds(struct wbuf *out, const char *name, const char *part, struct labels l, uint64_t ns)
{
	char text[40];
	snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64 "\n", (uint64_t)(ns / CLOCK_NS_PER_S),
		 (uint64_t)(ns % CLOCK_NS_PER_S));
	put_name(out, name, part, l, NULL);
	jout_raw(out, text);
}

void metric_seconds(struct wbuf *out, const char *name, struct labels l, uint64_t ns)
{
	put_seconds(out, name, "", l, ns);
}

void metric_histogram(struct wbuf *out, const char *name, struct labels l, const struct histogram *h)
{
	uint64_t below = 0;
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		char le[32];
		snprintf(le, sizeof(le), "%g", (double)histogram_bound_ns(i) / 1e9);
		below += h->buckets[i];
		put_part(out, name, "_bucket", l, le, below);
	}
	put_part(out, name, "_bucket", l, "+Inf", h->count);
	put_seconds(out, name, "_sum", l, h->sum_ns);
	put_part(out, name, "_count", l, NULL, h->count);
}

void metric_real(struct wbuf *out, const char *name, struct labels l, double value)
{
	char text[40];
	if (isfinite(value))
		snprintf(text, sizeof(text), "%.9g\n", value);
	else
		snprintf(text, sizeof(text), "%s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
	put_name(out, name, "", l, NULL);
	jout_raw(out, text);
}
