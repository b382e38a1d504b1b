/* Member: what the registry keeps of a node of an open roster, under cluster/NAME: for ever, until somebody has it
 * removed. Two lines of text:
 *
 *	1 NUMBER INCARNATION SINCE     version; decimal; of the daemon that joined last, 16 digits in hexadecimal; ms since the Unix epoch
 *	NAME HOST:PORT [rack=R] [switch=S]
 *
 * The host is a literal address. Pure. */
#ifndef CKPTD_CLUSTER_MEMBER_H
#define CKPTD_CLUSTER_MEMBER_H

#include "cluster/roster.h"

enum { MEMBER_TEXT_MAX = 768 };

struct member {
	uint32_t number;
	uint64_t since_ms;
	struct roster_node node; /* with its incarnation */
};

/* Returns the length. */
size_t member_encode(const struct member *member, char text[MEMBER_TEXT_MAX]);
/* name: of the key. -EINVAL: the sentence says what is wrong. */
int member_decode(const char *name, const void *text, size_t len, struct member *out, struct err *err);

#endif
