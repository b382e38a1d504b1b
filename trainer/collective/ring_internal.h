/*
 * What the files of the ring share. Prototypes stand below the name of the file that owns them.
 */
#ifndef CKPT_TRAINER_RING_INTERNAL_H
#define CKPT_TRAINER_RING_INTERNAL_H

#include <stdbool.h>

#include "ckpt.h"
#include "collective/ring.h"
#include "collective/ring_wire.h"

enum { RING_STAGING_BYTES = 64 * 1024 };

enum ring_state {
	RING_LISTENING,
	RING_CONNECTED,
	RING_FAILED,
};

struct ring {
	enum ring_state state;
	int failure; /* -errno of the first failure */
	int listen_fd, previous_fd, next_fd;
	int cancel_fd; /* borrowed */
	int rank, world;
	uint64_t epoch, sequence;
	uint8_t nonce[RING_NONCE_SIZE];
	char address[RING_ADDRESS_SIZE];
	char error[RING_ERROR_SIZE];
	char *small;    /* world * RING_SMALL_BYTES, for ring_gather() and what is built on it */
	float *staging; /* RING_STAGING_BYTES of what is to be added */
};

/* Ranks around this one. */
static inline int ring_rank_at(const struct ring *r, int distance)
{
	return ((r->rank + distance) % r->world + r->world) % r->world;
}

/* --- ring.c --- */

/* Records the first failure (later ones are ignored), closes the connections, returns the failure's -errno. */
int ring_fail(struct ring *ring, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Closes a descriptor and marks it closed (-1). */
void ring_close(int *fd);

/* --- ring_address.c --- */

struct sockaddr_storage;

/* "host:port/nonce" or "[host]:port/nonce" into address[RING_ADDRESS_SIZE]; the socket address is AF_INET(6). */
void ring_address_format(const struct sockaddr_storage *socket_address, const uint8_t nonce[RING_NONCE_SIZE],
			 char *address);

/* The reverse. Returns 0 or -EINVAL. Bounded: reads at most RING_ADDRESS_SIZE bytes of text. */
int ring_address_parse(const char *address, struct sockaddr_storage *socket_address, uint8_t nonce[RING_NONCE_SIZE]);

/* A literal host and port 0 into a socket address. Returns 0, or -EINVAL for no literal or a wildcard. */
int ring_address_of_host(const char *host, struct sockaddr_storage *socket_address);

/* Bytes of a socket address of either family. */
unsigned int ring_address_length(const struct sockaddr_storage *socket_address);

/* --- ring_exchange.c --- */

/* One hop: what is sent to the next rank while something else comes from the previous one. */
struct ring_hop {
	enum ring_collective collective;
	ckpt_dtype dtype; /* of its elements; 0: it has none */
	unsigned int number;
	uint64_t total;
	const void *send;
	size_t send_bytes;
	void *receive;
	size_t receive_bytes;
	bool add; /* adds the received floats to `receive` instead of storing them */
};

/* Runs one hop to its end. 0 or the ring's failure. */
int ring_exchange(struct ring *ring, const struct ring_hop *hop, int64_t deadline);

#endif
