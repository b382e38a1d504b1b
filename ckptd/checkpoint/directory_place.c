/* Whether the store is still where its path leads. What goes on being written through a handle after the store was moved away, or half
 * removed, would be called durable, and no reader would find it. */
#include "checkpoint/directory_private.h"

#include "store/read/repo_place.h"

bool directory_is_lost(struct directory *s)
{
	int rc = s->place && s->place->path ? repo_place_check(s->place, &s->err) : 0;
	if (!rc)
		return false;
	s->rc = rc;
	directory_advance(s, rc);
	return true;
}
