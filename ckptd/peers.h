/* Peers: the daemons of the other nodes of a cluster. What the net tells is given to whom it concerns here, by the type of the message. */
#ifndef CKPTD_PEERS_H
#define CKPTD_PEERS_H

#include "base/err.h"
#include "daemon.h"

/* Opens daemon->roster and daemon->net and has the loop watch them; without the setting `cluster` there are none. */
int peers_open(struct daemon *daemon, struct err *err);
/* Says goodbye to all. NULL nets are allowed. */
void peers_close(struct daemon *daemon);

#endif
