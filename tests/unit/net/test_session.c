#include "cluster/net/session.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* a is node 0, b node 1 of a cluster. */
static struct session_self self_a, self_b;
static struct session a, b;
static struct session_taken taken;

static void make_self(struct session_self *self, const char *name, uint32_t index)
{
	*self = (struct session_self){.index = index};
	memset(self->cluster_key, 7, KEY_BYTES);
	memset(self->roster, 9, SESSION_ROSTER);
	snprintf(self->name, sizeof(self->name), "%s", name);
	randombytes_buf(&self->incarnation, sizeof(self->incarnation));
	self->address = (struct session_address){.bytes = {(uint8_t)(index + 1)}, .len = 1};
	session_self_init(self);
}

static void setup(void)
{
	cr_assert_geq(sodium_init(), 0);
	make_self(&self_a, "a", 0);
	make_self(&self_b, "b", 1);
	session_init(&a, &self_a, "b", 1);
	session_init(&b, &self_b, "a", 0);
}

TestSuite(session, .init = setup);

static enum session_news give(struct session *to, const struct session_frame *frame, struct session_frame *reply)
{
	return session_take(to, frame->bytes, frame->len, &taken, reply);
}

/* Keeps the three frames for whoever replays them. */
static void open_between(struct session *caller, struct session *callee, struct session_frame kept[3])
{
	struct session_frame none;
	session_call(caller, &kept[0]);
	cr_assert_eq(give(callee, &kept[0], &kept[1]), SESSION_ANSWERED);
	cr_assert_eq(give(caller, &kept[1], &kept[2]), SESSION_OPENED);
	cr_assert_eq(give(callee, &kept[2], &none), SESSION_OPENED);
	cr_assert_eq(none.len, 0u);
	cr_assert(a.up && b.up);
}

static struct session_frame sealed(struct session *from, const char *text)
{
	struct session_frame frame;
	session_seal(from, SESSION_DATA, text, strlen(text), &frame);
	return frame;
}

Test(session, both_are_up_after_three_frames_and_know_where_the_other_is_reached)
{
	struct session_frame kept[3], none;
	open_between(&b, &a, kept);
	cr_assert_eq(a.address.bytes[0], 2);
	cr_assert_eq(b.address.bytes[0], 1);
	for (int i = 0; i < 3; i++) {
		struct session_frame frame = sealed(&a, "to b"), back = sealed(&b, "to a!");
		cr_assert_eq(give(&b, &frame, &none), SESSION_TAKEN);
		cr_assert_eq(taken.kind, SESSION_DATA);
		cr_assert_eq(taken.len, 4u);
		cr_assert_arr_eq(taken.body, "to b", 4);
		cr_assert_eq(give(&a, &back, &none), SESSION_TAKEN);
		cr_assert_eq(taken.len, 5u);
	}
	cr_assert_eq(a.refused + b.refused, 0u);
}

Test(session, where_both_call_at_once_the_call_of_the_lower_index_counts)
{
	struct session_frame from_a, from_b, challenge, confirm, none;
	session_call(&a, &from_a);
	session_call(&b, &from_b);
	cr_assert_eq(give(&a, &from_b, &none), SESSION_IGNORED);
	cr_assert_eq(none.len, 0u);
	cr_assert_eq(give(&b, &from_a, &challenge), SESSION_ANSWERED);
	cr_assert_eq(give(&a, &challenge, &confirm), SESSION_OPENED);
	cr_assert_eq(give(&b, &confirm, &none), SESSION_OPENED);
}

Test(session, one_that_was_restarted_is_taken_and_what_it_sent_before_is_not)
{
	struct session_frame kept[3], again[3], none;
	open_between(&a, &b, kept);
	struct session_frame old = sealed(&a, "old");
	make_self(&self_a, "a", 0);
	session_init(&a, &self_a, "b", 1);
	open_between(&a, &b, again);
	cr_assert_eq(give(&b, &old, &none), SESSION_REFUSED);
	struct session_frame fresh = sealed(&a, "new");
	cr_assert_eq(give(&b, &fresh, &none), SESSION_TAKEN);
}

