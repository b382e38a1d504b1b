#include "plan/plan_picture.h"

#include "frame/markup.h"
#include "plan/plan_quantity.h"

#include <math.h>

/* Of the picture, of the frame in which the curves are, and of the bars. */
enum {
	WIDTH = 800,
	HEIGHT = 470,
	LEFT = 60,
	RIGHT = 780,
	TOP = 50,
	BOTTOM = 290,
	BARS = 360,
	BAR_HEIGHT = 24,
	BAR_LEFT = 200,
	POINTS = 200, /* of a curve */
};

static const char style[] =
	"<style>\n"
	":root{--back:#fff;--text:#1d2733;--dim:#5b6875;--line:#d5dce4;--plan:#2f6fdd;--other:#c2571a;"
	"--stalled:#8ab4f8;--lost:#d93025;--recovering:#e8a33d;--computing:#3a65a8}\n"
	"@media (prefers-color-scheme:dark){:root{--back:#12161c;--text:#e3e8ee;--dim:#9aa7b6;--line:#2c3542;"
	"--plan:#6ea4ff;--other:#f08a4f;--stalled:#b9d3ff;--lost:#ff6b61;--recovering:#f0a93b;--computing:#4a78c0}}\n"
	".back{fill:var(--back)}text{fill:var(--text);font:13px system-ui,sans-serif}.dim{fill:var(--dim)}"
	".end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:var(--line)}"
	".curve{fill:none;stroke-width:2}.plan{stroke:var(--plan)}.other{stroke:var(--other);stroke-dasharray:6 4}"
	".dot{fill:var(--back);stroke-width:2}.dot.other{stroke-dasharray:none}"
	".stalled{fill:var(--stalled)}.lost{fill:var(--lost)}.recovering{fill:var(--recovering)}"
	".computing{fill:var(--computing)}\n"
	"</style>\n";

struct frame {
	const struct plan_report *p;
	double least, most; /* interval at the left and at the right, seconds; logarithmic */
	double low;         /* goodput at the bottom; 1 at the top */
};

static double x_of(const struct frame *a, double interval)
{
	double at = log(interval / a->least) / log(a->most / a->least);
	return LEFT + fmin(fmax(at, 0), 1) * (RIGHT - LEFT);
}

static double y_of(const struct frame *a, double goodput)
{
	double at = (goodput - a->low) / (1 - a->low);
	return BOTTOM - fmin(fmax(at, 0), 1) * (BOTTOM - TOP);
}

/* From well below the shorter interval to well above the longer one; down to the lower of what is shown for them. */
static struct frame frame_of(const struct plan_report *p)
{
	struct frame a = {.p = p};
	double memory = p->result.memory.interval, baseline = p->in.baseline, spread;
	a.least = fmin(memory, baseline) / 20;
	a.most = fmax(memory, baseline) * 20;
	double low = fmin(fmin(p->result.goodput, p->result.baseline_goodput),
			  fmin(plan_mean(p->sims, &spread), plan_mean(p->baseline, &spread)));
	a.low = fmax(0, floor((low - 0.15) * 10) / 10);
	return a;
}

/* ---- the curves ---------------------------------------------------------------------------------------------------- */

static void draw_rows(FILE *f, const struct frame *a)
{
	enum { ROWS = 5 };
	for (int i = 0; i <= ROWS; i++) {
		double goodput = a->low + (1 - a->low) * i / ROWS, y = y_of(a, goodput);
		markup(f,
		       "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"dim end\" x=\"%d\" "
		       "y=\"%.1f\">%.0f%%</text>\n",
		       LEFT, y, RIGHT, LEFT - 6, y + 4, 100 * goodput);
	}
}

/* At intervals that people think in. */
static void draw_columns(FILE *f, const struct frame *a)
{
	static const struct {
		double seconds;
		const char *name;
	} at[] = {{0.001, "1 ms"}, {0.01, "10 ms"}, {0.1, "0.1 s"},   {1, "1 s"},
		  {10, "10 s"},    {60, "1 min"},   {600, "10 min"},  {3600, "1 h"},
		  {36000, "10 h"}, {86400, "1 d"},  {864000, "10 d"}, {8640000, "100 d"}};
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		double x = x_of(a, at[i].seconds);
		if (at[i].seconds >= a->least && at[i].seconds <= a->most)
			markup(f,
			       "<path class=\"grid\" d=\"M%.1f %dV%d\"/>"
			       "<text class=\"dim middle\" x=\"%.1f\" y=\"%d\">%s</text>\n",
			       x, TOP, BOTTOM, x, BOTTOM + 18, at[i].name);
	}
}

/* Where it is below what is shown there is none. */
static void draw_curve(FILE *f, const struct frame *a, const char *class,
		       double (*goodput)(const struct plan_input *, const struct plan_result *, double))
{
	markup(f, "<path class=\"curve %s\" d=\"", class);
	char next = 'M';
	for (int i = 0; i <= POINTS; i++) {
		double interval = a->least * pow(a->most / a->least, (double)i / POINTS);
		double is = goodput(&a->p->in, &a->p->result, interval);
		if (is >= a->low)
			markup(f, "%c%.1f %.1f", next, x_of(a, interval), y_of(a, is));
		next = is >= a->low ? 'L' : 'M';
	}
	markup(f, "\"/>\n");
}

