/* The lease, as arithmetic over time: what is to be asked of etcd next, and until when it certainly stands. Sends nothing.
 *
 *	none --granted--> held --renewed--> held        at a third of its time
 *	                  held --lapsed---> ended       its time, less the margin, is over, or etcd knows it no more
 *	ended --revoked-> none                          what stood under it is gone
 *
 * A lease whose grant was not answered has ended, too: it may stand. One at a time is asked for. */
#ifndef CKPTD_REGISTRY_LEASE_PRIVATE_H
#define CKPTD_REGISTRY_LEASE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

enum lease_state { LEASE_NONE, LEASE_HELD, LEASE_ENDED };
enum lease_want { LEASE_REST, LEASE_GRANT, LEASE_RENEW, LEASE_REVOKE };

struct lease {
	enum lease_state state;
	uint64_t ttl_s; /* asked for */
	uint64_t id;    /* not of LEASE_NONE */
	uint64_t until; /* LEASE_HELD: it certainly stands so long, margin taken off */
	uint64_t due;   /* when the next thing is to be asked */
	uint64_t gap;   /* between tries that fail */
	bool asked;     /* an answer is being waited for */
};

/* Rounded up to seconds. */
struct lease lease_begin(uint64_t lease_ns);
/* A tenth of the lease, at least 200 ms: for clocks that run at different speeds, and for what is under way when it ends. */
uint64_t lease_margin(uint64_t ttl_ns);

/* What is to be asked now; LEASE_REST while an answer is being waited for. */
enum lease_want lease_wants(const struct lease *l, uint64_t now);
/* When to look again. */
uint64_t lease_next(const struct lease *l);
/* It is being asked; with a grant, id is the one that is asked for. */
void lease_ask(struct lease *l, uint64_t id);

/* For how long it certainly stands. */
uint64_t lease_left(const struct lease *l, uint64_t now);
/* Its time is over: true once. What is still being asked about it does not count any more. */
bool lease_look(struct lease *l, uint64_t now);
/* etcd knows it no more. False: it was not held. */
bool lease_lost(struct lease *l, uint64_t now);

/* The answer to a grant or a renewal that was sent then. True: a grant, and it still stands. */
bool lease_answered(struct lease *l, uint64_t id, uint64_t ttl_ns, uint64_t sent, uint64_t now);
void lease_revoked(struct lease *l, uint64_t id, uint64_t now);
/* No answer, or a bad one. Tried again after a pause that grows. */
void lease_failed(struct lease *l, uint64_t id, uint64_t now);

#endif
