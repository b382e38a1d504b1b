/* `ckpt host WHAT …`: the parts of `ckpt campaign --nodes HOSTS` that are on a host, each behind a remote shell of its own. */
#ifndef CKPT_CLI_REMOTE_HOST_H
#define CKPT_CLI_REMOTE_HOST_H

#include "ckpt.h"
#include "frame/command.h"

/* Every process of a campaign on a host has it in its environment: by it those that are left are found. */
#define HOST_TAG "CAMPAIGN_ON_HOST"

/* attend.c: TAG ALONE MEMORY [NAME=VALUE…] COMMAND [ARG…]. Runs the command, and reads letters on stdin: T, I and K are SIGTERM,
 * SIGINT and SIGKILL to it, a dot says that somebody is there. N: what the processes with the tag have mapped is put into
 * the file MEMORY (left_memory.h). It is left alone by the end of stdin, or by
 * HOST_SILENCE_NS without a letter: that is as the letter ALONE, and later SIGKILL. Ends when all processes below it have
 * ended, with the status of the command, or with 128 and the signal. */
int host_run(struct cli *cli);
#define HOST_SILENCE_NS (300 * CLOCK_NS_PER_S)

/* bridge_ends.c: SOCKET. Carries what stdin has for the daemon there, and the daemon's answers to stdout. Ends, too, when
 * neither has had anything for HOST_SILENCE_NS: of a way that is cut silently nobody hears. */
int host_bridge(struct cli *cli);
/* bridge_ends.c: SOCKET COMMAND [ARG…]. The other end, on this machine: listens there, and reaches the first end by the command. */
int host_serve(struct cli *cli);

/* look.c: DIR TOKEN ADDRESS TAG. Whether this host can be a node; prints version, port and time. */
int host_check(struct cli *cli);
/* look.c: TAG SOCKET MEMORY. Prints what is left of the campaign on this host; EXIT_PARTIAL: something is. */
int host_left(struct cli *cli);
/* look.c: for each process that has the tag. */
void host_each_tagged(const char *tag, void (*each)(void *arg, const char *pid), void *arg);

#define HOST_TEXT2(x) #x
#define HOST_TEXT(x) HOST_TEXT2(x)
#define HOST_VERSION HOST_TEXT(CKPT_VERSION_MAJOR) "." HOST_TEXT(CKPT_VERSION_MINOR) "." HOST_TEXT(CKPT_VERSION_PATCH)
/* What `host check` has to say. */
#define HOST_CHECK_FORMAT "ckpt %s, port %u, time %llu\n"
#define HOST_CHECK_SCAN "ckpt %31[^,], port %u, time %llu"
/* DIR has it, with the token. */
#define HOST_TOKEN_FILE "hosts"

#endif
