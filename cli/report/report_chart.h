/* The pictures of the page: SVG without text in it, so that each may be stretched to any width. Its words stand beside it, and in its label
 * for whoever does not see it. */
#ifndef CKPT_CLI_REPORT_CHART_H
#define CKPT_CLI_REPORT_CHART_H

#include "report/report.h"

#include <stdio.h>

/* A row per rank, one for the daemon of each node and one for the faults, above a scale of time. -ENOMEM. */
int chart_timeline(FILE *f, const struct report *r);
/* Where the job's time went. */
void chart_goodput(FILE *f, const struct report_goodput *g);
/* One recovery, split into its parts; and what their colours mean. */
void chart_recovery(FILE *f, const struct report_recovery *one);
void chart_parts(FILE *f);
void chart_spread(FILE *f, const struct report_spread *s);

/* What the colours mean: classes of report.css, and their words; n of them. */
void chart_legend(FILE *f, const char *const (*keys)[2], size_t n);

#endif
