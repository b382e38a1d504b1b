/* Warden: the one process of a system service that runs as root. It listens on one socket for all users, looks who
 * connects (SO_PEERCRED), and hands the connection to the worker of that user, which it makes on demand (users.h). It
 * reads nothing that a client sends, but root; holds for each worker the descriptors of its arenas; and divides what the
 * node has once (ledger.h). It has no store and no jobs.
 *
 *   rank of ann ── connect ──►  warden (root) ── the connection ──►  worker of ann: ckptd, as ann, with ann's store
 *   rank of bob ── connect ──►                ── the connection ──►  worker of bob
 *
 * When it ends, or is killed, the workers see the end of their stream, finish what they write, and end. Ranks train on,
 * as they do without a daemon, and find the workers of the next warden. */
#ifndef CKPTD_SYSTEM_WARDEN_H
#define CKPTD_SYSTEM_WARDEN_H

#include "config/sources.h"

/* Serves until a signal; the exit status. `sources` are taken over. */
int warden_run(int argc, char **argv, struct sources *sources);

#endif
