/* Guests: connections of root. Root may look at the service as a whole, or, with USER as the first word, be put through
 * to the worker of a user. The warden reads no other client. */
#ifndef CKPTD_SYSTEM_GUESTS_H
#define CKPTD_SYSTEM_GUESTS_H

#include "users.h"

enum { GUESTS_MAX = 16, GUEST_MS = 5000 };

struct guest;

struct guests {
	struct users *users;
	uint64_t started_ns;
	struct guest *all[GUESTS_MAX];
};

/* Takes over the connection. */
void guests_add(struct guests *guests, int sock);
/* Those that have said nothing for too long go. */
void guests_tick(struct guests *guests);
void guests_free(struct guests *guests);

#endif
