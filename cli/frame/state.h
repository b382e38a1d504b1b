/* State: what the daemon of this node says of itself: the document of ckpt status --json, of one user's part. */
#ifndef CKPT_CLI_STATE_H
#define CKPT_CLI_STATE_H

#include "frame/contact.h"
#include "frame/output.h"

/* Whom to ask, as the options --socket and --user say. */
struct state_of {
	char path[CONTACT_PATH_MAX];
	const char *user;
	uint64_t answer_ns; /* how long it may take to answer */
};

/* An exit code, with a message if it is not EXIT_OK. */
int state_of(const struct cli *cli, uint64_t answer_ns, struct state_of *of);
/* EXIT_OK: *doc is the document, the caller's; else an exit code, and the sentence in *err. */
int state_ask(const struct state_of *of, json_t **doc, struct err *err);
/* The same; of a service for all users it may be the list of them. */
int state_ask_any(const struct state_of *of, json_t **doc, struct err *err);

#endif
