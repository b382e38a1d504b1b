/* What flush, halt and drain share: they ask the daemon to do something with a job, and watch the job until it is done. */
#ifndef CKPT_CLI_ORDER_H
#define CKPT_CLI_ORDER_H

#include "frame/contact.h"
#include "frame/output.h"

#define ORDER_OPTIONS                                                                                                  \
	{"job", OPTION_TEXT, "NAME", "the job (else CKPT_JOB; else the only one of the daemon)"},                      \
		CONTACT_SOCKET_OPTION, CONTACT_USER_OPTION

/* Gives the order to the daemon of --socket, for the job of --job. EXIT_NO_DAEMON, EXIT_FAILED with the daemon's reason. */
int order_give(const struct cli *cli, const struct wire_command *what, struct wire_answer *answer);
/* The same once more, of the job that was answered: nothing is said, and the reason is left in *err. 0, the daemon's
 * -errno, or with *gone that nobody answers. */
int order_again(const struct cli *cli, const struct wire_command *what, struct wire_answer *answer, bool *gone,
		struct err *err);

/* The document of the daemon; owned by the caller. NULL: it does not answer (not said). */
json_t *order_look(const struct cli *cli);
/* The same. -errno: why there is none; -ENOENT: there is no socket. */
int order_ask(const struct cli *cli, json_t **doc, struct err *err);
/* The job in it; borrowed. NULL: the daemon has none of that name. */
const json_t *order_job(const json_t *doc, const char *name);

/* Step and epoch of what it tells of. */
struct step_id order_id(const json_t *object);
/* Why a snapshot of the job will never be durable, nor what it gave way to; borrowed. NULL: that may still be. */
const char *order_failure(const json_t *job, struct step_id id);
/* Nothing is to be written here: the node that decides it, another one, has not said so yet, or has nothing. */
bool order_idle(const json_t *job);

/* Waits a moment before the next look. -ECANCELED: the user wants to stop; -ETIMEDOUT: the deadline has passed. */
int order_pause(uint64_t deadline);

#endif
