/* The sentence of a thread's last failure on a session. It belongs to the thread: calls of other threads do not change it
 * under a reader's eyes, so it is kept per thread, for the last few sessions that the thread used. */
#include "session.h"

#include <string.h>

enum { KEPT = 4 };

static _Thread_local struct {
	uint64_t token;
	struct err err;
} kept[KEPT];
static _Thread_local unsigned next_kept;

int session_fail(const ckpt *s, int rc, const struct err *err)
{
	unsigned at = 0;
	while (at < KEPT && kept[at].token != s->token)
		at++;
	if (at == KEPT)
		at = next_kept++ % KEPT;
	kept[at].token = s->token;
	kept[at].err = *err;
	if (!err->text[0])
		err_set(&kept[at].err, rc, "%s", err_name(rc));
	return rc;
}

const char *ckpt_error(const ckpt *s)
{
	for (unsigned at = 0; s && at < KEPT; at++)
		if (kept[at].token == s->token)
			return kept[at].err.text;
	return "";
}
