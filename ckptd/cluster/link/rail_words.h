/* Rail words: what the ends of a rail say when they connect, so that each knows that the other one is of the session.
 * They are: u32 the speaker's index in the roster; u64 the number of the call, in this session and direction; a token of
 * the session's link, which only both ends know. The same words never count twice. Pure. */
#ifndef CKPTD_LINK_RAIL_WORDS_H
#define CKPTD_LINK_RAIL_WORDS_H

#include "cluster/link/link.h"

#include <stdint.h>

enum { RAIL_WORDS = 12 + LINK_TOKEN };

struct rail_words {
	uint32_t speaker;
	uint64_t call;
	uint8_t token[LINK_TOKEN];
};

/* false: no memory. */
bool rail_words_say(const struct link *session, uint32_t speaker, uint64_t call, uint8_t out[RAIL_WORDS]);
/* -EBADMSG. Nothing in them is proved. */
int rail_words_decode(const void *words, size_t len, struct rail_words *out);
bool rail_words_proved(const struct link *session, const struct rail_words *words);

#endif
