/* A manifest of this commit's name that is there already: is it what this commit would have written? So it is asked when the directory
 * is found, and when nobody knows whether the manifest was named. */
#include "commit_private.h"

#include "prepare.h"

#include <stdlib.h>
#include <string.h>

enum { FOUND_MAX = 1 << 20 }; /* a manifest of one node is far below */

void commit_read_found(struct commit *c)
{
	c->already = !c->doubt;
	c->found = malloc(FOUND_MAX);
	if (!c->found) {
		commit_advance(c, -ENOMEM);
		return;
	}
	commit_submit(c, (struct disk_op){.kind = DISK_READ, .file = c->manifest, .buf = c->found, .len = FOUND_MAX});
}

/* The manifest is a pure function of all bytes that it vouches for. */
static int compare(struct commit *c)
{
	if (c->manifest_text.len == c->found_len && !memcmp(c->manifest_text.data, c->found, c->found_len))
		return 0;
	commit_fail(c, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}

void commit_found_read(struct commit *c, int64_t result)
{
	c->found_len = (uint64_t)result;
	commit_close_handle(c, c->manifest);
	c->manifest = -1;
	if (!c->doubt)
		commit_set_state(c, COMMIT_DIGESTS);
	else if (compare(c))
		commit_set_state(c, COMMIT_ASIDE);
	else
		commit_set_state(c, c->doubt == -EEXIST ? COMMIT_UNLINK_TMP : COMMIT_SYNC_LINK);
}

int commit_compare_found(struct commit *c)
{
	int rc = prepare_documents(c, &c->err);
	return rc ? rc : compare(c);
}
