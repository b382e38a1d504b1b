/* Peers: the daemons of the other nodes of a cluster. What the net tells is given to whom it concerns here, by the type of the message. */
#ifndef CKPTD_PEERS_H
#define CKPTD_PEERS_H

#include "base/err.h"
#include "daemon.h"

#include <stdint.h>

/* Opens daemon->roster and daemon->net and has the loop watch them; without the setting `cluster` there are none. */
int peers_open(struct daemon *daemon, struct err *err);
/* To be called now and then: says what the net only counts. */
void peers_tick(struct daemon *daemon, uint64_t now);
/* Says goodbye to all. NULL nets are allowed. */
void peers_close(struct daemon *daemon);

#endif
