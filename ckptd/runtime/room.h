/* Room runtime: what every room stands on: the loop, worker threads, rates, histograms, processes, options,
 * clients that can be answered.
 * May know: no other room.
 * Invariants: all but the workers' items runs on the loop's one thread, and nothing there waits. */
#ifndef CKPTD_RUNTIME_ROOM_H
#define CKPTD_RUNTIME_ROOM_H

#include "runtime/client.h"
#include "runtime/histogram.h"
#include "runtime/json_values.h"
#include "runtime/loop.h"
#include "runtime/memory_account.h"
#include "runtime/options.h"
#include "runtime/process.h"
#include "runtime/process_setup.h"
#include "runtime/rate_limit.h"
#include "runtime/runtime.h"
#include "runtime/span_log.h"
#include "runtime/step_rate.h"
#include "runtime/workers.h"

#endif
