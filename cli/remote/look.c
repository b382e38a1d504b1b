/* What a campaign asks of a host before its start, and after its end. */
#include "remote/environment.h"
#include "remote/host.h"

#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "frame/output.h"
#include "process/left_memory.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ends are under way. */
#define LEFT_NS (30 * CLOCK_NS_PER_S)

/* Ports below those that the kernel gives to whoever asks for any: a port stays free while its daemon is away. */
enum { PORT_LEAST = 10000, PORTS = 22000, TRIES_MAX = 1000, ENVIRONMENT_BYTES_MAX = 1 << 20 };

/* ---- before -------------------------------------------------------------------------------------------------------- */

static bool has_token(const char *dir, const char *token)
{
	char path[PATH_MAX], text[64] = "";
	snprintf(path, sizeof(path), "%s/" HOST_TOKEN_FILE, dir);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	return *token && !strcmp(text, token);
}

/* -EADDRNOTAVAIL: the address is not one of this host. */
static int try_port(const char *host, unsigned port)
{
	char text[ADDRESS_MAX + 8];
	union address address;
	snprintf(text, sizeof(text), "%s:%u", host, port);
	if (address_parse(text, &address))
		return -EINVAL;
	AUTO_CLOSE int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 || bind(fd, &address.any, address_size(&address)) ? -errno : 0;
}

static int choose_port(const char *host, unsigned *port)
{
	int rc = -EADDRINUSE;
	for (int i = 0; rc == -EADDRINUSE && i < TRIES_MAX; i++) {
		uint16_t random;
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		*port = PORT_LEAST + random % PORTS;
		rc = try_port(host, *port);
	}
	return rc;
}

/* ---- after --------------------------------------------------------------------------------------------------------- */

/* Of a process of another user nothing is known, and it is none of the campaign's. */
static bool is_tagged(const char *pid, const char *tag, char *data)
{
	char path[64];
	size_t len = strlen(tag);
	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(data, 1, ENVIRONMENT_BYTES_MAX - 1, f) : 0;
	if (f)
		fclose(f);
	data[n] = '\0';
	for (const char *at = data; at < data + n; at += strlen(at) + 1)
		if (!strncmp(at, HOST_TAG "=", sizeof(HOST_TAG)) && !strcmp(at + sizeof(HOST_TAG), tag) && len)
			return true;
	return false;
}

static void name_of(const char *pid, char *dst, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, dst, size - 1);
	dst[n < 0 ? 0 : n] = '\0';
	dst[strcspn(dst, "\n")] = '\0';
}

void host_each_tagged(const char *tag, void (*each)(void *arg, const char *pid), void *arg)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc");
	AUTO_FREE char *data = malloc(ENVIRONMENT_BYTES_MAX);
	for (struct dirent *e; dir && data && (e = readdir(dir));)
		if (isdigit((unsigned char)*e->d_name) && is_tagged(e->d_name, tag, data))
			each(arg, e->d_name);
}

struct left {
	unsigned n; /* processes */
	char text[LEFT_MEMORY_TEXT_MAX];
};

/* The first is named. */
static void count(void *arg, const char *pid)
{
	struct left *left = arg;
	char name[64];
	if (left->n++)
		return;
	name_of(pid, name, sizeof(name));
	snprintf(left->text, sizeof(left->text), "process %.20s (%.40s) is left behind", pid, name);
}

static bool any_left(const char *tag, struct left *left)
{
	*left = (struct left){.n = 0};
	host_each_tagged(tag, count, left);
	return left->n;
}

static bool is_left(const char *tag, const char *socket, const struct left_memory *memory, struct left *left)
{
	if (any_left(tag, left))
		return true;
	if (access(socket, F_OK))
		return left_memory_find(memory, left->text);
	snprintf(left->text, sizeof(left->text), "the socket %.200s is left behind", socket);
	return true;
}

int host_left(struct cli *cli)
{
	struct left left = {.n = 0};
	struct left_memory memory = {.n = 0};
	int rc = left_memory_read(&memory, cli->args[3]), code = EXIT_OK;
	uint64_t deadline = clock_deadline(LEFT_NS);
	while (!rc && !code && is_left(cli->args[1], cli->args[2], &memory, &left)) {
		if (clock_now() >= deadline)
			code = EXIT_PARTIAL;
		poll(NULL, 0, 100);
	}
	left_memory_free(&memory);
	if (code)
		printf("%s\n", left.text);
	return rc ? cli_fail(cli, EXIT_FAILED, "%s: %s", cli->args[3], err_name(rc)) : code;
}

int host_check(struct cli *cli)
{
	const char *dir = cli->args[1], *token = cli->args[2], *address = cli->args[3], *tag = cli->args[4];
	struct left left;
	unsigned port = 0;
	uint64_t deadline = clock_deadline(LEFT_NS);
	if (!has_token(dir, token))
		return cli_fail(cli, EXIT_FAILED,
				"%s is not there, or another directory: give a --dir that all hosts share", dir);
	if (access(dir, W_OK))
		return cli_fail(cli, EXIT_FAILED, "%s cannot be written: %s", dir, err_name(-errno));
	while (any_left(tag, &left) && clock_now() < deadline)
		poll(NULL, 0, 100);
	if (clock_now() >= deadline)
		return cli_fail(cli, EXIT_FAILED, "of an earlier part of this campaign %s: wait until it has ended",
				left.text);
	int rc = choose_port(address, &port);
	if (rc)
		return cli_fail(cli, EXIT_FAILED, "no port at %s: %s: name the host as HOST=ADDRESS", address,
				rc == -EADDRNOTAVAIL ? "it is no address of this host" : err_name(rc));
	printf(HOST_CHECK_FORMAT, HOST_VERSION, port, (unsigned long long)clock_wall());
	return EXIT_OK;
}
