/* Rail: the endpoint of libfabric (FI_EP_RDM) over which copies go, with all that belongs to it: of the provider that the configuration chose,
 * at an address that is told over the link. So a stream of copies does not hold up messages, and the way of copies to a node can be cut
 * without losing any.
 *
 * A rail that is not open has nothing to do. Everything but rail_expose() and closing what it made belongs to one thread. */
#ifndef CKPTD_NET_RAIL_H
#define CKPTD_NET_RAIL_H

#include "base/err.h"
#include "cluster/net/hello.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct rail {
	const struct fabric *library;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	int fd; /* readable when the queue is to be looked at: see rail_idle() */
};

/* Settings of the providers that only the environment takes, where it does not have them: see net_environment(). */
void rail_environment(void);
bool rail_is_prepared(void);
/* source: the address to listen at; with port 0 any that is free. -ENODATA: there is no such provider here. */
int rail_open(struct rail *rail, const char *provider, const struct sockaddr *source, struct err *err);
void rail_close(struct rail *rail);

/* Where others reach it. */
int rail_address(const struct rail *rail, struct hello_address *address);
int rail_insert(struct rail *rail, const void *address, fi_addr_t *peer);

struct rail_target {
	fi_addr_t peer;
	bool doubtful; /* what was posted last was not taken */
};
/* To be told of what posting to the peer has returned. */
void rail_posted(struct rail_target *way, ssize_t rc);
/* Closes the connections with a peer, in both directions: what was in flight will be reported as failed by rail_read. false: it was left as
 * it is, and the peer stays. For RxM (of libfabric 1.17 and newer) closes here also what is not there, and with it the process, when the last
 * attempt to connect came to nothing: the network is down, or the other side refused. That is not told, but is possible only where what
 * was posted last was not taken. So it is made sure that there is something to close. */
bool rail_remove(struct rail *rail, struct rail_target *way, bool in_flight);

struct rail_done {
	void *context;
	int rc; /* 0 or -errno */
};
/* Drives everything, and takes what is done, at most max. */
int rail_read(struct rail *rail, struct rail_done *done, int max);
/* Whether one may wait on fd now. */
bool rail_idle(struct rail *rail);

/* Lets the other side reach memory: access of FI_REMOTE_READ, FI_REMOTE_WRITE; 0: only ourselves. Keys are random where the provider
 * lets us choose. */
int rail_expose(struct rail *rail, void *base, uint64_t size, uint64_t access, struct fid_mr **mr);
/* What remote addresses of the memory begin with. */
uint64_t rail_remote_base(const struct rail *rail, const void *base);
/* Whether memory of our own must be registered, too. */
bool rail_wants_local(const struct rail *rail);

#endif
