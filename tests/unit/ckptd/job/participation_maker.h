/* A job of two nodes, of which this is the first; its host is in the same daemon. For the tests of what a node says to its coordinator. */
#ifndef CKPT_TESTS_PARTICIPATION_MAKER_H
#define CKPT_TESTS_PARTICIPATION_MAKER_H

#include "daemon.h"
#include "format/message/peer.h"
#include "job/job.h"

extern struct daemon here;
extern struct job job; /* "main", of four ranks: two are here */

void participation_maker_setup(void);
void participation_maker_teardown(void);
/* The other node says this, with another world. */
void other(enum peer_type type);
/* A node says this, and what comes of it is heard here. */
void reports(uint32_t node, const struct peer_report *report);
/* This node wants to take part. */
void take_part(void);
/* An epoch is on record, and the job has heard of it. */
void wait_for_epoch(void);

#endif
