/* Session: how two daemons prove to each other that they hold the cluster key, and how their frames are sealed afterwards. Pure: bytes in,
 * bytes out; no clock, no sockets.
 *
 *	A                                                        B
 *	HELLO      names, roster, incarnation, nonce of A,
 *	           protocol                                ──►   answers only what bears the cluster key
 *	           ◄──  CHALLENGE  names, incarnation, nonces of both, where B's memory is reached
 *	CONFIRM    where A's memory is reached             ──►   up
 *	then both  DATA, BEAT, REVOKE, REVOKED, BYE
 *
 * HELLO is sealed with a key of the cluster; all else with keys that are derived from the cluster key, both nonces, both names and both
 * incarnations, one per direction, so that nothing of an earlier session, of another pair or of one's own is taken. Frames of a session are
 * numbered; each is taken once and in order. A HELLO that was answered before is not answered again. A session that stands is
 * replaced only when the new one is proved, so that no replay ends it. Where both call at once the call of the lower index counts.
 *
 * What is not taken changes nothing, gets no reply and is counted. */
#ifndef CKPTD_NET_SESSION_H
#define CKPTD_NET_SESSION_H

#include "base/err.h"
#include "cluster/net/key.h"
#include "format/tensor/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SESSION_FRAME_MAX = 4096,
	SESSION_HEAD = 20,
	SESSION_TAG = 16,
	SESSION_BODY_MAX = SESSION_FRAME_MAX - SESSION_HEAD - SESSION_TAG,
	SESSION_NONCE = 32,
	SESSION_ROSTER = 32,
	SESSION_ADDRESS_MAX = 64,
	SESSION_PROTOCOL =
		4, /* of the frames, and of what peers say in them: raised with every release in which a message has changed */
};

enum session_kind {
	SESSION_HELLO = 1,
	SESSION_CHALLENGE,
	SESSION_CONFIRM,
	SESSION_DATA,    /* a part of a message */
	SESSION_BEAT,    /* u64: DATA frames that were consumed */
	SESSION_REVOKE,  /* u64: a key of a region of the sender, which is not to be used any more */
	SESSION_REVOKED, /* u64: nothing of ours is on the way to it */
	SESSION_BYE,
	SESSION_KIND_END
};

struct session_address {
	uint8_t bytes[SESSION_ADDRESS_MAX];
	uint8_t len;
};

/* What all sessions of a daemon share. */
struct session_self {
	uint8_t cluster_key[KEY_BYTES], hello_key[KEY_BYTES];
	uint8_t roster[SESSION_ROSTER]; /* digest: who has another roster is not answered */
	char name[NAME_NODE_MAX];
	uint32_t index;
	uint64_t incarnation; /* random: another one is another process */
	struct session_address address;
};

struct session_keys {
	uint8_t send[KEY_BYTES], take[KEY_BYTES];
	uint64_t sent, taken; /* frames */
};

struct session {
	const struct session_self *self;
	const char *name; /* of the other */
	uint32_t index;
	bool up, calling, answered;
	uint64_t attempts;                         /* HELLOs that we sent */
	uint8_t nonce[SESSION_NONCE];              /* of our HELLO */
	uint64_t heard_incarnation, heard_attempt; /* of the last HELLO that was answered */
	struct session_keys keys, half;            /* half: CHALLENGE was sent */
	struct session_address address;            /* the other's, when up */
	uint64_t refused;
	bool other_roster; /* it holds the key, but its roster is not ours: somebody should be told */
	uint32_t protocol; /* the same, of its protocol; 0: it has not said any */
};

/* sodium_init() must have been called. Fills the keys in from cluster_key. */
void session_self_init(struct session_self *self);
void session_init(struct session *s, const struct session_self *self, const char *name, uint32_t index);

struct session_frame {
	uint8_t bytes[SESSION_FRAME_MAX];
	size_t len;
};

/* A new call; an earlier one counts no more. */
void session_call(struct session *s, struct session_frame *out);
/* Seals a frame of a session that is up; len at most SESSION_BODY_MAX. */
void session_seal(struct session *s, enum session_kind kind, const void *body, size_t len, struct session_frame *out);
/* The session is over; calls and answers on the way count no more. */
void session_end(struct session *s);

enum session_news {
	SESSION_REFUSED = 0, /* counted */
	SESSION_IGNORED,     /* genuine, but not needed: the other's call while ours counts */
	SESSION_ANSWERED,    /* reply must be sent */
	SESSION_OPENED,      /* up, where it was up before: anew. A reply must be sent if it has a length */
	SESSION_TAKEN,       /* kind, body, len: of a session that is up */
};

struct session_taken {
	enum session_kind kind;
	const uint8_t *body; /* in the frame */
	size_t len;
};

/* From whom a frame claims to be: an index, not checked. -EBADMSG: it is none. */
int session_sender(const void *frame, size_t len, uint32_t *index);
enum session_news session_take(struct session *s, const void *frame, size_t len, struct session_taken *taken,
			       struct session_frame *reply);

#endif
