#include "remote/hosts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "frame/output.h"
#include "remote/host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define CHECK_NS (60 * CLOCK_NS_PER_S)
#define LEFT_NS (90 * CLOCK_NS_PER_S)
/* The judge takes it back, up to here. */
#define AHEAD_MAX_NS ((int64_t)(2 * CLOCK_NS_PER_S))

/* ---- the token ----------------------------------------------------------------------------------------------------- */

static int make_token(char token[17])
{
	uint64_t random;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(token, 17, "%016llx", (unsigned long long)random);
	return 0;
}

/* That of a campaign that goes on is there. */
static int read_token(const char *path, char token[17])
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, token, 16);
	token[n < 0 ? 0 : n] = '\0';
	return n == 16 && strspn(token, "0123456789abcdef") == 16 ? 0 : -EBADMSG;
}

static int write_token(const char *path, char token[17])
{
	int rc = make_token(token);
	AUTO_CLOSE int fd = rc ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (!rc && (fd < 0 || write(fd, token, 16) != 16 || fsync(fd)))
		rc = -errno;
	return rc;
}

static int settle_token(struct hosts *h)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/" HOST_TOKEN_FILE, h->folder);
	int rc = !access(path, F_OK) ? read_token(path, h->token) : write_token(path, h->token);
	return rc ? cli_fail(h->cli, EXIT_FAILED, "%s: %s", path, err_name(rc)) : EXIT_OK;
}

/* ---- before -------------------------------------------------------------------------------------------------------- */

/* Nothing has said anything about this host yet. */
static int explain(const struct hosts *h, const struct host *host, int status, const char *why)
{
	const char *shell = h->shell.words[0];
	if (status < 0 || status == SHELL_BROKE)
		return cli_fail(h->cli, EXIT_FAILED,
				"host %s cannot be reached: %s: see to it that `%s %s true` works without a question",
				host->name, *why ? why : "the remote shell exited with status 255", shell, host->name);
	if (status == SHELL_NOT_THERE || status == SHELL_CANNOT)
		return cli_fail(
			h->cli, EXIT_FAILED,
			"host %s has no %s, or not the directory %s: install the same version at the same place",
			host->name, h->self, h->here);
	return cli_fail(h->cli, EXIT_FAILED, "host %s cannot be a node: %s", host->name,
			*why ? why : "it does not say why");
}

/* Its time was read between both of ours, and a login may take seconds: only what cannot come of that is of its clock. */
static int64_t find_ahead(uint64_t time, uint64_t before, uint64_t after)
{
	return time < before ? (int64_t)(time - before) : time > after ? (int64_t)(time - after) : 0;
}

static int take_answer(const struct hosts *h, struct host *host, const char *said, uint64_t before)
{
	unsigned long long time;
	char version[32];
	if (sscanf(said, HOST_CHECK_SCAN, version, &host->port, &time) != 3)
		return cli_fail(h->cli, EXIT_FAILED, "host %s: the remote shell says something else than ckpt: %.80s",
				host->name, said);
	if (strcmp(version, HOST_VERSION) != 0)
		return cli_fail(h->cli, EXIT_FAILED, "host %s has ckpt %s, and this is %s: install the same version",
				host->name, version, HOST_VERSION);
	host->ahead_ns = find_ahead(time, before, clock_wall());
	if (llabs(host->ahead_ns) > AHEAD_MAX_NS)
		return cli_fail(h->cli, EXIT_FAILED,
				"the clock of host %s is %.1f s %s: let both follow the same time, as by NTP",
				host->name, (double)llabs(host->ahead_ns) / 1e9,
				host->ahead_ns > 0 ? "ahead" : "behind");
	return EXIT_OK;
}

static int check(const struct hosts *h, uint32_t k, struct host *host)
{
	char said[HOSTS_SAID_MAX], tag[HOSTS_TAG_MAX], address[ADDRESS_MAX + 2];
	struct err err = {""};
	snprintf(address, sizeof(address), strchr(host->address, ':') ? "[%s]" : "%s", host->address);
	uint64_t before = clock_wall();
	const char *const words[] = {"host", "check", h->folder, h->token, address, hosts_tag(h, k, tag)};
	int status = hosts_ask(h, k, words, sizeof(words) / sizeof(words[0]), CHECK_NS, NULL, NULL, said, &err);
	return status ? explain(h, host, status, err.text) : take_answer(h, host, said, before);
}

int hosts_check(struct hosts *h, const char *folder)
{
	if (!realpath(folder, h->folder))
		return cli_fail(h->cli, EXIT_FAILED, "%s: %s", folder, err_name(-errno));
	int code = settle_token(h);
	for (uint32_t k = 0; !code && k < h->n; k++)
		code = check(h, k, &h->host[k]);
	return code;
}

/* ---- after --------------------------------------------------------------------------------------------------------- */

bool hosts_nothing_left(const struct hosts *h, uint32_t k, char *text, size_t size)
{
	char said[HOSTS_SAID_MAX], tag[HOSTS_TAG_MAX], socket[HOSTS_SOCKET_MAX], memory[PATH_MAX];
	struct err err = {""};
	const char *const words[] = {"host", "left", hosts_tag(h, k, tag), hosts_socket(h, k, "s", socket),
				     hosts_memory(h, k, memory)};
	int status = hosts_ask(h, k, words, sizeof(words) / sizeof(words[0]), LEFT_NS, NULL, NULL, said, &err);
	said[strcspn(said, "\n")] = '\0';
	if (status == EXIT_PARTIAL)
		snprintf(text, size, "host %s: %.180s", h->host[k].name, said);
	else if (status)
		snprintf(text, size, "host %s: it is not known what is left behind there: %.120s", h->host[k].name,
			 *err.text ? err.text : "the remote shell failed");
	return !status;
}
