#include "remote/hosts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "remote/host.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

char *hosts_line(const struct hosts *h, uint32_t k, bool tagged, const char *const *words, size_t n)
{
	struct wbuf line = {0};
	char tag[HOSTS_TAG_MAX], text[HOSTS_TAG_MAX + 32];
	shell_begin_line(&line, h->here);
	if (tagged)
		wbuf_put(&line, text,
			 (size_t)snprintf(text, sizeof(text), "env " HOST_TAG "=%s ", hosts_tag(h, k, tag)));
	shell_quote(&line, h->self);
	for (size_t i = 0; i < n; i++)
		shell_quote(&line, words[i]);
	wbuf_put(&line, "", 1);
	if (!wbuf_finish(&line))
		return (char *)line.data;
	wbuf_free(&line);
	return NULL;
}

static int start(const struct hosts *h, uint32_t k, char *line, int in, int out, int errors, struct proc *proc,
		 struct err *err)
{
	char *argv[SHELL_WORDS_MAX + 3];
	if (!line)
		return err_set(err, -ENOMEM, "out of memory");
	shell_argv(&h->shell, h->host[k].name, line, argv);
	struct proc_spec spec = {
		.argv = argv, .env = environ, .in = in, .out = out, .err = errors, .death_signal = SIGTERM};
	return proc_start(proc, &spec, err);
}

int hosts_start(const struct hosts *h, uint32_t k, char alone, char *const *set, int nset, char *const *argv, int log,
		struct proc *proc, int *in, struct err *err)
{
	enum { WORDS_MAX = 96 };
	const char *words[WORDS_MAX];
	char tag[HOSTS_TAG_MAX], memory[PATH_MAX], letter[2] = {alone};
	size_t n = 0;
	int ends[2];
	words[n++] = "host";
	words[n++] = "run";
	words[n++] = hosts_tag(h, k, tag);
	words[n++] = letter;
	words[n++] = hosts_memory(h, k, memory);
	for (int i = 0; i < nset; i++)
		words[n++] = set[i];
	for (int i = 0; argv[i] && n < WORDS_MAX; i++)
		words[n++] = argv[i];
	AUTO_FREE char *line = hosts_line(h, k, true, words, n);
	if (pipe2(ends, O_CLOEXEC))
		return err_set(err, -errno, "pipe: %s", err_name(errno));
	AUTO_CLOSE int from = ends[0], to = ends[1];
	int rc = start(h, k, line, from, log, log, proc, err);
	if (rc)
		return rc;
	fcntl(to, F_SETFL, O_NONBLOCK);
	*in = steal_fd(&to);
	return 0;
}

void hosts_tell(int in, char letter)
{
	/* A pipe that is full of letters needs no more of them. */
	ssize_t ignored = in < 0 ? 0 : write(in, &letter, 1);
	(void)ignored;
}

/* ---- questions ----------------------------------------------------------------------------------------------------- */

static void await(struct proc *proc, uint64_t deadline, void (*beat)(void *arg), void *arg)
{
	enum { BEAT_MS = 1000 };
	struct pollfd p = {.fd = proc->pidfd, .events = POLLIN};
	siginfo_t info = {.si_pid = 0};
	pid_t pid = proc->pid;
	while (!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid) {
		if (clock_now() >= deadline)
			proc_signal(proc, SIGKILL);
		if (beat)
			beat(arg);
		poll(&p, 1, p.fd < 0 ? 10 : BEAT_MS);
	}
}

static void read_all(int fd, char said[HOSTS_SAID_MAX])
{
	ssize_t n = pread(fd, said, HOSTS_SAID_MAX - 1, 0);
	said[n < 0 ? 0 : n] = '\0';
}

/* What comes before it may be the greeting of the remote shell, or of a login there; ssh ends its lines as a terminal wants them. The text ends
 * with it. */
static char *last_line(char *text)
{
	char *end = text + strlen(text);
	while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	*end = '\0';
	char *line_end = memrchr(text, '\n', (size_t)(end - text));
	return line_end ? line_end + 1 : text;
}

static void say_complaint(char *text, struct err *err)
{
	const char *line = last_line(text);
	size_t mine = strlen("ckpt host: ");
	snprintf(err->text, sizeof(err->text), "%s", strncmp(line, "ckpt host: ", mine) ? line : line + mine);
}

int hosts_ask(const struct hosts *h, uint32_t k, const char *const *words, size_t n, uint64_t within_ns,
	      void (*beat)(void *arg), void *arg, char said[HOSTS_SAID_MAX], struct err *err)
{
	char errors[HOSTS_SAID_MAX];
	struct proc proc;
	uint64_t deadline = clock_deadline(within_ns);
	AUTO_FREE char *line = hosts_line(h, k, false, words, n);
	AUTO_CLOSE int out = memfd_create("said", MFD_CLOEXEC);
	AUTO_CLOSE int complaint = memfd_create("complaint", MFD_CLOEXEC);
	if (out < 0 || complaint < 0)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = start(h, k, line, 0, out, complaint, &proc, err);
	if (rc)
		return rc;
	await(&proc, deadline, beat, arg);
	int status = proc_reap(&proc, proc.pid);
	read_all(out, said);
	read_all(complaint, errors);
	char *answer = last_line(said);
	memmove(said, answer, strlen(answer) + 1);
	say_complaint(errors, err);
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	return err_set(err, -EINTR, clock_now() >= deadline ? "it does not answer" : "the remote shell was killed");
}
