/* The picture of a plan: one SVG that stands alone, in light and dark. Above, the goodput at each interval, by formula,
 * with what was simulated at those of the plan and of the synchronous saves; below, where the time of both goes. */
#ifndef CKPT_CLI_PLAN_PICTURE_H
#define CKPT_CLI_PLAN_PICTURE_H

#include "plan/plan_report.h"

/* arg is a struct plan_report. Writing errors stay in f. Returns 0: frame/replace_file.h. */
int plan_picture(FILE *f, const void *arg);

#endif
