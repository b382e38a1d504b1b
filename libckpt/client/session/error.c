/* The sentence of a thread's last failure on a session. It belongs to the thread: calls of other threads do not change it
 * under a reader's eyes, so it is kept per thread, for the last few sessions that the thread used. What failed for want of a session
 * (its handle was NULL, or a snapshot's) is kept beside them, and is the last failure of every session until that has a later one. */
#include "client/session/session.h"

#include "base/clock.h"

#include <string.h>

enum { KEPT = 4 }; /* ckpt_error promises so many */

struct kept {
	uint64_t token, when;
	struct err err;
};

static _Thread_local struct kept kept[KEPT], kept_without;

/* That of the session; else the one whose session has not failed for longest. */
static struct kept *place_for(const ckpt *s)
{
	struct kept *place = &kept[0];
	if (!s)
		return &kept_without;
	for (unsigned at = 0; at < KEPT && place->token != s->token; at++)
		if (kept[at].token == s->token || kept[at].when < place->when)
			place = &kept[at];
	place->token = s->token;
	return place;
}

int session_fail(const ckpt *s, int rc, const struct err *err)
{
	struct kept *at = place_for(s);
	at->when = clock_now();
	at->err = *err;
	if (!err->text[0])
		err_set(&at->err, rc, "%s", err_name(rc));
	return rc;
}

int session_refuse(const ckpt *s, const char *text)
{
	struct err err = {0};
	return session_fail(s, err_set(&err, -EINVAL, "%s", text), &err);
}

const char *ckpt_error(const ckpt *s)
{
	const struct kept *last = &kept_without;
	if (s && kept_without.when < s->token)
		last = NULL;
	for (unsigned at = 0; s && at < KEPT; at++)
		if (kept[at].token == s->token && (!last || kept[at].when >= last->when))
			last = &kept[at];
	return last ? last->err.text : "";
}
