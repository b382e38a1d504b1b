/* First flight: what somebody who calls says first, looked at where the kernel keeps it. OpenSSL would begin with the
 * first byte, believe any length, and buy memory for it: so it sees none that is not whole, or longer than a node's. */
#ifndef CKPTD_LINK_FIRST_FLIGHT_H
#define CKPTD_LINK_FIRST_FLIGHT_H

#include <stdbool.h>

enum { FIRST_FLIGHT_MAX = 4096 };

/* Of a connection that was just accepted: it is readable when there is something to look at, and at its end. */
void first_flight_await(int fd);
/* 1: it is there, whole, and the connection is as any other again; 0: not yet; -EACCES: it is none of TLS, or not a node's; -ECONNRESET. */
int first_flight_come(int fd);
/* Whether the other end has ended it, also where bytes that came before have yet to be read. */
bool first_flight_is_cut(int fd);

#endif
