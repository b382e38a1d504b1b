/* Messages between daemons that ask whether nodes reach each other (ckptd/control/election/reach.h). Little-endian fields
 * (base/bytes.h). The encode function appends and returns 0 or -ENOMEM; the decode function checks everything that can be
 * checked without knowing the cluster: -EBADMSG says which message and why.
 *
 *	coordinator ── REACH_ASK ──► a node ── REACH_PING ──► each of the nodes that are named
 *	            ◄─ REACH_ANSWER ─       ◄─ REACH_PONG ── */
#ifndef CKPT_FORMAT_PEER_REACH_H
#define CKPT_FORMAT_PEER_REACH_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/message/peer.h"
#include "format/tensor/names.h"

enum { PEER_REACH_NODES = 1024 /* that are named in one question */ };

struct peer_reach {
	enum peer_type type;
	uint64_t number;                  /* who asks has given it; the answer has the same */
	char job[NAME_JOB_MAX];           /* ASK: of the coordinator that asks */
	uint32_t n;                       /* ASK */
	uint32_t nodes[PEER_REACH_NODES]; /* ASK: in the roster */
	bool all; /* ANSWER: it has part in the job, and has heard each of them since it was asked */
};

int peer_reach_encode(const struct peer_reach *m, struct wbuf *out);
int peer_reach_decode(uint16_t type, const void *body, size_t len, struct peer_reach *m, struct err *err);
/* "REACH_ASK"; "?" for what is not in this file. */
const char *peer_reach_name(uint16_t type);

#endif
