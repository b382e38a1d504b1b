/* Set aside: nodes to which others are preferred when ranks are given (coordinator/assignment.h), spares too, and why:
 *
 *	unfit    the node says so of itself (machine/checkup.h), with what it offers; as long as that is so and it is there
 *	a lemon  it has failed again and again (control/lemon/lemon.h), until an operator clears it
 *
 * Nobody is kept from running by it: where there is nobody else, a node that is set aside gets ranks as ever.
 *
 * Failures are noted where a job is coordinated, and outlive that daemon. The registry has one record for each node,
 * which all daemons follow. Without a registry, the first node, which then coordinates all jobs, notes them in the store. */
#ifndef CKPTD_CONTROL_SET_ASIDE_H
#define CKPTD_CONTROL_SET_ASIDE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct control;
struct registry_record;

/* Nodes by the roster. What a node says of itself; "": nothing is wrong, or it is not there to say so. */
void set_aside_said(struct control *control, uint32_t node, const char *unfit);
/* It has ended an epoch that all had entered. That counts when the job has gone on from there: what ends a whole job is
 * no failure of a node. */
void set_aside_suspect(struct control *control, uint32_t node, const char *job, const char *why);
void set_aside_gone_on(struct control *control, const char *job);
/* It has not, and does not. */
void set_aside_ended(struct control *control, const char *job);
/* Why it is set aside; "": it is not. Valid until something changes. */
const char *set_aside_why(const struct control *control, uint32_t node);
/* The part of that for its failures. */
const char *set_aside_lemon(const struct control *control, uint32_t node);
/* Its failures are forgotten. done, perhaps at once: rc 0: that is on record; else why not. -ENOENT: it has none, or
 * there is no such node; -EREMOTE: another node keeps them; -ENOTCONN: the registry is away. */
int set_aside_clear(struct control *control, const char *name, void (*done)(void *arg, int rc, const char *why),
		    void *arg, struct err *err);

/* Without a registry, on the first node: what the store has. */
void set_aside_load(struct control *control);
/* Something of the registry was told. True: it was of a node's failures. */
bool set_aside_record(struct control *control, const struct registry_record *record, bool gone);
/* Writes what is not on record yet. */
void set_aside_tick(struct control *control, uint64_t now);
/* It is being written on a worker. */
bool set_aside_at_work(const struct control *control);
/* Nobody waits for anything any more. */
void set_aside_close(struct control *control);
void set_aside_free(struct control *control);

#endif
