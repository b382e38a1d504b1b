/* Frame: what goes over a link, in both directions: u16 kind, u16 length of the body, the body. A link keeps them whole, in order and
 * secret (link.h). */
#ifndef CKPTD_LINK_FRAME_H
#define CKPTD_LINK_FRAME_H

#include <stdint.h>

enum { FRAME_BODY_MAX = 4096, FRAME_HEAD = 4 };

enum frame_kind {
	FRAME_HELLO = 1, /* hello.h: the first of each side, and nothing else before it */
	FRAME_DATA,      /* a part of a message: inbox.h */
	FRAME_BEAT,      /* u64: DATA frames that were consumed */
	FRAME_REVOKE,    /* u64: a key of a region of the sender, which is not to be used any more */
	FRAME_REVOKED,   /* u64: nothing of ours is on the way to it */
	FRAME_BYE,       /* u64: 0 */
	FRAME_LANE,      /* lane.h: in place of a hello */
	FRAME_ASK,       /* u64: as of a beat, which is to be the answer */
	FRAME_DOUBT,     /* rumours.h: a node does not answer; a beat is to be the answer to it, too */
	FRAME_CLOCK_ASK, /* u64: 0; a clock is to be the answer, at once, and no second question before it */
	FRAME_CLOCK,     /* u64: the sender's time of day, nanoseconds since the Unix epoch */
	FRAME_LOST,      /* rumours.h: a node is lost to another one */
	FRAME_PARK,      /* parking.h; u64: 0 */
	FRAME_STAY,      /* u64: 0: the answer to it, unless that is the same */
	FRAME_KIND_END
};

struct frame {
	enum frame_kind kind;
	uint16_t len;
	uint8_t body[FRAME_BODY_MAX];
};

#endif
