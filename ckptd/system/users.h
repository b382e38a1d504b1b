/* Users: all users of a system service. What a user does counts against that user alone. Each has a bounded number of
 * waiting connections, of held arenas and of lines in the log, and a worker of their own that answers them. */
#ifndef CKPTD_SYSTEM_USERS_H
#define CKPTD_SYSTEM_USERS_H

#include "ledger.h"
#include "undertaker.h"
#include "user.h"

struct loop;
struct manager;

struct users {
	struct list list;
	unsigned count;
	struct config config;
	struct sources *sources;
	struct loop *loop;
	struct manager *manager; /* holds the arenas, too; NULL: nobody manages this process */
	struct undertaker undertaker;
	struct confine confine;
	int argc;
	char **argv;
	bool stopping;
};

/* config, sources, loop, manager, confine, argc and argv are set by the caller. */
void users_init(struct users *users);
/* A connection of that user; taken over. */
void users_connection(struct users *users, uid_t uid, int sock);
/* A connection of root to that user's worker; taken over on 0. -ENOENT: that user has none; the sentence names those who have one. */
int users_visit(struct users *users, const char *name, int sock, struct err *err);
/* Arenas that the manager had held. */
void users_retake(struct users *users);
/* Deadlines, pauses; some times a second. False while there is nothing to wait for. */
bool users_tick(struct users *users);
/* The configuration was read anew. */
void users_reload(struct users *users);
/* All workers are told to end. */
void users_stop(struct users *users);
bool users_alive(const struct users *users);
/* Those that have not ended are killed. */
void users_free(struct users *users);

/* ---- for the parts of this ---- */

/* An ERROR to who has just connected; the connection is taken over. */
void users_refuse(struct users *users, int sock, int rc, const char *text);
/* A line of the log about the user, one a second at most. */
void users_note(struct user *user, const char *text);
/* held.c; the descriptor is taken over */
void held_keep(struct user *user, const char *name, int fd);
void held_drop(struct user *user, const char *name);
void held_drop_all(struct user *user);
/* worker.c */
void worker_start(struct user *user);
void worker_end(struct user *user);
/* The arenas that are held, as far as the worker takes them; again from a tick until user->begun. */
void worker_give(struct user *user);
/* All connections that wait. */
void worker_pass(struct user *user);
void worker_send_limits(struct users *users);

#endif
