/* Preloaded: a connection to the port CKPT_DETOUR_FROM goes to the port CKPT_DETOUR_TO of 127.0.0.1 instead, where somebody stands in the
 * middle. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static unsigned port_of(const char *variable)
{
	const char *text = getenv(variable);
	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	int (*next)(int, const struct sockaddr *, socklen_t);
	*(void **)&next = dlsym(RTLD_NEXT, "connect");
	struct sockaddr_in to;
	if (address->sa_family != AF_INET || len < sizeof(to))
		return next(fd, address, len);
	memcpy(&to, address, sizeof(to));
	if (ntohs(to.sin_port) != port_of("CKPT_DETOUR_FROM"))
		return next(fd, address, len);
	to.sin_port = htons((in_port_t)port_of("CKPT_DETOUR_TO"));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return next(fd, (const struct sockaddr *)&to, sizeof(to));
}
