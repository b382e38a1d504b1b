/* The hosts of a campaign: their names and addresses, and what is run there by a remote shell, in this directory, by this very program.
 *
 * hosts.c        their list           hosts_run.c   a process there, attended, and a question that is answered
 * hosts_check.c  before and after */
#ifndef CKPT_CLI_REMOTE_HOSTS_H
#define CKPT_CLI_REMOTE_HOSTS_H

#include "base/address.h"
#include "base/err.h"
#include "process/launch_proc.h"
#include "remote/shell.h"

#include <limits.h>

enum { HOSTS_MAX = 16, HOSTS_SOCKET_MAX = 64, HOSTS_TAG_MAX = 32, HOSTS_SAID_MAX = 16384 };

struct host {
	const char *name;          /* for the remote shell */
	char address[ADDRESS_MAX]; /* where the others reach it: a literal */
	unsigned port;             /* of its daemon; from hosts_check on */
	int64_t ahead_ns;          /* its time of day, of this machine's; from hosts_check on */
};

struct hosts {
	const struct cli *cli;
	struct shell shell;
	char *names, *here;
	char self[PATH_MAX], folder[PATH_MAX];
	char token[17]; /* of the campaign: it is on all hosts in the same folder */
	struct host host[HOSTS_MAX];
	uint32_t n; /* 0: the campaign is on this machine */
};

/* From --nodes HOST[=ADDRESS],… and --remote-shell; n is 0 where --nodes is not given. An exit code. */
int hosts_parse(const struct cli *cli, struct hosts *hosts);
void hosts_free(struct hosts *hosts);

/* The token of the folder, that is made where it is missing; then whether each host can be a node. An exit code: it names
 * the host, and says what to do. */
int hosts_check(struct hosts *hosts, const char *folder);
/* What is left of the campaign on the host, or how it came that this is not known: false, with the text. */
bool hosts_nothing_left(const struct hosts *hosts, uint32_t k, char *text, size_t size);

/* Of the daemon there; a path on the host. name: "s". Returns dst. */
char *hosts_socket(const struct hosts *hosts, uint32_t k, const char *name, char dst[HOSTS_SOCKET_MAX]);
/* In the folder: what the ranks there had mapped. Returns dst. */
char *hosts_memory(const struct hosts *hosts, uint32_t k, char dst[PATH_MAX]);
char *hosts_tag(const struct hosts *hosts, uint32_t k, char dst[HOSTS_TAG_MAX]);

/* A line for the remote shell: this program, and these words; tagged: as one of the campaign's that must not be left.
 * free() it. NULL: no memory. */
char *hosts_line(const struct hosts *hosts, uint32_t k, bool tagged, const char *const *words, size_t n);
/* Runs a command there until it ends; log: its stdout and stderr. alone: what a lost way to it means. *in: takes letters;
 * both as `host run` has them. */
int hosts_start(const struct hosts *hosts, uint32_t k, char alone, char *const *set, int nset, char *const *argv,
		int log, struct proc *proc, int *in, struct err *err);
/* A letter to it. */
void hosts_tell(int in, char letter);

/* The last line that this program says there, within the time; `beat` is called meanwhile, each second at least. The exit
 * status, or -errno: it is not known. The last line on stderr is in err. */
int hosts_ask(const struct hosts *hosts, uint32_t k, const char *const *words, size_t n, uint64_t within_ns,
	      void (*beat)(void *arg), void *arg, char said[HOSTS_SAID_MAX], struct err *err);

#endif
