/* Messages between daemons: the numbers of their types, which share one space. What the coordinator says is below PEER_OFFER; from there on
 * stands what replicas need (peer_replica.h). */
#ifndef CKPT_FORMAT_PEER_H
#define CKPT_FORMAT_PEER_H

enum peer_type {
	PEER_OFFER = 64,
	PEER_TICKET,
	PEER_SEAL,
	PEER_HELD,
	PEER_REFUSED,
	PEER_FETCH,
	PEER_SOURCE,
	PEER_RELEASE,
	PEER_FORGET,
	PEER_SURVEY,
	PEER_HOLDINGS,
	PEER_TYPE_END
};

#endif
