/* Rail: libfabric for copies. It has connected endpoints (FI_EP_MSG), one to each node that copies go to and one from
 * each that they come from, and all that belongs to them. They are of the provider that the configuration chose, at an
 * address that is told over the link. A connection carries words of both ends, by which they prove to each other whose it
 * is before anything else can come over it. Nothing of a connection that is not accepted reaches memory.
 *
 * A rail that is not open has nothing to do. Everything but rail_expose() and closing what it made belongs to one thread. */
#ifndef CKPTD_NET_RAIL_H
#define CKPTD_NET_RAIL_H

#include "base/err.h"
#include "cluster/link/hello.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { RAIL_WORDS_MAX = 56 }; /* of one end, bytes: no more go into a request of the RDMA connection manager */

struct rail {
	const struct fabric *library;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *door;
	int fd, event_fd; /* readable when completions, or events, are to be looked at: see rail_idle() */
};

/* source: the address to listen at; with port 0 any that is free. -ENODATA: there is no such provider here, or it has no
 * connected endpoints. */
int rail_open(struct rail *rail, const char *provider, const struct sockaddr *source, struct err *err);
/* After all endpoints and regions. */
void rail_close(struct rail *rail);

/* Where others reach it. */
int rail_address(const struct rail *rail, struct hello_address *address);

/* Begins to connect, with words of ours. Nothing can be posted before RAIL_CONNECTED. */
int rail_call(struct rail *rail, const struct hello_address *to, const void *words, size_t len, struct fid_ep **out);
/* When it returns nothing that was posted to it, or comes over it, touches memory any more; what was in flight may be
 * reported as failed or not at all. NULL is allowed. */
void rail_hang_up(struct fid_ep *ep);

enum rail_news {
	RAIL_CALLED,    /* somebody calls: is to be given to rail_accept() or rail_refuse() */
	RAIL_CONNECTED, /* the other end of `ep` has said its words, or, where we have accepted, is there */
	RAIL_ENDED,     /* `ep` is over, or never came about */
};

struct rail_event {
	enum rail_news news;
	const struct fid *ep;
	struct fi_info *caller;
	uint8_t words[RAIL_WORDS_MAX];
	size_t len;
};

/* 1, or 0: there is none. */
int rail_event(struct rail *rail, struct rail_event *out);
int rail_accept(struct rail *rail, const struct rail_event *event, const void *words, size_t len, struct fid_ep **out);
void rail_refuse(struct rail *rail, const struct rail_event *event);

struct rail_done {
	void *context;
	int rc; /* 0 or -errno */
};
/* Drives everything, and takes what is done, at most max. */
int rail_read(struct rail *rail, struct rail_done *done, int max);
/* Whether one may wait on both descriptors now. */
bool rail_idle(struct rail *rail);

/* Lets the other side reach memory: access of FI_REMOTE_READ, FI_REMOTE_WRITE; 0: only ourselves. Keys are random where
 * the provider lets us choose. */
int rail_expose(struct rail *rail, void *base, uint64_t size, uint64_t access, struct fid_mr **mr);
/* What remote addresses of the memory begin with. */
uint64_t rail_remote_base(const struct rail *rail, const void *base);
/* Whether memory of our own must be registered, too. */
bool rail_wants_local(const struct rail *rail);

#endif
