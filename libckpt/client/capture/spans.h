/* Spans: from a captured piece of the layout to the rank's memory that it came from or goes to. */
#ifndef CKPT_SPANS_H
#define CKPT_SPANS_H

#include "client/capture/table.h"
#include "kernels.h"

/* Describes `captured`, which lies within the registered piece `held` whose memory is `place`, as one span (one sequence of
 * leaves): memory, rows and part; arena_at and first_leaf are the caller's. -EINVAL: it does not lie within, or is a shape of part
 * that memory of this kind cannot give in order. */
int span_of(const struct shape *shape, unsigned element, const struct region *held, const struct place *place,
	    const struct region *captured, struct span *out);

#endif
