#include "remote/shell.h"

#include "frame/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The way there is noticed to be broken within a minute, which a connection that others share would not be, and nothing is asked at a
 * terminal. What the user's own logins forward or run there is for one at a time. */
#define SHELL_DEFAULT                                                                                                  \
	"ssh -T -o BatchMode=yes -o ControlPath=none -o ClearAllForwardings=yes -o RemoteCommand=none "                \
	"-o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=3"

int shell_read(const struct cli *cli, struct shell *shell)
{
	const char *text = cli_text(cli, "remote-shell");
	int n = 0;
	if (!text)
		text = getenv("CKPT_REMOTE_SHELL");
	*shell = (struct shell){.text = strdup(text && *text ? text : SHELL_DEFAULT)};
	if (!shell->text)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	for (char *rest = shell->text, *word; (word = strsep(&rest, " \t"));) {
		if (*word && n == SHELL_WORDS_MAX)
			return cli_fail(cli, EXIT_USAGE, "--remote-shell: more than %d words", SHELL_WORDS_MAX);
		if (*word)
			shell->words[n++] = word;
	}
	return n ? EXIT_OK : cli_fail(cli, EXIT_USAGE, "--remote-shell: no command");
}

void shell_free(struct shell *shell)
{
	free(shell->text);
	*shell = (struct shell){.text = NULL};
}

void shell_argv(const struct shell *shell, const char *host, char *line, char *argv[SHELL_WORDS_MAX + 3])
{
	int n = 0;
	for (; shell->words[n]; n++)
		argv[n] = shell->words[n];
	argv[n++] = (char *)host;
	argv[n++] = line;
	argv[n] = NULL;
}

bool shell_is_host(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@%[]";
	return *name && name[0] != '-' && strspn(name, letters) == strlen(name) && strlen(name) <= SHELL_HOST_MAX;
}

void shell_quote(struct wbuf *line, const char *word)
{
	wbuf_put(line, "'", 1);
	for (; *word; word++) {
		if (*word == '\'')
			wbuf_put(line, "'\\''", 4);
		else
			wbuf_put(line, word, 1);
	}
	wbuf_put(line, "' ", 2);
}

void shell_begin_line(struct wbuf *line, const char *directory)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "|| exit %d; exec ", SHELL_NOT_THERE);
	wbuf_put(line, "cd ", 3);
	shell_quote(line, directory);
	wbuf_put(line, text, (size_t)n);
}
