#include "plan/plan_spans.h"

#include "base/cleanup.h"
#include "base/doubles.h"
#include "frame/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 1 << 16, SAMPLES_MAX = 1 << 20 };

struct samples {
	double *values;
	size_t n, room;
};

struct reading {
	struct samples capture, replicate, write, detect, restart, bytes;
	double first, last;
	struct plan_spans *out;
};

static void add(struct samples *s, double value)
{
	if (s->n == SAMPLES_MAX || !isfinite(value))
		return;
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		double *more = realloc(s->values, room * sizeof(*more));
		if (!more)
			return; /* the median of what fits is as good */
		s->values = more;
		s->room = room;
	}
	s->values[s->n++] = value;
}

/* And frees them. */
static double median(struct samples *s)
{
	double m = NAN;
	if (s->n) {
		doubles_sort(s->values, s->n);
		m = s->values[s->n / 2];
	}
	free(s->values);
	*s = (struct samples){0};
	return m;
}

/* In seconds; NAN: null, or not there. */
static double ns(const json_t *line, const char *key)
{
	const json_t *value = json_object_get(line, key);
	return json_is_integer(value) ? (double)json_integer_value(value) / 1e9 : NAN;
}

static void seen(struct reading *r, double at)
{
	if (!isfinite(at))
		return;
	r->first = fmin(r->first, at);
	r->last = fmax(r->last, at);
}

static void take_save(struct reading *r, const json_t *line)
{
	r->out->saves++;
	seen(r, ns(line, "begun_ns"));
	add(&r->capture, ns(line, "captured_ns"));
	add(&r->replicate, ns(line, "replicated_ns") - ns(line, "captured_ns"));
	add(&r->write, ns(line, "write_ns"));
	add(&r->bytes, ns(line, "captured_bytes") * 1e9);
}

/* Restart: all but what is seen, and what the state's way takes. */
static void take_recovery(struct reading *r, const json_t *line)
{
	const char *reason = json_string_value(json_object_get(line, "reason"));
	double total = ns(line, "total_ns"), detect = ns(line, "detect_ns"), fetch = ns(line, "restore_ns");
	seen(r, ns(line, "ended_ns"));
	if (!reason || !strcmp(reason, "start"))
		return;
	r->out->recoveries++;
	add(&r->detect, detect);
	add(&r->restart, total - (isnan(detect) ? 0 : detect) - (isnan(fetch) ? 0 : fetch));
}

static int read_file(struct reading *r, const char *path, struct err *err)
{
	AUTO_FREE char *line = malloc(LINE_BYTES_MAX);
	FILE *f = fopen(path, "re");
	if (!f || !line) {
		int rc = f ? -ENOMEM : -errno;
		if (f)
			fclose(f);
		return err_set(err, rc, "--from-span-log %s: %s", path, err_name(rc));
	}
	while (fgets(line, LINE_BYTES_MAX, f) && strchr(line, '\n')) {
		json_t *doc = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		const char *span = json_string_value(json_object_get(doc, "span"));
		if (span && !strcmp(span, "save"))
			take_save(r, doc);
		else if (span && !strcmp(span, "recovery"))
			take_recovery(r, doc);
		json_decref(doc);
	}
	fclose(f);
	return 0;
}

int plan_spans_read(const char *const *paths, unsigned n, struct plan_spans *out, struct err *err)
{
	struct reading r = {.first = INFINITY, .last = -INFINITY, .out = out};
	int rc = 0;
	*out = (struct plan_spans){0};
	for (unsigned i = 0; !rc && i < n; i++)
		rc = read_file(&r, paths[i], err);
	out->capture = median(&r.capture);
	out->replicate = median(&r.replicate);
	out->write = median(&r.write);
	out->detect = median(&r.detect);
	out->restart = median(&r.restart);
	out->bytes = median(&r.bytes);
	out->seconds = fmax(r.last - r.first, 0);
	out->mtbf = out->recoveries ? out->seconds / (double)out->recoveries : INFINITY;
	if (!rc && !out->saves)
		rc = err_set(err, -ENODATA, "--from-span-log: no save stands in what was given");
	return rc;
}
