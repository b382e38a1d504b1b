/* A manifest of this commit's name that is there already: is it what this commit would have written? */
#include "commit_private.h"

#include "prepare.h"

#include <stdlib.h>
#include <string.h>

enum { FOUND_MAX = 1 << 20 }; /* a manifest of one node is far below */

void commit_read_found(struct commit *c)
{
	c->already = true;
	c->found = malloc(FOUND_MAX);
	if (!c->found) {
		commit_advance(c, -ENOMEM);
		return;
	}
	commit_submit(c, (struct disk_op){.kind = DISK_READ, .file = c->manifest, .buf = c->found, .len = FOUND_MAX});
}

void commit_found_read(struct commit *c, int64_t result)
{
	c->found_len = (uint64_t)result;
	commit_close_handle(c, c->manifest);
	c->manifest = -1;
	commit_set_state(c, COMMIT_DIGESTS);
}

/* The manifest is a pure function of all bytes that it vouches for. */
int commit_compare_found(struct commit *c)
{
	int rc = prepare_documents(c, &c->err);
	if (rc)
		return rc;
	if (c->manifest_text.len == c->found_len && !memcmp(c->manifest_text.data, c->found, c->found_len))
		return 0;
	commit_fail(c, -EEXIST, "writing over another checkpoint");
	return -EEXIST;
}
