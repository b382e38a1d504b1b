/* What `ckpt plan` prints. */
#ifndef CKPT_CLI_PLAN_REPORT_H
#define CKPT_CLI_PLAN_REPORT_H

#include "frame/output.h"
#include "plan/plan_model.h"
#include "plan/plan_sim.h"
#include "plan/plan_spans.h"

enum { PLAN_SEEDS = 8 };
#define PLAN_DAY 86400.0

struct plan_report {
	struct plan_input in;
	struct plan_result result;
	struct plan_sim sims[PLAN_SEEDS], baseline[PLAN_SEEDS];
	struct plan_change changes[PLAN_CHANGES];
	const struct plan_spans *spans; /* NULL: none were read */
	double days;
};

/* Mean of the seeds, and half of what is between the least and the most. */
double plan_mean(const struct plan_sim *sims, double *spread);
void plan_print(const struct plan_report *report);
json_t *plan_json(const struct cli *cli, const struct plan_report *report);

#endif
