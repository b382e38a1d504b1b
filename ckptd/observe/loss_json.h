/* The loss of a job as the status has it: what its ranks hand over, and what is thought of it. */
#ifndef CKPTD_OBSERVE_LOSS_JSON_H
#define CKPTD_OBSERVE_LOSS_JSON_H

#include "job/room.h"

#include <jansson.h>

/* null: no rank here has handed one over. */
json_t *loss_json(const struct job *job);
/* The last one of the rank; null: it has handed over none. */
json_t *loss_json_rank(const struct rank *rank);

#endif
