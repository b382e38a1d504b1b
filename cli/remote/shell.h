/* The remote shell: what runs a command on another machine. It is called with the host and one command, which is for a
 * POSIX shell. It passes stdin, stdout and stderr on. It ends with the status of the command, or with SHELL_BROKE when
 * the connection broke. */
#ifndef CKPT_CLI_REMOTE_SHELL_H
#define CKPT_CLI_REMOTE_SHELL_H

#include "frame/command.h"

#include "base/bytes.h"

enum { SHELL_WORDS_MAX = 32, SHELL_HOST_MAX = 255 };
/* What a remote shell ends with where the directory is not there; POSIX shells say so of a program that is not, or cannot
 * be run. */
enum { SHELL_NOT_THERE = 127, SHELL_CANNOT = 126, SHELL_BROKE = 255 };

struct shell {
	char *text;                       /* of its words */
	char *words[SHELL_WORDS_MAX + 1]; /* NULL behind the last */
};

/* From --remote-shell, else CKPT_REMOTE_SHELL, else ssh; an exit code. */
int shell_read(const struct cli *cli, struct shell *shell);
void shell_free(struct shell *shell);
/* Its words, the host and the line, as an argv. */
void shell_argv(const struct shell *shell, const char *host, char *line, char *argv[SHELL_WORDS_MAX + 3]);

/* Neither an option to the remote shell, nor anything that another shell would read otherwise. */
bool shell_is_host(const char *name);
/* A word in single quotes, whatever is in it, and a blank. */
void shell_quote(struct wbuf *line, const char *word);
/* That goes to the directory and begins to become what follows. */
void shell_begin_line(struct wbuf *line, const char *directory);

#endif
