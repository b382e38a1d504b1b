/* A manifest of this checkpoint's name that is there already: is it what is to be written? So it is asked when the directory is found,
 * and when nobody knows whether ours was named. MANIFEST.json is a pure function of what the nodes have reported, and each of
 * them compares its own part before it says that it is prepared (checkpoint/node_part_found.c): so equal documents vouch for equal bytes. */
#include "checkpoint/directory_private.h"

#include <stdlib.h>
#include <string.h>

void directory_read_found(struct directory *s)
{
	uint64_t most = s->doubt ? s->text.len + 1 : MANIFEST_BYTES_MAX;
	s->there = malloc(most);
	if (!s->there) {
		directory_advance(s, -ENOMEM);
		return;
	}
	directory_submit(s, (struct disk_op){.kind = DISK_READ, .file = s->manifest, .buf = s->there, .len = most});
}

int directory_compare_found(struct directory *s)
{
	if (s->text.len == s->there_len && !memcmp(s->text.data, s->there, s->there_len))
		return 0;
	directory_fail(s, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}

/* The one that may be ours is compared at once; the one that was there before, once it is known what it should say. */
void directory_found_read(struct directory *s, int64_t result)
{
	s->there_len = (uint64_t)result;
	directory_close_handle(s, s->manifest);
	s->manifest = -1;
	if (!s->doubt) {
		s->found = true;
		directory_set_state(s, DIRECTORY_SYNC_ROOT);
		if (!s->rc)
			s->made(s);
		return;
	}
	int rc = directory_compare_found(s);
	if (rc)
		directory_advance(s, rc);
	else
		directory_set_state(s, DIRECTORY_SYNC_NAME);
}
