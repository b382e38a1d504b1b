#include "report/report_html.h"

#include "frame/markup.h"
#include "report/report_chart.h"

#include <math.h>

extern const unsigned char report_css[];
extern const size_t report_css_len;

/* Nothing is fetched and no script runs, even if text should become markup. */
static void head(FILE *f, const struct report *r)
{
	markup(f, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
		  "'unsafe-inline'; "
		  "base-uri 'none'; form-action 'none'\">\n"
		  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		  "<link rel=\"icon\" href=\"data:,\">\n<title>Campaign ");
	markup_text(f, "%s", r->file);
	markup(f, "</title>\n<style>\n");
	fwrite(report_css, 1, report_css_len, f);
	markup(f, "</style>\n</head>\n<body>\n<header>\n<h1>Campaign ");
	markup_text(f, "%s", r->file);
	markup(f, "</h1>\n");
}

static void about(FILE *f, const struct report *r)
{
	static const char *const good = "good", *const bad = "bad", *const none = "dim";
	const char *class = r->exit_code == 0 ? good : r->exit_code > 0 ? bad : none;
	const char *text = !r->ended           ? "The campaign has not ended."
			   : r->exit_code < 0  ? "The campaign has not been judged."
			   : r->exit_code == 0 ? "All that was promised has held."
			   : r->exit_code == 1 ? "An invariant was broken."
					       : "A fault did not fire, or training hardly moved.";
	markup(f, "<p class=\"%s\">%s</p>\n", class, text);
	markup(f, "<p class=\"dim\">");
	if (r->nodes > 1)
		markup_text(f, "%u ranks on %u nodes, ", r->ranks, r->nodes);
	else
		markup_text(f, "%u ranks on node %s, ", r->ranks, *r->node ? r->node : "?");
	markup_text(f, "seed %lu; saved to memory every %lu steps, to storage every %lu.", (unsigned long)r->seed,
		    (unsigned long)r->memory_every, (unsigned long)r->storage_every);
	if (!isnan(report_compression_planned(r)))
		markup_text(f, " What lasted %.1f days; the file compresses it %.0f times.",
			    (double)r->lasted_ms / 86400000, report_compression_planned(r));
	if (r->left_out)
		markup_text(f, " Left out, because they cannot be caused on %s: %lu faults of its tables.",
			    r->nodes > 1 ? "nodes of one machine" : "one node", (unsigned long)r->left_out);
	if (r->unreadable)
		markup_text(f, " Lines of the folder that could not be read: %lu.", (unsigned long)r->unreadable);
	markup(f, "</p>\n</header>\n<main>\n");
}

static void section(FILE *f, const char *title)
{
	markup(f, "<section>\n<h2>%s</h2>\n", title);
}

static void section_end(FILE *f)
{
	markup(f, "</section>\n");
}

/* ---- facts --------------------------------------------------------------------------------------------------------- */

static void fact(FILE *f, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void fact(FILE *f, const char *name, const char *fmt, ...)
{
	char text[64];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	markup(f, "<div><dt>%s</dt><dd>", name);
	markup_text(f, "%s", text);
	markup(f, "</dd></div>\n");
}

static void facts(FILE *f, const struct report *r)
{
	struct report_totals t = report_totals(r);
	section(f, "In short");
	markup(f, "<dl class=\"facts\">\n");
	fact(f, "Faults that fired", "%zu of %lu", t.fired, (unsigned long)r->planned);
	fact(f, "Faults recovered from", "%zu", t.recovered);
	fact(f, "Recoveries", "%zu", t.recoveries);
	if (isnan(r->goodput.measured))
		fact(f, "Goodput", "–");
	else
		fact(f, "Goodput", "%.1f%%", 100 * r->goodput.measured);
	fact(f, "Steps", "%lu", (unsigned long)t.steps);
	fact(f, "Steps lost", "%lu", (unsigned long)r->steps_lost);
	if (!isnan(report_compression_measured(r)))
		fact(f, "Time compressed", "%.0f times", report_compression_measured(r));
	fact(f, "Checkpoints on storage", "%lu", (unsigned long)r->durables);
	markup(f, "</dl>\n");
	section_end(f);
}

/* ---- sections ------------------------------------------------------------------------------------------------------ */

static int timeline(FILE *f, const struct report *r)
{
	section(f, "Timeline");
	int rc = chart_timeline(f, r);
	html_ranks(f, r);
	section_end(f);
	return rc;
}

static void recoveries(FILE *f, const struct report *r)
{
	section(f, "Recoveries");
	markup(f, "<p class=\"dim\">Each bar is the whole of its recovery, split into its parts. How long that was "
		  "stands beside it.</p>\n");
	chart_parts(f);
	html_recoveries(f, r);
	section_end(f);
}

static void goodput(FILE *f, const struct report *r)
{
	section(f, "Goodput");
	chart_goodput(f, &r->goodput);
	markup(f, "<div class=\"figures\">\n");
	html_goodput(f, &r->goodput);
	html_model(f, &r->goodput);
	markup(f, "</div>\n");
	section_end(f);
}

static void value(FILE *f, const struct report_spread *s, double value)
{
	char text[32];
	if (*s->unit == 'm')
		markup_text(f, "%s", text_duration(text, sizeof(text), (uint64_t)(fmin(value, 1e12) * 1e6)));
	else
		markup_text(f, "%.0f", value);
}

static void spread(FILE *f, const char *title, const struct report_spread *s)
{
	markup(f, "<figure><figcaption>%s: ", title);
	if (!s->n)
		markup(f, "none</figcaption></figure>\n");
	if (!s->n)
		return;
	markup(f, "%zu<br><span class=\"dim\">median ", s->n);
	value(f, s, s->p50);
	markup(f, ", 90%% within ");
	value(f, s, s->p90);
	markup(f, ", 99%% within ");
	value(f, s, s->p99);
	markup(f, "</span></figcaption>");
	chart_spread(f, s);
	markup(f, "<div class=\"axis\"><span>0</span><span>");
	value(f, s, s->most);
	markup(f, "</span></div></figure>\n");
}

static void distributions(FILE *f, const struct report_spread spreads[REPORT_SPREADS])
{
	static const char *const titles[REPORT_SPREADS] = {
		"Until a fault was found", "Recoveries", "Steps lost by a recovery", "Saves that kept a rank waiting"};
	section(f, "Distributions");
	markup(f, "<div class=\"figures\">\n");
	for (int i = 0; i < REPORT_SPREADS; i++)
		spread(f, titles[i], &spreads[i]);
	markup(f, "</div>\n");
	section_end(f);
}

static void with_table(FILE *f, const struct report *r, const char *title, void (*table)(FILE *, const struct report *))
{
	section(f, title);
	table(f, r);
	section_end(f);
}

int report_html(FILE *f, const struct report *r, const struct report_spread spreads[REPORT_SPREADS])
{
	head(f, r);
	about(f, r);
	facts(f, r);
	if (r->invariants)
		with_table(f, r, "What has held", html_invariants);
	int rc = timeline(f, r);
	with_table(f, r, "By cause", html_causes);
	with_table(f, r, "Faults", html_faults);
	recoveries(f, r);
	goodput(f, r);
	distributions(f, spreads);
	markup(f, "</main>\n</body>\n</html>\n");
	return rc;
}
