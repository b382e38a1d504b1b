#include "checkpoint/room.h"
#include "save/snapshot.h"

#include <stdlib.h>

int snapshot_donor(const struct snapshot *s, struct donor *out)
{
	*out = (struct donor){0};
	if (!s)
		return 0;
	out->parts = calloc(s->nparts, sizeof(*out->parts));
	if (!out->parts)
		return -ENOMEM;
	out->nparts = s->nparts;
	for (uint32_t r = 0; r < s->nparts; r++)
		if (s->parts[r].state == PART_DIGESTED)
			out->parts[r] = (struct donor_part){memory_get(s->parts[r].mem), s->parts[r].slot};
	return 0;
}
