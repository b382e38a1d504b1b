/* The interval of a job as the status has it: which steps are saved, and what that follows from. */
#ifndef CKPTD_OBSERVE_INTERVAL_JSON_H
#define CKPTD_OBSERVE_INTERVAL_JSON_H

#include "job/room.h"

#include <jansson.h>

/* null: no rank has asked. */
json_t *interval_json(const struct job *job);

#endif