Test(session, no_replay_of_a_handshake_ends_a_session_or_gets_a_reply)
{
	struct session_frame kept[3], none;
	open_between(&a, &b, kept);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(give(&b, &kept[i], &none), SESSION_REFUSED);
		cr_assert_eq(none.len, 0u);
		cr_assert_eq(give(&a, &kept[i], &none), SESSION_REFUSED);
		cr_assert_eq(none.len, 0u);
	}
	struct session_frame frame = sealed(&a, "still here");
	cr_assert_eq(give(&b, &frame, &none), SESSION_TAKEN);
	cr_assert_eq(a.refused, 3u);
	cr_assert_eq(b.refused, 3u);
}

Test(session, a_call_that_is_replayed_to_a_daemon_begun_anew_opens_nothing)
{
	struct session_frame kept[3], reply, none;
	open_between(&a, &b, kept);
	make_self(&self_b, "b", 1);
	session_init(&b, &self_b, "a", 0);
	cr_assert_eq(give(&b, &kept[0], &reply), SESSION_ANSWERED, "it cannot know");
	cr_assert_eq(give(&a, &reply, &none), SESSION_REFUSED, "who has not called is not answered");
	cr_assert_eq(give(&b, &kept[2], &none), SESSION_REFUSED);
	cr_assert_not(b.up);
}

static void expect_silence(const char *what)
{
	struct session_frame hello, reply;
	session_call(&a, &hello);
	cr_assert_eq(give(&b, &hello, &reply), SESSION_REFUSED, "%s", what);
	cr_assert_eq(reply.len, 0u);
}

Test(session, another_key_another_roster_or_another_name_gets_no_reply)
{
	self_a.cluster_key[31] ^= 1;
	session_self_init(&self_a);
	expect_silence("key");
	make_self(&self_a, "a", 0);
	cr_assert_not(b.other_roster);
	self_a.roster[0] ^= 1;
	expect_silence("roster");
	cr_assert(b.other_roster);
	make_self(&self_a, "c", 0);
	expect_silence("name");
	make_self(&self_a, "a", 2);
	expect_silence("index");
	make_self(&self_a, "a", 0);
	session_init(&a, &self_a, "c", 1);
	expect_silence("for another");
	cr_assert_eq(b.refused, 5u);
}

/* As a daemon of the first protocol calls, which did not say which it speaks; and one of a later release, which says more. */
static void call_as(int protocol, struct session_frame *out)
{
	enum { LEN = sizeof(uint32_t), HELLO_LEN_AT = 6 };
	uint32_t word = htole32((uint32_t)protocol);
	session_call(&a, out);
	uint8_t *end = out->bytes + out->len - SESSION_TAG;
	end -= protocol == 1 ? LEN : 0;
	if (protocol != 1) {
		memcpy(end - LEN, &word, LEN);
		memcpy(end, &word, LEN);
		end += LEN;
	}
	uint16_t len = htole16((uint16_t)(end - out->bytes - SESSION_HEAD));
	memcpy(out->bytes + HELLO_LEN_AT, &len, sizeof(len));
	out->len = (size_t)(end - out->bytes) + SESSION_TAG;
	crypto_generichash(end, SESSION_TAG, out->bytes, out->len - SESSION_TAG, self_a.hello_key, KEY_BYTES);
}

Test(session, another_protocol_gets_no_reply_and_is_known)
{
	struct session_frame hello, reply;
	for (int protocol = 1; protocol <= SESSION_PROTOCOL + 1; protocol += SESSION_PROTOCOL) {
		call_as(protocol, &hello);
		cr_assert_eq(give(&b, &hello, &reply), SESSION_REFUSED);
		cr_expect(!reply.len && b.protocol == (uint32_t)protocol, "protocol %u", b.protocol);
	}
	session_call(&a, &hello);
	cr_assert_eq(give(&b, &hello, &reply), SESSION_ANSWERED);
	cr_expect_eq(b.protocol, SESSION_PROTOCOL);
}

