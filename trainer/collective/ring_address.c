#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "collective/ring_internal.h"

unsigned int ring_address_length(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool is_wildcard(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->ss_family == AF_INET)
		return v4->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

int ring_address_of_host(const char *host, struct sockaddr_storage *address)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
		address->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)
		address->ss_family = AF_INET6;
	else
		return -EINVAL;
	return is_wildcard(address) ? -EINVAL : 0;
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return &((struct sockaddr_in *)address)->sin_port;
	return &((struct sockaddr_in6 *)address)->sin6_port;
}

void ring_address_format(const struct sockaddr_storage *address, const uint8_t nonce[RING_NONCE_SIZE], char *text)
{
	struct sockaddr_storage copy = *address;
	bool v4 = address->ss_family == AF_INET;
	const void *number = v4 ? (const void *)&((struct sockaddr_in *)&copy)->sin_addr
				: (const void *)&((struct sockaddr_in6 *)&copy)->sin6_addr;
	char host[INET6_ADDRSTRLEN] = "";
	int used;

	inet_ntop(address->ss_family, number, host, sizeof(host));
	used = snprintf(text, RING_ADDRESS_SIZE, v4 ? "%s:%u/" : "[%s]:%u/", host,
			(unsigned int)ntohs(*port_of(&copy)));
	for (size_t i = 0; i < RING_NONCE_SIZE; i++)
		used += snprintf(text + used, RING_ADDRESS_SIZE - (size_t)used, "%02x", nonce[i]);
}

static int parse_nonce(const char *text, uint8_t nonce[RING_NONCE_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(text) != 2 * RING_NONCE_SIZE || strspn(text, digits) != 2 * RING_NONCE_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < RING_NONCE_SIZE; i++)
		nonce[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) * 16 +
				     (strchr(digits, text[2 * i + 1]) - digits));
	return 0;
}

static int parse_port(const char *text, in_port_t *port)
{
	unsigned long number = strtoul(text, NULL, 10);

	if (!*text || strlen(text) > 5 || strspn(text, "0123456789") != strlen(text) || !number || number > 65535)
		return -EINVAL;
	*port = htons((in_port_t)number);
	return 0;
}

/* Cuts a copy of the text in place: host, port, nonce. */
static int split(char *text, char **host, char **port, char **nonce)
{
	char *slash = strrchr(text, '/'), *colon;

	if (!slash)
		return -EINVAL;
	*slash = '\0';
	colon = strrchr(text, ':');
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	if (*text == '[' && colon > text && colon[-1] == ']') {
		colon[-1] = '\0';
		text++;
	}
	*host = text;
	*port = colon + 1;
	*nonce = slash + 1;
	return 0;
}

int ring_address_parse(const char *address, struct sockaddr_storage *socket_address, uint8_t nonce[RING_NONCE_SIZE])
{
	char copy[RING_ADDRESS_SIZE], *host, *port, *digits;
	size_t length = strnlen(address, sizeof(copy));

	if (length == sizeof(copy))
		return -EINVAL;
	memcpy(copy, address, length + 1);
	if (split(copy, &host, &port, &digits) < 0 || ring_address_of_host(host, socket_address) < 0)
		return -EINVAL;
	if (parse_port(port, port_of(socket_address)) < 0)
		return -EINVAL;
	return parse_nonce(digits, nonce);
}
