/* Dispatch: what it has told in the log of connections that were refused. */
#ifndef CKPTD_DISPATCH_DISPATCH_H
#define CKPTD_DISPATCH_DISPATCH_H

#include <stdint.h>

struct dispatch {
	uint64_t refused;      /* connections of which the log has told */
	uint64_t next_refused; /* when it may tell again */
};

#endif