/* ---- 100,000 frames that must not be taken ----------------------------------------------------------------------- */

enum { WRONG = 100000, GENUINE = 64 };

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Turns one of the genuine frames into one that must be refused. */
static struct session_frame spoil(const struct session_frame *genuine, unsigned way)
{
	struct session_frame f = *genuine;
	size_t at = next_random() % f.len;
	switch (way) {
	case 0: /* a bit is flipped */
		f.bytes[at] ^= (uint8_t)(1u << (next_random() % 8));
		break;
	case 1: /* cut */
		f.len = at;
		break;
	case 2: /* longer */
		f.bytes[f.len++] = (uint8_t)next_random();
		break;
	case 3: /* noise behind a right head */
		randombytes_buf(f.bytes + SESSION_HEAD, f.len - SESSION_HEAD);
		break;
	case 4: /* noise altogether */
		randombytes_buf(f.bytes, f.len);
		break;
	default: /* as it was: replayed, stale, or out of order */
		break;
	}
	return f;
}

Test(session, of_100000_wrong_replayed_reordered_and_stale_frames_none_is_taken)
{
	struct session_frame stale[3], kept[3], pool[3 * GENUINE + 6], reply;
	unsigned n = 0;
	open_between(&a, &b, stale);
	for (unsigned i = 0; i < GENUINE; i++)
		pool[n++] = sealed(&a, "of an earlier session");
	memcpy(&pool[n], stale, sizeof(stale));
	n += 3;
	session_end(&a);
	session_end(&b);
	open_between(&a, &b, kept);
	memcpy(&pool[n], kept, sizeof(kept));
	n += 3;
	for (unsigned i = 0; i < GENUINE; i++) {
		pool[n] = sealed(&a, "replayed");
		cr_assert_eq(give(&b, &pool[n++], &reply), SESSION_TAKEN);
	}
	sealed(&a, "one that is lost on the way");
	for (unsigned i = 0; i < GENUINE; i++)
		pool[n++] = sealed(&a, "before its turn");
	struct session before = b;
	for (unsigned i = 0; i < WRONG; i++) {
		struct session_frame frame = spoil(&pool[next_random() % n], i % 8);
		cr_assert_eq(give(&b, &frame, &reply), SESSION_REFUSED, "frame %u", i);
		cr_assert_eq(reply.len, 0u);
	}
	cr_assert_eq(b.refused, before.refused + WRONG);
	b.refused = before.refused;
	cr_assert_eq(memcmp(&b, &before, sizeof(b)), 0, "and nothing has changed");
}

Test(session, what_one_has_sent_oneself_is_not_taken_back)
{
	struct session_frame kept[3], reply;
	open_between(&a, &b, kept);
	struct session_frame own = sealed(&a, "mine");
	own.bytes[8] = 1; /* as if from b */
	cr_assert_eq(give(&a, &own, &reply), SESSION_REFUSED);
}

Test(session, the_sender_is_told_only_of_what_looks_like_a_frame)
{
	struct session_frame hello;
	uint32_t index = 7;
	session_call(&b, &hello);
	cr_assert_eq(session_sender(hello.bytes, hello.len, &index), 0);
	cr_assert_eq(index, 1u);
	cr_assert_eq(session_sender(hello.bytes, hello.len - 1, &index), -EBADMSG);
	cr_assert_eq(session_sender(hello.bytes, 3, &index), -EBADMSG);
	hello.bytes[0] ^= 1;
	cr_assert_eq(session_sender(hello.bytes, hello.len, &index), -EBADMSG);
}
