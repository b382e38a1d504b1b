/* Faults on purpose: causes what the daemon itself can cause, allows what `ckpt fault` does, and finds out whether it has fired.
 *
 *   (asked) ──► PENDING ──► FIRED        its effect was seen
 *                      └──► NOT_FIRED    the deadline passed, or what it was aimed at has gone */
#ifndef CKPTD_FAULTS_FAULTS_H
#define CKPTD_FAULTS_FAULTS_H

#include "base/err.h"
#include "faults/fault_log.h"

struct job;
struct jobs;

struct faults;

/* NULL: no memory. */
struct faults *faults_new(struct jobs *jobs);
void faults_free(struct faults *faults);

/* COMMAND_FAULT of the job (NULL: of none, for faults at the daemon). -EPERM: the configuration does not allow it;
 * -ENOENT: there is no such rank or snapshot here; -EBUSY: too many are pending. */
int faults_cause(struct faults *faults, struct job *job, const struct wire_command *command, struct wire_answer *answer,
		 struct err *err);
/* After a fault that ends the node, and its answer: SIGKILL to all launchers and ranks, and to this process. */
void faults_power_off(const struct faults *faults);
/* COMMAND_FAULTED. */
int faults_ask(struct faults *faults, const struct wire_command *command, struct wire_answer *answer, struct err *err);
/* Looks whether they have fired; every tick. */
void faults_tick(struct faults *faults);
/* The daemon ends: what was stopped goes on. */
void faults_end(struct faults *faults);
const struct fault_log *faults_log(const struct faults *faults);

#endif
