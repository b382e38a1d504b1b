/* The service manager (systemd), where the environment says that there is one. It is told when the daemon is ready, and
 * that its loop turns (watchdog). It opens the control socket (socket activation). It holds the arenas, each under the
 * name JOB/RANK. So a restarted ckptd gets its snapshots back, although no process of the job lives (file descriptor
 * store):
 *
 *   arena made or handed back ─ keep ─► store ─ ckptd dies or is restarted ─► passed to the next one ─ take
 *   arena replaced, job ended ─ drop ─► gone. The end of the daemon drops none.
 *
 * In a system service the manager of a user's worker is the warden (system/warden.h). It holds arenas as systemd does. It
 * passes one connection after the other instead of a socket that listens. It divides memory and bandwidth among the
 * users.
 *
 * service/service_manager_systemd.c is built where libsystemd is, else service/service_manager_none.c. Messages are
 * datagrams that nobody answers; the manager's queue holds hundreds, and one is sent per arena and per quarter of the
 * watchdog's time. Belongs to the loop's thread. Everything but manager_open allows NULL: nobody manages this process. */
#ifndef CKPTD_SERVICE_SERVICE_MANAGER_H
#define CKPTD_SERVICE_SERVICE_MANAGER_H

#include "base/err.h"
#include "format/tensor/names.h"

#include <stdbool.h>

struct config;
struct manager;

/* Takes the descriptors that were passed. *out NULL: there is no manager, or no libsystemd (logged). -EINVAL: a socket
 * was passed that cannot be the control socket. */
int manager_open(struct manager **out, struct err *err);
/* Closes what was not taken. */
void manager_free(struct manager *m);

/* The control socket, the caller's; -1: none was passed. */
int manager_take_socket(struct manager *m);
/* The next connection at that socket, or at one of the caller's own; or -errno. -EPIPE: the manager wants this process to
 * end. */
int manager_accept(struct manager *m, int listener);
/* An arena that an earlier incarnation had left there; fd is the caller's. False: no more. */
bool manager_take_arena(struct manager *m, char job[NAME_JOB_MAX], uint32_t *rank, int *fd);

/* Whether it is held now. */
bool manager_keep(struct manager *m, const char *job, uint32_t rank, int fd);
void manager_drop(struct manager *m, const char *job, uint32_t rank);
/* Whether it is JOB/RANK, and nothing else. */
bool manager_names_arena(const char *name);
/* The same by names of any other form, which must be of the letters of such names; the name is the caller's to free. */
bool manager_take_named(struct manager *m, char **name, int *fd);
bool manager_keep_named(struct manager *m, const char *name, int fd);
void manager_drop_named(struct manager *m, const char *name);

/* The socket listens, the store is open. */
void manager_ready(struct manager *m, const char *status);
void manager_stopping(struct manager *m);
/* The loop has turned; `now` as of clock_now(). Sends a keep-alive when one is due. */
void manager_turn(struct manager *m, uint64_t now);

/* Whether this process serves one user of a system service. */
bool manager_is_worker(void);
/* Asks for memory, `bytes` in all. -ENOMEM, with the arithmetic; 0 where nobody divides it. */
int manager_reserve(struct manager *m, uint64_t bytes, struct err *err);
/* So much is in use: what was reserved beyond is given back. Busy: there are jobs, connections or work; else it may be
 * ended. */
void manager_used(struct manager *m, uint64_t bytes, bool busy, uint64_t now);
/* Puts the limits that the manager sets into config. False: it sets none. */
bool manager_limit(const struct manager *m, struct config *config);

#endif
