/* Dispatch: to whom it gives what, and what the log has told of connections that were refused. */
#ifndef CKPTD_DISPATCH_DISPATCH_H
#define CKPTD_DISPATCH_DISPATCH_H

#include <stdint.h>

struct control;
struct jobs;
struct operators;
struct peers;
struct runtime;
struct storage;

struct dispatch {
	struct runtime *runtime;
	struct storage *storage;
	struct peers *peers;
	struct jobs *jobs;
	struct control *control;
	struct operators *operators;
	uint64_t refused;      /* connections of which the log has told */
	uint64_t next_refused; /* when it may tell again */
	uint64_t next_clocks;  /* when other nodes are asked for the time */
};

#endif
