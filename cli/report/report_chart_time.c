/* The timeline: a picture has fewer columns than the campaign has moments, and in each the worst counts. */
#include "report/report_chart.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "frame/markup.h"
#include "frame/output.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 1000, TENTHS = 10, MARKS = 5 };

struct timeline {
	uint64_t begin, end;
	unsigned char state[REPORT_RANKS_MAX][COLUMNS]; /* enum report_state */
	float saving[REPORT_RANKS_MAX][COLUMNS];        /* ms */
};

static size_t column(const struct timeline *t, uint64_t at)
{
	double share = at <= t->begin ? 0 : (double)(at - t->begin) / (double)(t->end - t->begin);
	return share < 1 ? (size_t)(share * COLUMNS) : COLUMNS - 1;
}

static void paint(struct timeline *t, uint32_t rank, enum report_state state, uint64_t from, uint64_t to)
{
	for (size_t x = column(t, from), last = column(t, to); x <= last; x++)
		if (t->state[rank][x] < state)
			t->state[rank][x] = (unsigned char)state;
}

static void paint_all(struct timeline *t, const struct report *r)
{
	for (size_t i = 0; i < r->segments.n; i++)
		for (uint32_t rank = 0; rank < r->ranks; rank++)
			paint(t, rank, STATE_COMPUTING, r->segments.at[i].started,
			      report_stopped(r, &r->segments.at[i]));
	for (size_t i = 0; i < r->intervals.n; i++)
		paint(t, r->intervals.at[i].rank, r->intervals.at[i].state, r->intervals.at[i].from,
		      r->intervals.at[i].to);
	for (size_t i = 0; i < r->stalls.n; i++)
		if (r->stalls.at[i].rank < r->ranks)
			t->saving[r->stalls.at[i].rank][column(t, r->stalls.at[i].from)] += r->stalls.at[i].ms;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static void row_begin(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row_begin(FILE *f, const char *fmt, ...)
{
	char name[64];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	markup(f, "<div class=\"row\"><span>");
	markup_text(f, "%s", name);
	markup(f,
	       "</span><svg class=\"strip\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
	       "aria-label=\"",
	       COLUMNS, TENTHS);
	markup_text(f, "%s: ", name);
}

static void row_end(FILE *f)
{
	markup(f, "</svg></div>\n");
}

static void draw_state(FILE *f, const unsigned char *states, enum report_state state)
{
	markup(f, "<path class=\"%s\" d=\"", report_state_name(state));
	for (size_t x = 0, to; x < COLUMNS; x = to) {
		for (to = x + 1; to < COLUMNS && states[to] == states[x]; to++)
			;
		if (states[x] == state)
			markup(f, "M%zu 0h%zuv%dh-%zuz", x, to - x, TENTHS, to - x);
	}
	markup(f, "\"/>");
}

/* As high as the save's share of that column's time, in tenths. */
static void draw_saving(FILE *f, const struct timeline *t, uint32_t rank)
{
	double column_ms = (double)(t->end - t->begin) / 1e6 / COLUMNS;
	markup(f, "<path class=\"saving\" d=\"");
	for (size_t x = 0; x < COLUMNS; x++) {
		double tenths = fmin(ceil(TENTHS * (double)t->saving[rank][x] / column_ms), TENTHS);
		if (tenths > 0 && t->state[rank][x] == STATE_COMPUTING)
			markup(f, "M%zu %dv-%.0fh1v%.0fz", x, TENTHS, tenths, tenths);
	}
	markup(f, "\"/>");
}

static void draw_rank(FILE *f, const struct report *r, const struct timeline *t, uint32_t rank)
{
	row_begin(f, "rank %u", rank);
	for (int s = STATE_COMPUTING; s < REPORT_STATES; s++)
		markup_text(f, "%s%s %.3g s", s > STATE_COMPUTING ? ", " : "", report_state_name((enum report_state)s),
			    r->at[rank].seconds[s]);
	markup(f, "\">");
	for (int s = STATE_COMPUTING; s < REPORT_STATES; s++)
		if (s != STATE_SAVING)
			draw_state(f, t->state[rank], (enum report_state)s);
	draw_saving(f, t, rank);
	row_end(f);
}

static void draw_daemon(FILE *f, const struct report *r, const struct timeline *t, uint32_t node)
{
	size_t away = 0;
	for (size_t i = 0; i < r->daemon.n; i++)
		away += r->daemon.at[i].node == node && !r->daemon.at[i].answers;
	if (r->nodes > 1)
		row_begin(f, "node-%u", node);
	else
		row_begin(f, "daemon");
	markup_text(f, "times that it did not answer: %zu", away);
	markup(f, "\"><path class=\"lost\" d=\"");
	for (size_t i = 0; i < r->daemon.n; i++) {
		uint64_t back = report_next_sign(r, i);
		size_t from = column(t, r->daemon.at[i].at), to = back ? column(t, back) : COLUMNS - 1;
		if (r->daemon.at[i].node == node && !r->daemon.at[i].answers &&
		    to >= from) /* the clock may have been set back */
			markup(f, "M%zu 0h%zuv%dh-%zuz", from, to + 1 - from, TENTHS, to + 1 - from);
	}
	markup(f, "\"/>");
	row_end(f);
}

/* How long the network was broken. */
static void draw_cut(FILE *f, const struct timeline *t, const struct report_fault *one)
{
	size_t from = column(t, one->at), to = column(t, one->at + one->for_ms * CLOCK_NS_PER_MS);
	if (one->fired && one->entry && one->entry->target == FAULT_AT_NETWORK)
		markup(f, "<path class=\"cut\" d=\"M%zu 0h%zuv%dh-%zuz\"/>", from, to + 1 - from, TENTHS,
		       to + 1 - from);
}

static void draw_faults(FILE *f, const struct report *r, const struct timeline *t)
{
	char text[32];
	row_begin(f, "faults");
	markup_text(f, "%zu were caused", r->faults.n);
	markup(f, "\">");
	for (size_t i = 0; i < r->faults.n; i++) {
		const struct report_fault *one = &r->faults.at[i];
		draw_cut(f, t, one);
		markup(f, "<path class=\"fault\" d=\"M%zu 0h3v%dh-3z\"><title>", column(t, one->at), TENTHS);
		markup_text(f, "%s, %s", one->kind,
			    text_duration(text, sizeof(text), one->at - min_u64(one->at, t->begin)));
		markup(f, "</title></path>");
	}
	row_end(f);
}

static void draw_axis(FILE *f, const struct timeline *t)
{
	char text[32];
	markup(f, "<div class=\"row\"><span></span><div class=\"axis\">");
	for (uint64_t i = 0; i < MARKS; i++) {
		markup(f, "<span>");
		markup_text(f, "%s", text_duration(text, sizeof(text), (t->end - t->begin) / (MARKS - 1) * i));
		markup(f, "</span>");
	}
	markup(f, "</div></div>\n");
}

int chart_timeline(FILE *f, const struct report *r)
{
	static const char *const keys[][2] = {{"computing", "computing"},
					      {"saving", "saving (as high as its share of the time)"},
					      {"starting", "starting"},
					      {"recovering", "recovering"},
					      {"lost", "lost"},
					      {"cut", "the network is broken"},
					      {"fault", "a fault is caused"}};
	struct timeline *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->begin = r->begin;
	t->end = max_u64(r->segments.n ? report_stopped(r, &r->segments.at[r->segments.n - 1]) : 0, r->begin + 1);
	paint_all(t, r);
	draw_faults(f, r, t);
	for (uint32_t node = 0, rank = 0; node < r->nodes; node++) {
		draw_daemon(f, r, t, node);
		for (; rank < r->ranks && (node + 1 == r->nodes || report_node_of(r, rank) == node); rank++)
			draw_rank(f, r, t, rank);
	}
	draw_axis(f, t);
	chart_legend(f, keys, sizeof(keys) / sizeof(keys[0]));
	free(t);
	return 0;
}
