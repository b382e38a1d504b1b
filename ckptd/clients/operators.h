/* Operators: whom they ask, and who of them waits for the answer of another node. */
#ifndef CKPTD_CLIENTS_OPERATORS_H
#define CKPTD_CLIENTS_OPERATORS_H

#include <stdint.h>

struct control;
struct forward;
struct jobs;
struct observe;
struct operator_wait;
struct peers;
struct runtime;

struct operators {
	struct runtime *runtime;
	struct peers *peers;
	struct jobs *jobs;
	struct control *control;
	struct observe *observe;
	struct forward *forwards; /* that the coordinator has not answered yet; the newest first */
	uint64_t forward_tokens;
	struct operator_wait *waits; /* for a record (clients/operator_wait.h) */
};

#endif
