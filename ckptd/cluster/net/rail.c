#include "cluster/net/rail.h"

#include "cluster/net/fabric.h"

#include <netinet/in.h>
#include <openssl/rand.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

enum { RAIL_QUEUE = 4096 }; /* completions */

#define MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* Without it rail_remove() closes nothing, and what is given away would be written by who had it before: no choice. */
#define CLEANUP "FI_AV_REMOVE_CLEANUP"

void rail_environment(void)
{
	setenv(CLEANUP, "1", 1);
	static const char *const values[][2] = {
		/* The buffers of an endpoint are made of these; frames are no larger. It is what both sides must have alike. */
		{"FI_OFI_RXM_BUFFER_SIZE", "4096"},
		{"FI_OFI_RXM_MSG_RX_SIZE", "256"},
		/* Else a node that died and came back is looked for too rarely while copies to others run. */
		{"FI_OFI_RXM_CQ_EQ_FAIRNESS", "1"},
		{"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000"},
	};
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		setenv(values[i][0], values[i][1], 0);
}

bool rail_is_prepared(void)
{
	const char *cleanup = getenv(CLEANUP);
	return cleanup && !strcmp(cleanup, "1");
}

static int fill_hints(struct fi_info *hints, const char *provider, const struct sockaddr *source)
{
	size_t size = source->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = MODES;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->fabric_attr->prov_name = strdup(provider);
	if (strcmp(provider, "efa") != 0) { /* its addresses are not those of sockets */
		hints->addr_format = source->sa_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
		hints->src_addr = malloc(size);
		hints->src_addrlen = size;
		if (hints->src_addr)
			memcpy(hints->src_addr, source, size);
	}
	return hints->fabric_attr->prov_name && (hints->src_addr || !hints->src_addrlen) ? 0 : -ENOMEM;
}

static int find_provider(struct rail *rail, const char *provider, const struct sockaddr *source)
{
	struct fi_info *hints = rail->library->dupinfo(NULL);
	int rc = hints ? fill_hints(hints, provider, source) : -ENOMEM;
	if (!rc)
		rc = rail->library->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &rail->info);
	rail->library->freeinfo(hints);
	return rc;
}

static int open_queue(struct rail *rail)
{
	struct fi_cq_attr attr = {.size = RAIL_QUEUE, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	int rc = fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
	return rc ? rc : fi_control(&rail->cq->fid, FI_GETWAIT, &rail->fd);
}

static int open_all(struct rail *rail)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int rc = rail->library->fabric(rail->info->fabric_attr, &rail->fabric, NULL);
	if (!rc)
		rc = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
	if (!rc)
		rc = open_queue(rail);
	if (!rc)
		rc = fi_av_open(rail->domain, &av, &rail->av, NULL);
	if (!rc)
		rc = fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
	if (!rc)
		rc = fi_ep_bind(rail->ep, &rail->av->fid, 0);
	if (!rc)
		rc = fi_ep_bind(rail->ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
	return rc ? rc : fi_enable(rail->ep);
}

int rail_open(struct rail *rail, const char *provider, const struct sockaddr *source, struct err *err)
{
	*rail = (struct rail){.fd = -1};
	int rc = fabric_load(&rail->library, err);
	if (rc)
		return rc;
	rc = find_provider(rail, provider, source);
	if (rc)
		return err_set(err, rc == -FI_ENODATA ? -ENODATA : rc,
			       "libfabric has no provider %s here: %s (fi_info shows which)", provider,
			       fabric_error(rc));
	rc = open_all(rail);
	if (!rc)
		return 0;
	rail_close(rail);
	return err_set(err, rc, "cannot open an endpoint of %s: %s", provider, fabric_error(rc));
}

void rail_close(struct rail *rail)
{
	struct fid *const parts[] = {rail->ep ? &rail->ep->fid : NULL, rail->av ? &rail->av->fid : NULL,
				     rail->cq ? &rail->cq->fid : NULL, rail->domain ? &rail->domain->fid : NULL,
				     rail->fabric ? &rail->fabric->fid : NULL};
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i])
			fi_close(parts[i]);
	if (rail->info)
		rail->library->freeinfo(rail->info);
	*rail = (struct rail){.fd = -1};
}

int rail_address(const struct rail *rail, struct hello_address *address)
{
	size_t len = sizeof(address->bytes);
	int rc = fi_getname(&rail->ep->fid, address->bytes, &len);
	address->len = rc ? 0 : (uint8_t)len;
	return rc;
}

int rail_insert(struct rail *rail, const void *address, fi_addr_t *peer)
{
	int n = fi_av_insert(rail->av, address, 1, peer, 0, NULL);
	return n == 1 ? 0 : n < 0 ? n : -EINVAL;
}

void rail_posted(struct rail_target *way, ssize_t rc)
{
	way->doubtful = rc != 0;
}

/* One more attempt makes something to close, or says that there is nothing. */
static bool find_out(struct rail *rail, const struct rail_target *way)
{
	ssize_t rc = fi_inject_write(rail->ep, "", 0, way->peer, 0, 0);
	return !rc || rc == -FI_EAGAIN;
}

bool rail_remove(struct rail *rail, struct rail_target *way, bool in_flight)
{
	bool layered = strstr(rail->info->fabric_attr->prov_name, "ofi_rxm") != NULL;
	if (layered && way->doubtful && !in_flight && !find_out(rail, way))
		return false;
	fi_av_remove(rail->av, &way->peer, 1, 0);
	way->doubtful = false;
	return true;
}

static int read_error(struct rail *rail, struct rail_done *done)
{
	struct fi_cq_err_entry entry = {0};
	if (fi_cq_readerr(rail->cq, &entry, 0) != 1)
		return 0;
	/* Codes of libfabric beyond those of errno. */
	int rc = entry.err > 0 && entry.err < FI_ERRNO_OFFSET ? -entry.err : -EIO;
	*done = (struct rail_done){.context = entry.op_context, .rc = rc};
	return 1;
}

int rail_read(struct rail *rail, struct rail_done *done, int max)
{
	struct fi_cq_entry entries[32];
	if (!rail->cq)
		return 0;
	ssize_t n = fi_cq_read(rail->cq, entries, max < 32 ? (size_t)max : 32);
	if (n == -FI_EAVAIL)
		return read_error(rail, done);
	for (ssize_t i = 0; i < n; i++)
		done[i] = (struct rail_done){.context = entries[i].op_context};
	return n > 0 ? (int)n : 0;
}

bool rail_idle(struct rail *rail)
{
	if (!rail->cq)
		return true;
	struct fid *fid = &rail->cq->fid;
	return fi_trywait(rail->fabric, &fid, 1) == FI_SUCCESS;
}

int rail_expose(struct rail *rail, void *base, uint64_t size, uint64_t access, struct fid_mr **mr)
{
	uint64_t key;
	int rc = -FI_ENOKEY;
	for (int tries = 0; rc == -FI_ENOKEY && tries < 8; tries++) {
		if (RAND_bytes((unsigned char *)&key, sizeof(key)) != 1)
			return -EIO;
		rc = fi_mr_reg(rail->domain, base, size, access ? access : FI_READ | FI_WRITE, 0, key, 0, mr, NULL);
	}
	return rc;
}

uint64_t rail_remote_base(const struct rail *rail, const void *base)
{
	return rail->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0;
}

bool rail_wants_local(const struct rail *rail)
{
	return rail->info && rail->info->domain_attr->mr_mode & FI_MR_LOCAL;
}
