#include "report/report_chart.h"

#include "frame/markup.h"
#include "frame/output.h"

#include <math.h>

enum { WIDTH = 1000, HEIGHT = 10 };

void chart_legend(FILE *f, const char *const (*keys)[2], size_t n)
{
	markup(f, "<ul class=\"legend\">");
	for (size_t i = 0; i < n; i++) {
		markup(f,
		       "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><path class=\"%s\" d=\"M0 "
		       "0h1v1h-1z\"/></svg>",
		       keys[i][0]);
		markup_text(f, "%s", keys[i][1]);
		markup(f, "</li>");
	}
	markup(f, "</ul>\n");
}

static void strip_begin(FILE *f)
{
	markup(f, "<svg class=\"strip\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"",
	       WIDTH, HEIGHT);
}

static const char *duration(char text[32], double ms)
{
	return text_duration(text, 32, ms > 0 ? (uint64_t)(fmin(ms, 1e12) * 1e6) : 0);
}

/* ---- what has shares ----------------------------------------------------------------------------------------------- */

struct part {
	const char *class, *name;
	double ms;
};

/* Side by side, as parts of `whole`; what is not known is left out. */
static void strip_parts(FILE *f, const struct part *parts, size_t n, double whole)
{
	char text[32];
	double x = 0;
	strip_begin(f);
	for (size_t i = 0; i < n; i++)
		if (parts[i].ms > 0)
			markup_text(f, "%s%s %s", x++ > 0 ? ", " : "", parts[i].name, duration(text, parts[i].ms));
	markup(f, x > 0 ? "\">" : "its parts were not measured\">");
	x = 0;
	for (size_t i = 0; i < n; i++) {
		double width = parts[i].ms > 0 && whole > 0 ? parts[i].ms / whole * WIDTH : 0;
		if (!(width > 0))
			continue;
		markup(f, "<path class=\"%s\" d=\"M%.2f 0h%.2fv%dh-%.2fz\"><title>", parts[i].class, x, width, HEIGHT,
		       width);
		markup_text(f, "%s %s", parts[i].name, duration(text, parts[i].ms));
		markup(f, "</title></path>");
		x += width;
	}
	markup(f, "</svg>");
}

void chart_goodput(FILE *f, const struct report_goodput *g)
{
	const struct part parts[] = {{"computing", "steps that stood", g->computing * 1000},
				     {"repeated", "steps done again", g->repeated * 1000},
				     {"saving", "saving", g->saving * 1000},
				     {"recovering", "recovering", g->recovering * 1000},
				     {"starting", "starting", g->starting * 1000}};
	static const char *const keys[][2] = {{"computing", "steps that stood"},
					      {"repeated", "steps done again"},
					      {"saving", "saving"},
					      {"recovering", "recovering"},
					      {"starting", "starting"}};
	strip_parts(f, parts, 5, g->elapsed * 1000);
	chart_legend(f, keys, 5);
}

static const char *const part_keys[REPORT_PARTS][2] = {
	[PART_DETECT] = {"p0", "detect"},         [PART_DECIDE] = {"p1", "decide"}, [PART_GATHER] = {"p2", "gather"},
	[PART_CHOOSE] = {"p3", "choose"},         [PART_FETCH] = {"p4", "fetch"},   [PART_LOAD] = {"p5", "load"},
	[PART_FIRST_STEP] = {"p6", "first step"},
};

void chart_recovery(FILE *f, const struct report_recovery *one)
{
	struct part parts[REPORT_PARTS];
	double sum = 0;
	for (int p = 0; p < REPORT_PARTS; p++) {
		parts[p] = (struct part){part_keys[p][0], part_keys[p][1], one->parts[p]};
		sum += one->parts[p] > 0 ? one->parts[p] : 0;
	}
	strip_parts(f, parts, REPORT_PARTS, fmax(sum, report_total_ms(one)));
}

void chart_parts(FILE *f)
{
	chart_legend(f, part_keys, REPORT_PARTS);
}

/* ---- distributions ------------------------------------------------------------------------------------------------- */

void chart_spread(FILE *f, const struct report_spread *s)
{
	size_t most = 1;
	for (int i = 0; i < SPREAD_BINS; i++)
		most = s->bins[i] > most ? s->bins[i] : most;
	markup(f, "<svg viewBox=\"0 0 %d 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"",
	       10 * SPREAD_BINS);
	markup_text(f, "of %d bins of equal width from the least, there are", SPREAD_BINS);
	for (int i = 0; i < SPREAD_BINS; i++)
		markup_text(f, " %zu", s->bins[i]);
	markup(f, "\">");
	for (int i = 0; i < SPREAD_BINS; i++) {
		/* one alone is seen, too */
		double height = s->bins[i] ? fmax(2, 100.0 * (double)s->bins[i] / (double)most) : 0;
		if (height > 0)
			markup(f, "<path d=\"M%d 100v-%.1fh9v%.1fz\"><title>%zu</title></path>", 10 * i, height, height,
			       s->bins[i]);
	}
	markup(f, "</svg>");
}
