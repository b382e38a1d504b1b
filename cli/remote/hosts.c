#include "remote/hosts.h"

#include "frame/output.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* "user@gpu1" → "gpu1" */
static const char *bare(const char *name)
{
	const char *at = strrchr(name, '@');
	return at ? at + 1 : name;
}

static bool look_up(const char *name, char dst[ADDRESS_MAX])
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	if (getaddrinfo(name, NULL, &hints, &found))
		return false;
	int rc = getnameinfo(found->ai_addr, found->ai_addrlen, dst, ADDRESS_MAX, NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(found);
	return !rc;
}

static bool is_literal(const char *text)
{
	char whole[ADDRESS_MAX + 8];
	union address address;
	snprintf(whole, sizeof(whole), strchr(text, ':') ? "[%.60s]:1" : "%.60s:1", text);
	return !address_parse(whole, &address);
}

static bool is_loopback(const char *text)
{
	char whole[ADDRESS_MAX + 8];
	union address address;
	snprintf(whole, sizeof(whole), strchr(text, ':') ? "[%.60s]:1" : "%.60s:1", text);
	return !address_parse(whole, &address) && address_is_loopback(&address);
}

/* Other hosts would look for it on themselves. */
static int find_address(const struct hosts *h, struct host *host, const char *given)
{
	if (given && !is_literal(given))
		return cli_fail(h->cli, EXIT_USAGE, "--nodes %s=%s: an address in numbers is wanted", host->name,
				given);
	if (given)
		snprintf(host->address, sizeof(host->address), "%s", given);
	else if (!look_up(bare(host->name), host->address))
		return cli_fail(h->cli, EXIT_FAILED,
				"%s has no address here: look for a mistake in its name, or name it as %s=ADDRESS",
				host->name, host->name);
	if (!given && is_loopback(host->address))
		return cli_fail(h->cli, EXIT_FAILED,
				"%s is %s here, where the others do not reach it: name it as %s=ADDRESS", host->name,
				host->address, host->name);
	return EXIT_OK;
}

static int add(struct hosts *h, char *text)
{
	char *given = strchr(text, '=');
	if (given)
		*given++ = '\0';
	if (!shell_is_host(text))
		return cli_fail(h->cli, EXIT_USAGE,
				"--nodes: \"%s\" is no host: HOST,HOST,… are wanted, each with =ADDRESS if the others "
				"reach it elsewhere",
				text);
	for (uint32_t i = 0; i < h->n; i++)
		if (!strcmp(h->host[i].name, text))
			return cli_fail(h->cli, EXIT_USAGE, "--nodes: %s is named twice", text);
	if (h->n == HOSTS_MAX)
		return cli_fail(h->cli, EXIT_USAGE, "--nodes: more than %d hosts", HOSTS_MAX);
	h->host[h->n].name = text;
	return find_address(h, &h->host[h->n++], given);
}

/* A host is reached again long after this program was replaced by another version, or that directory was left. */
static int look_around(struct hosts *h)
{
	ssize_t n = readlink("/proc/self/exe", h->self, sizeof(h->self) - 1);
	h->here = getcwd(NULL, 0);
	return n > 0 && h->here ? EXIT_OK
				: cli_fail(h->cli, EXIT_FAILED, "%s: %s",
					   n > 0 ? "the working directory" : "/proc/self/exe", err_name(-errno));
}

int hosts_parse(const struct cli *cli, struct hosts *h)
{
	const char *text = cli_text(cli, "nodes");
	*h = (struct hosts){.cli = cli};
	if (!text)
		return cli_text(cli, "remote-shell") ? cli_fail(cli, EXIT_USAGE, "--remote-shell is for --nodes HOSTS")
						     : EXIT_OK;
	h->names = strdup(text);
	int code = h->names ? look_around(h) : cli_fail(cli, EXIT_FAILED, "out of memory");
	for (char *rest = h->names, *name; !code && (name = strsep(&rest, ","));)
		code = add(h, name);
	return code ? code : shell_read(cli, &h->shell);
}

void hosts_free(struct hosts *h)
{
	shell_free(&h->shell);
	free(h->names);
	free(h->here);
	*h = (struct hosts){.n = 0};
}

char *hosts_tag(const struct hosts *h, uint32_t k, char dst[HOSTS_TAG_MAX])
{
	snprintf(dst, HOSTS_TAG_MAX, "%s-%u", h->token, k);
	return dst;
}

/* The token is random: nobody else can have made it. */
char *hosts_socket(const struct hosts *h, uint32_t k, const char *name, char dst[HOSTS_SOCKET_MAX])
{
	snprintf(dst, HOSTS_SOCKET_MAX, "/tmp/ckpt-%s-%u.%.8s", h->token, k, name);
	return dst;
}

char *hosts_memory(const struct hosts *h, uint32_t k, char dst[PATH_MAX])
{
	snprintf(dst, PATH_MAX, "%.4000s/node-%u.memory", h->folder, k);
	return dst;
}
