/* The nodes of a campaign are daemons on this machine, node-K at 127.0.0.K+1, or in a network of their own (network/net.h); or on hosts. */
#include "campaign/campaign_run.h"

#include "base/address.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Below those that the kernel gives to whoever asks for any: a port stays free while its daemon is away. */
enum { PORT_LEAST = 10000, PORTS = 22000, PORT_OF_SPACE = 7470, TRIES_MAX = 1000, KEY_BYTES = 32, LINE_MAX_BYTES = 64 };

static bool is_free(const union address *address)
{
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && !bind(fd, &address->any, address_size(address));
}

/* In a namespace nobody else has a port. */
static int choose_address(const struct campaign *c, uint32_t node, char text[ADDRESS_MAX], struct err *err)
{
	char host[ADDRESS_MAX];
	if (c->hosts.n) {
		const struct host *h = &c->hosts.host[node];
		snprintf(text, ADDRESS_MAX, strchr(h->address, ':') ? "[%.50s]:%u" : "%.50s:%u", h->address, h->port);
		return 0;
	}
	if (c->net.nodes) {
		snprintf(text, ADDRESS_MAX, "%.50s:%d", campaign_net_address(node, host, sizeof(host)), PORT_OF_SPACE);
		return 0;
	}
	for (int i = 0; i < TRIES_MAX; i++) {
		union address address;
		uint16_t random;
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			break;
		snprintf(text, ADDRESS_MAX, "127.0.0.%u:%d", node + 1, PORT_LEAST + random % PORTS);
		if (!address_parse(text, &address) && is_free(&address))
			return 0;
	}
	return err_set(err, -EADDRINUSE, "no port is free at 127.0.0.%u for a node of the campaign", node + 1);
}

static int put(const char *path, mode_t mode, const char *text, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	size_t len = strlen(text);
	if (fd >= 0 && write(fd, text, len) == (ssize_t)len)
		return 0;
	int rc = errno ? -errno : -EIO;
	return err_set(err, rc, "%s: %s", path, err_name(rc));
}

static int write_roster(const struct campaign *c, struct err *err)
{
	char path[PATH_MAX], text[CAMPAIGN_NODES_MAX * LINE_MAX_BYTES] = "", address[ADDRESS_MAX];
	size_t len = 0;
	for (uint32_t k = 0; k < c->nnodes; k++) {
		int rc = choose_address(c, k, address, err);
		if (rc)
			return rc;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "node-%u %s\n", k, address);
	}
	return put(campaign_path(c, "roster", path), 0644, text, err);
}

static int write_key(const struct campaign *c, struct err *err)
{
	char path[PATH_MAX], text[2 * KEY_BYTES + 1];
	uint8_t key[KEY_BYTES];
	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return err_set(err, -EIO, "no random numbers for the key of the nodes");
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
	return put(campaign_path(c, "key", path), 0600, text, err);
}

int campaign_write_cluster(const struct campaign *c, struct err *err)
{
	int rc = write_roster(c, err);
	return rc ? rc : write_key(c, err);
}
