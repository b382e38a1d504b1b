/* The report as one page that stands alone: no script, nothing that is fetched. The same value as in report_json.c.
 *
 *	report_html.c   the page           report_tables.c  its tables
 *	report_chart.h  its pictures       markup.h         what is text stays text
 *	report.css      how it looks: made a part of the program */
#ifndef CKPT_CLI_REPORT_HTML_H
#define CKPT_CLI_REPORT_HTML_H

#include "report/report.h"

#include <stdio.h>

/* -ENOMEM; whether it could be written ferror(f) says. */
int report_html(FILE *f, const struct report *r, const struct report_spread spreads[REPORT_SPREADS]);

/* report_tables.c */
void html_faults(FILE *f, const struct report *r);
void html_recoveries(FILE *f, const struct report *r);
void html_causes(FILE *f, const struct report *r);
void html_ranks(FILE *f, const struct report *r);
void html_goodput(FILE *f, const struct report_goodput *g);
void html_model(FILE *f, const struct report_goodput *g);
void html_invariants(FILE *f, const struct report *r);

#endif
