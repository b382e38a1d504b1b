/* Start-up: the store is opened and locked, what crashes left behind is moved out of the way, the catalog is brought in line. */
#ifndef CKPTD_STARTUP_H
#define CKPTD_STARTUP_H

#include "base/err.h"
#include "daemon.h"

/* Gives what is made in the store the permissions of store-mode where it lets others in, whatever the umask was; else nobody else
 * writes there. Before all threads, which share it. */
void startup_umask(const struct config *config);
/* Opens daemon->storage.disk, root, lock, catalog, gc. -EWOULDBLOCK: another daemon has the store. */
int startup_store(struct daemon *daemon, struct err *err);
/* Takes back the arenas that the service manager held. One that is refused is logged and lost. */
void startup_arenas(struct daemon *daemon);
void startup_close(struct daemon *daemon);

#endif
