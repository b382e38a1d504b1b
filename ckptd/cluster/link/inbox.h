/* Inbox: messages put together from the DATA frames of a session. The first frame of a message begins with u16 type and
 * u32 length of the body; the others are bytes. Pure. */
#ifndef CKPTD_LINK_INBOX_H
#define CKPTD_LINK_INBOX_H

#include <stddef.h>
#include <stdint.h>

enum { INBOX_HEAD = 6 };

struct inbox {
	uint8_t *body; /* NULL: no message has begun */
	size_t len, have;
	uint16_t type;
	unsigned frames; /* of the message that was begun */
};

void inbox_clear(struct inbox *in);
/* 1: a message is whole, body is the caller's to take (steal_ptr) or to clear. 0: more must come. -EBADMSG: longer than
 * it said, or than a message may be; -ENOMEM. */
int inbox_take(struct inbox *in, const uint8_t *part, size_t len);

/* The first bytes of a message. */
void inbox_write_head(uint8_t dst[INBOX_HEAD], uint16_t type, size_t len);

#endif
