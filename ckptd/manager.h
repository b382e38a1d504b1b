/* The service manager (systemd), where the environment says that there is one. It is told when the daemon is ready, and that its
 * loop turns (watchdog); it opens the control socket (socket activation); and it holds the arenas, each under the name JOB/RANK,
 * so that a restarted ckptd gets its snapshots back though no process of the job lives (file descriptor store):
 *
 *   arena made or handed back ─ keep ─► store ─ ckptd dies or is restarted ─► passed to the next one ─ take
 *   arena replaced, job ended ─ drop ─► gone. The end of the daemon drops none.
 *
 * manager.c is built where libsystemd is, else manager_none.c. Messages are datagrams that nobody answers; the manager's queue
 * holds hundreds, and one is sent per arena and per quarter of the watchdog's time. Belongs to the loop's thread. Everything but
 * manager_open allows NULL: nobody manages this process. */
#ifndef CKPTD_MANAGER_H
#define CKPTD_MANAGER_H

#include "base/err.h"
#include "format/names.h"

#include <stdbool.h>

struct manager;

/* Takes the descriptors that were passed. *out NULL: there is no manager, or no libsystemd (logged). -EINVAL: a socket was passed that
 * cannot be the control socket. */
int manager_open(struct manager **out, struct err *err);
/* Closes what was not taken. */
void manager_free(struct manager *m);

/* The control socket, the caller's; -1: none was passed. */
int manager_take_socket(struct manager *m);
/* An arena that an earlier life had left there; fd is the caller's. False: no more. */
bool manager_take_arena(struct manager *m, char job[NAME_JOB_MAX], uint32_t *rank, int *fd);

/* Whether it is held now. */
bool manager_keep(struct manager *m, const char *job, uint32_t rank, int fd);
void manager_drop(struct manager *m, const char *job, uint32_t rank);

/* The socket listens, the store is open. */
void manager_ready(struct manager *m, const char *status);
void manager_stopping(struct manager *m);
/* The loop has turned; `now` as of clock_now(). Sends a keep-alive when one is due. */
void manager_turn(struct manager *m, uint64_t now);

#endif
