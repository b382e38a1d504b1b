/*
 * What travels between two neighbours of a ring. Layout only.
 *
 *   rank r (connects)                    rank r + 1 (listens)
 *        |  ring_hello                          |
 *        | -----------------------------------> |  judges it
 *        |                          ring_reply  |
 *        | <----------------------------------- |  closes unless RING_ACCEPTED
 *        |  ring_message, payload               |
 *        | -----------------------------------> |  one per hop, until the end
 *
 * Integers are in the machine's byte order: a peer of the other order fails the check of the magic number.
 */
#ifndef CKPT_TRAINER_RING_WIRE_H
#define CKPT_TRAINER_RING_WIRE_H

#include <stdint.h>

#define RING_MAGIC UINT32_C(0x52494e47)
#define RING_VERSION 2

enum { RING_NONCE_SIZE = 16 };

struct ring_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t zero;
	uint32_t rank, world; /* of the sender */
	uint64_t epoch;
	uint8_t nonce[RING_NONCE_SIZE]; /* from the listener's address: proves that it is meant */
};
_Static_assert(sizeof(struct ring_hello) == 40, "no padding");

enum ring_outcome {
	RING_ACCEPTED,
	RING_OTHER_EPOCH,
	RING_OTHER_LISTENER, /* the nonce is not this listener's */
	RING_NOT_NEIGHBOUR,  /* the sender is not the rank before this one, or counts another world */
};

struct ring_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t outcome;     /* enum ring_outcome */
	uint32_t rank, world; /* of the listener */
	uint64_t epoch;
};
_Static_assert(sizeof(struct ring_reply) == 24, "no padding");

enum ring_collective {
	RING_ALL_REDUCE = 1,
	RING_REDUCE_SCATTER,
	RING_ALL_GATHER,
	RING_GATHER,
	RING_BARRIER,
	RING_COLLECTIVES,
};

/* Before each payload. All but `bytes` is the same on all ranks, so the receiver knows every field beforehand. */
struct ring_message {
	uint32_t magic;
	uint8_t collective; /* enum ring_collective */
	uint8_t dtype;      /* ckpt_dtype of its elements; 0: it has none */
	uint16_t hop;       /* counts from 0 within the collective */
	uint64_t sequence;  /* of the collective, from 1 */
	uint64_t total;     /* bytes of the whole collective, as its caller sees it */
	uint64_t bytes;     /* of the payload that follows */
};
_Static_assert(sizeof(struct ring_message) == 32, "no padding");

#endif