/* What was simulated: a dot at the mean, in a line from the least to the most. */
static void draw_dot(FILE *f, const struct frame *a, const char *class, const char *name, double interval,
		     const struct plan_sim *sims)
{
	double spread, mean = plan_mean(sims, &spread), x = x_of(a, interval), y = y_of(a, mean);
	char text[QUANTITY_TEXT_MAX];
	markup(f,
	       "<g class=\"%s\"><path d=\"M%.1f %.1fV%.1f\"/><circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" "
	       "r=\"5\"/><title>",
	       class, x, y_of(a, mean + spread), y_of(a, mean - spread), class, x, y);
	markup_text(f, "%s, every %s: %.2f%%", name, quantity_time_text(interval, text), 100 * mean);
	markup(f, "</title></g>\n");
}

static void draw_curves(FILE *f, const struct frame *a)
{
	const struct plan_report *p = a->p;
	draw_rows(f, a);
	draw_columns(f, a);
	draw_curve(f, a, "other", plan_baseline_at);
	draw_curve(f, a, "plan", plan_goodput_at);
	draw_dot(f, a, "other", "synchronous saves to storage", p->in.baseline, p->baseline);
	draw_dot(f, a, "plan", "this plan, saves to memory", p->result.memory.interval, p->sims);
	markup(f, "<text x=\"%d\" y=\"%d\">goodput by interval</text>\n", LEFT, TOP - 14);
	markup(f, "<path class=\"curve plan\" d=\"M%d %dh24\"/><text x=\"%d\" y=\"%d\">saves to memory</text>\n", 300,
	       TOP - 18, 330, TOP - 14);
	markup(f,
	       "<path class=\"curve other\" d=\"M%d %dh24\"/><text x=\"%d\" y=\"%d\">synchronous saves to "
	       "storage</text>\n",
	       460, TOP - 18, 490, TOP - 14);
}

/* ---- where the time goes ------------------------------------------------------------------------------------------- */

static void draw_part(FILE *f, double *x, double y, const char *class, const char *name, double share)
{
	double width = fmin(fmax(share, 0), 1) * (RIGHT - BAR_LEFT);
	markup(f, "<path class=\"%s\" d=\"M%.1f %.1fh%.1fv%dh-%.1fz\"><title>", class, *x, y, width, BAR_HEIGHT, width);
	markup_text(f, "%s: %.2f%%", name, 100 * share);
	markup(f, "</title></path>\n");
	*x += width;
}

static void draw_bar(FILE *f, double y, const char *name, const struct plan_sim *s)
{
	double x = BAR_LEFT;
	markup(f, "<text class=\"end\" x=\"%d\" y=\"%.1f\">", BAR_LEFT - 8, y + 17);
	markup_text(f, "%s", name);
	markup(f, "</text>\n");
	draw_part(f, &x, y, "computing", "computation that stays", s->goodput);
	draw_part(f, &x, y, "stalled", "stalls", s->stalled);
	draw_part(f, &x, y, "lost", "done again", s->lost);
	draw_part(f, &x, y, "recovering", "recovering", s->recovering);
}

static void draw_bars(FILE *f, const struct plan_report *p)
{
	static const struct {
		const char *class, *name;
		int x;
	} keys[] = {{"computing", "computation that stays", BAR_LEFT},
		    {"stalled", "stalls", 375},
		    {"lost", "done again", 450},
		    {"recovering", "recovering", 550}};
	char name[64], text[QUANTITY_TEXT_MAX];
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		markup(f, "<path class=\"%s\" d=\"M%d %dh12v12h-12z\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
		       keys[i].class, keys[i].x, BARS - 26, keys[i].x + 17, BARS - 15, keys[i].name);
	draw_bar(f, BARS, "this plan", &p->sims[0]);
	snprintf(name, sizeof(name), "synchronous, %s", quantity_time_text(p->in.baseline, text));
	draw_bar(f, BARS + BAR_HEIGHT + 12, name, &p->baseline[0]);
	markup(f, "<text class=\"dim\" x=\"%d\" y=\"%d\">simulated for %.0f days, one seed</text>\n", BAR_LEFT,
	       BARS + 2 * BAR_HEIGHT + 34, p->days);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static void describe(FILE *f, const struct plan_report *p)
{
	char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX];
	double spread;
	markup(f, "<title id=\"t\">");
	markup_text(f, "Plan for %.0f GPUs on %.0f nodes", p->in.gpus, p->result.nodes);
	markup(f, "</title>\n<desc id=\"d\">");
	markup_text(f,
		    "With saves to memory every %s the goodput is %.2f%% by formula, and %.2f%% simulated. With "
		    "synchronous "
		    "saves to storage every %s it is %.2f%% by formula, and %.2f%% simulated.",
		    quantity_time_text(p->result.memory.interval, a), 100 * p->result.goodput,
		    100 * plan_mean(p->sims, &spread), quantity_time_text(p->in.baseline, b),
		    100 * p->result.baseline_goodput, 100 * plan_mean(p->baseline, &spread));
	markup(f, "</desc>\n");
}

int plan_picture(FILE *f, const void *arg)
{
	const struct plan_report *p = arg;
	struct frame a = frame_of(p);
	markup(f,
	       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t "
	       "d\">\n",
	       WIDTH, HEIGHT);
	describe(f, p);
	markup(f, "%s<path class=\"back\" d=\"M0 0h%dv%dh-%dz\"/>\n", style, WIDTH, HEIGHT, WIDTH);
	draw_curves(f, &a);
	draw_bars(f, p);
	markup(f, "</svg>\n");
	return 0;
}
