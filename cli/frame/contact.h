/* How a command reaches the daemon: where its socket is, the greeting, and one question. */
#ifndef CKPT_CLI_CONTACT_H
#define CKPT_CLI_CONTACT_H

#include "base/channel.h"
#include "base/err.h"
#include "format/message/wire.h"
#include "frame/output.h"

enum { CONTACT_PATH_MAX = 108 }; /* sockaddr_un */

#define CONTACT_SOCKET_OPTION                                                                                          \
	{                                                                                                              \
		"socket", OPTION_TEXT, "PATH",                                                                         \
			"the daemon's socket (else CKPT_SOCKET, $XDG_RUNTIME_DIR/ckptd.sock, /run/ckptd.sock)"         \
	}
#define CONTACT_USER_OPTION                                                                                            \
	{                                                                                                              \
		"user", OPTION_TEXT, "NAME", "of a service for all users, for root: this user's part"                  \
	}
#define CONTACT_TIMEOUT_OPTION                                                                                         \
	{                                                                                                              \
		"timeout", OPTION_TEXT, "TIME", "how long the daemon may take to answer (default 5s)"                  \
	}

/* `option`, else CKPT_SOCKET, else $XDG_RUNTIME_DIR/ckptd.sock, else /run/ckptd.sock, which is that of the service for all users: also
 * where there is a runtime directory and no such socket in it. -ENAMETOOLONG. */
int contact_path(const char *option, char dst[CONTACT_PATH_MAX], struct err *err);

/* Connects and sends HELLO; the socket, or -errno. version and protocol are filled in. */
int contact_hello(const char *path, const struct wire_hello *hello, uint64_t deadline, struct err *err);
/* The answer to HELLO: WELCOME, or the code and sentence of an ERROR. */
int contact_welcome(const struct frame *frame, struct wire_welcome *welcome, struct err *err);

/* `user`: whose part of a service for all users is meant; NULL: one's own; root alone may name another. */

/* One question to a daemon, as an observer: the document of its state, of a schema that is known; to be released. NULL where it fails.
 * -ENOENT, -ECONNREFUSED, …: nobody answers; -EBADMSG: the answer is not understood. */
int contact_status(const char *path, const char *user, uint64_t deadline, json_t **doc, struct err *err);
/* What --timeout says. An exit code. */
int contact_timeout(const struct cli *cli, uint64_t *ms);
/* Asks the daemon to do something with a job. An error with *refused set is the daemon's own answer, else nobody answers. */
int contact_command(const char *path, const char *user, const struct wire_command *command, uint64_t deadline,
		    struct wire_answer *answer, bool *refused, struct err *err);

#endif
