/* Operators: who of them waits for the answer of another node. */
#ifndef CKPTD_CLIENTS_OPERATORS_H
#define CKPTD_CLIENTS_OPERATORS_H

#include <stdint.h>

struct forward;

struct operators {
	struct forward *forwards; /* that the coordinator has not answered yet; the newest first */
	uint64_t forward_tokens;
};

#endif
