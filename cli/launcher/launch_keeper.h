/* The daemon that `ckpt run` starts for itself, keeps alive, and stops at the end. It gets a private socket when none was named. A
 * daemon that dies is started again, more and more slowly, a bounded number of times; after that the training goes on without. */
#ifndef CKPT_CLI_LAUNCH_KEEPER_H
#define CKPT_CLI_LAUNCH_KEEPER_H

#include "frame/contact.h"
#include "launcher/launch_budget.h"
#include "process/launch_proc.h"

#include <limits.h>

enum { KEEPER_ARGS = 24 };

struct keeper {
	bool owned; /* false: somebody else's daemon */
	bool given_up;
	bool answered; /* it has been heard at that socket */
	char socket[CONTACT_PATH_MAX];
	char dir[CONTACT_PATH_MAX]; /* the private directory of the socket; "": none */
	const char *store;          /* the caller's; NULL: memory only, or not ours */
	char binary[PATH_MAX];
	char *argv[KEEPER_ARGS]; /* of ckptd; the strings are the caller's or the keeper's */
	struct proc proc;
	struct budget budget;
	struct streak streak;
	unsigned starts;
	uint64_t start_at; /* UINT64_MAX: not to be started */
	int status;        /* of the last that ended */
};

/* Makes the private directory for a socket, below XDG_RUNTIME_DIR, TMPDIR or /tmp, whichever serves. */
int keeper_private_socket(struct keeper *keeper, struct err *err);
/* It will start a daemon of its own: the ckptd beside this program, else the one in PATH. store NULL: memory only. */
void keeper_own(struct keeper *keeper, const char *store);
/* Starts it now. */
int keeper_start(struct keeper *keeper, char *const *env, struct err *err);
/* It has ended with this wait status: reaps it. `ready`: it had answered. False: it is not worth another try. */
bool keeper_ended(struct keeper *keeper, bool ready, uint64_t now);
/* Asks it to end, waits until the deadline, then kills it; removes its socket, and a private directory. */
void keeper_stop(struct keeper *keeper, uint64_t deadline);

#endif
