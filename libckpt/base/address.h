/* Address: where to listen for TCP, in numbers: "127.0.0.1:9470", "[::1]:9470". Names are not looked up: that can take its time. */
#ifndef CKPT_BASE_ADDRESS_H
#define CKPT_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_MAX = 64 }; /* as text, with the NUL */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Port 0: any that is free. -EINVAL. */
int address_parse(const char *text, union address *out);
socklen_t address_size(const union address *address);
bool address_is_loopback(const union address *address);
/* As it is parsed. Returns dst. */
char *address_print(const union address *address, char *dst, size_t size);

#endif
