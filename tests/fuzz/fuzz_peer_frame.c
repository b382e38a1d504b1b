/* libFuzzer entry point: frames from another daemon. The first byte chooses what state the session is in, and whether the rest gets a
 * genuine tag of the call, so that what lies behind the tag is reached, too. Nothing but such a call may be answered, and nothing may be
 * taken. */
#include "cluster/net/inbox.h"
#include "cluster/net/session.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_IDLE, STATE_CALLING, STATE_ANSWERED, STATE_UP, STATES };

static void make_self(struct session_self *self, const char *name, uint32_t index)
{
	*self = (struct session_self){.index = index, .incarnation = 7 + index, .address = {{1, 2, 3}, 3}};
	snprintf(self->name, sizeof(self->name), "%s", name);
	memset(self->cluster_key, 5, KEY_BYTES);
	session_self_init(self);
}

static void open_between(struct session *a, struct session *b, unsigned state)
{
	struct session_frame hello, challenge, confirm, none;
	struct session_taken taken;
	if (state == STATE_CALLING)
		session_call(b, &hello);
	if (state < STATE_ANSWERED)
		return;
	session_call(a, &hello);
	session_take(b, hello.bytes, hello.len, &taken, &challenge);
	session_take(a, challenge.bytes, challenge.len, &taken, &confirm);
	if (state == STATE_UP)
		session_take(b, confirm.bytes, confirm.len, &taken, &none);
	if (b->up != (state == STATE_UP))
		abort();
}

/* Parts of messages, in pieces of the length that the first byte says. */
static void fill_inbox(const uint8_t *data, size_t size)
{
	struct inbox in = {NULL};
	size_t step = size ? data[0] + 1u : 1;
	for (size_t at = 0; at < size; at += step) {
		int rc = inbox_take(&in, data + at, size - at < step ? size - at : step);
		if (rc > 0 && in.have != in.len)
			abort();
		if (rc)
			inbox_clear(&in);
	}
	inbox_clear(&in);
}

/* Whether the tag is the genuine one of a call; `put`: it is made so. A seed brings it along. */
static bool tag(struct session_frame *frame, const uint8_t *key, bool put)
{
	uint8_t want[SESSION_TAG], *at = frame->bytes + frame->len - SESSION_TAG;
	crypto_generichash(want, sizeof(want), frame->bytes, frame->len - SESSION_TAG, key, KEY_BYTES);
	if (put)
		memcpy(at, want, sizeof(want));
	return !memcmp(at, want, sizeof(want));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_self self_a, self_b;
	struct session a, b;
	struct session_taken taken;
	struct session_frame frame = {.len = 0}, reply;
	if (!size || size > SESSION_FRAME_MAX || sodium_init() < 0)
		return 0;
	make_self(&self_a, "a", 0);
	make_self(&self_b, "b", 1);
	session_init(&a, &self_a, "b", 1);
	session_init(&b, &self_b, "a", 0);
	open_between(&a, &b, data[0] % STATES);
	bool was_up = b.up, genuine = false;
	frame.len = size - 1;
	memcpy(frame.bytes, data + 1, frame.len);
	if (frame.len >= SESSION_HEAD + SESSION_TAG)
		genuine = tag(&frame, self_b.hello_key, data[0] & 0x80);
	enum session_news news = session_take(&b, frame.bytes, frame.len, &taken, &reply);
	if (b.up != was_up || news == SESSION_TAKEN || news == SESSION_OPENED)
		abort();
	if (reply.len && (!genuine || news != SESSION_ANSWERED))
		abort();
	fill_inbox(data + 1, size - 1);
	return 0;
}
