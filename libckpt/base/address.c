#include "base/address.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int parse_port(const char *text, in_port_t *port)
{
	uint64_t v;
	bool good = number_parse(text, UINT16_MAX, &v);
	*port = htons((uint16_t)v);
	return good ? 0 : -EINVAL;
}

int address_parse(const char *text, union address *out)
{
	char host[ADDRESS_MAX];
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	if (!n || n >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, n);
	host[n] = 0;
	*out = (union address){.v4.sin_family = AF_INET};
	if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1)
		return parse_port(colon + 1, &out->v4.sin_port);
	if (host[0] != '[' || host[n - 1] != ']')
		return -EINVAL;
	host[n - 1] = 0;
	*out = (union address){.v6.sin6_family = AF_INET6};
	return inet_pton(AF_INET6, host + 1, &out->v6.sin6_addr) == 1 ? parse_port(colon + 1, &out->v6.sin6_port)
								      : -EINVAL;
}

socklen_t address_size(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool address_is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

char *address_print(const union address *address, char *dst, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	bool v6 = address->any.sa_family == AF_INET6;
	inet_ntop(address->any.sa_family,
		  v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr, host, sizeof(host));
	snprintf(dst, size, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(v6 ? address->v6.sin6_port : address->v4.sin_port));
	return dst;
}
