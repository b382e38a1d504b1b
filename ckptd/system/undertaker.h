/* Undertaker: where descriptors that a user has, or had, are closed.
 *
 * A user can make a close wait. They send a TCP socket that lingers, or a file of a file system that they serve
 * themselves, into a connection to us. When the last holder closes that connection, the kernel closes what is queued in
 * it, and that holder waits: for minutes, if the user likes. And the last holder of a large arena frees its pages. So the
 * warden closes nothing of the kind. It hands it to a child without privileges, which keeps it for a moment (so that ours
 * is never the last one) and closes it. A child that does not get on is killed, and another made: a process that ends
 * does not linger.
 *
 * The moment also lets a client whom the warden refuses read why. */
#ifndef CKPTD_SYSTEM_UNDERTAKER_H
#define CKPTD_SYSTEM_UNDERTAKER_H

#include "base/err.h"

#include <sys/types.h>

struct undertaker {
	int sock; /* -1: there is no child */
	pid_t pid;
	pid_t strays[16]; /* killed, and not gone yet */
	unsigned nstrays;
};

void undertaker_init(struct undertaker *u);
/* Takes over the descriptor. */
void undertaker_bury(struct undertaker *u, int fd);
/* Waits for children that were killed; every second or so. */
void undertaker_tick(struct undertaker *u);
void undertaker_free(struct undertaker *u);

#endif
