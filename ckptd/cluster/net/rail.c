#include "cluster/net/rail.h"

#include "base/bytes.h"
#include "cluster/net/fabric.h"

#include <netinet/in.h>
#include <openssl/rand.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

enum { RAIL_QUEUE = 4096, RAIL_EVENTS = 256 }; /* completions, events */

#define MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int fill_hints(struct fi_info *hints, const char *provider, const struct sockaddr *source)
{
	size_t size = source->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = MODES;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->addr_format = source->sa_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	hints->src_addr = malloc(size);
	if (!hints->fabric_attr->prov_name || !hints->src_addr)
		return -ENOMEM;
	hints->src_addrlen = size;
	memcpy(hints->src_addr, source, size);
	return 0;
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

static int open_queues(struct rail *rail)
{
	struct fi_cq_attr done = {.size = RAIL_QUEUE, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	struct fi_eq_attr events = {.size = RAIL_EVENTS, .wait_obj = FI_WAIT_FD};
	int rc = fi_cq_open(rail->domain, &done, &rail->cq, NULL);
	if (!rc)
		rc = fi_eq_open(rail->fabric, &events, &rail->eq, NULL);
	if (!rc)
		rc = fi_control(&rail->cq->fid, FI_GETWAIT, &rail->fd);
	return rc ? rc : fi_control(&rail->eq->fid, FI_GETWAIT, &rail->event_fd);
}

static int open_all(struct rail *rail)
{
	int rc = rail->library->fabric(rail->info->fabric_attr, &rail->fabric, NULL);
	if (!rc)
		rc = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
	if (!rc)
		rc = open_queues(rail);
	if (!rc)
		rc = fi_passive_ep(rail->fabric, rail->info, &rail->door, NULL);
	if (!rc)
		rc = fi_pep_bind(rail->door, &rail->eq->fid, 0);
	return rc ? rc : fi_listen(rail->door);
}

int rail_open(struct rail *rail, const char *provider, const struct sockaddr *source, struct err *err)
{
	*rail = (struct rail){.fd = -1, .event_fd = -1};
	int rc = fabric_load(&rail->library, err);
	if (rc)
		return rc;
	rc = find_provider(rail, provider, source);
	if (rc)
		return err_set(
			err, rc == -FI_ENODATA ? -ENODATA : rc,
			"libfabric has no provider %s here that has connected endpoints: %s (fi_info shows which)",
			provider, fabric_error(rc));
	rc = open_all(rail);
	if (!rc)
		return 0;
	rail_close(rail);
	return err_set(err, rc, "cannot open an endpoint of %s: %s", provider, fabric_error(rc));
}

void rail_close(struct rail *rail)
{
	struct fid *const parts[] = {rail->door ? &rail->door->fid : NULL, rail->eq ? &rail->eq->fid : NULL,
				     rail->cq ? &rail->cq->fid : NULL, rail->domain ? &rail->domain->fid : NULL,
				     rail->fabric ? &rail->fabric->fid : NULL};
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i])
			fi_close(parts[i]);
	if (rail->info)
		rail->library->freeinfo(rail->info);
	*rail = (struct rail){.fd = -1, .event_fd = -1};
}

int rail_address(const struct rail *rail, struct hello_address *address)
{
	size_t len = sizeof(address->bytes);
	int rc = fi_getname(&rail->door->fid, address->bytes, &len);
	address->len = rc ? 0 : (uint8_t)len;
	return rc;
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static int open_endpoint(struct rail *rail, struct fi_info *info, struct fid_ep **out)
{
	int rc = fi_endpoint(rail->domain, info, out, NULL);
	if (rc)
		return rc;
	rc = fi_ep_bind(*out, &rail->eq->fid, 0);
	if (!rc)
		rc = fi_ep_bind(*out, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!rc)
		rc = fi_enable(*out);
	if (rc)
		fi_close(&(*out)->fid);
	return rc;
}

static int connect_to(struct rail *rail, struct fi_info *info, const struct hello_address *to, const void *words,
		      size_t len, struct fid_ep **out)
{
	info->dest_addr = malloc(to->len);
	if (!info->dest_addr)
		return -ENOMEM;
	info->dest_addrlen = to->len;
	memcpy(info->dest_addr, to->bytes, to->len);
	int rc = open_endpoint(rail, info, out);
	if (!rc && (rc = fi_connect(*out, info->dest_addr, words, len)))
		fi_close(&(*out)->fid);
	return rc;
}

int rail_call(struct rail *rail, const struct hello_address *to, const void *words, size_t len, struct fid_ep **out)
{
	size_t size = rail->info->src_addrlen;
	struct sockaddr_storage here;
	memcpy(&here, to->bytes, min_u64(to->len, sizeof(here)));
	if (to->len != size || here.ss_family != ((struct sockaddr *)rail->info->src_addr)->sa_family)
		return -EAFNOSUPPORT;
	struct fi_info *info = rail->library->dupinfo(rail->info);
	int rc = info ? connect_to(rail, info, to, words, len, out) : -ENOMEM;
	rail->library->freeinfo(info);
	return rc;
}

void rail_hang_up(struct fid_ep *ep)
{
	if (ep)
		fi_close(&ep->fid);
}

int rail_accept(struct rail *rail, const struct rail_event *event, const void *words, size_t len, struct fid_ep **out)
{
	int rc = open_endpoint(rail, event->caller, out);
	if (rc) {
		rail_refuse(rail, event);
		return rc;
	}
	rail->library->freeinfo(event->caller);
	rc = fi_accept(*out, words, len);
	if (rc)
		fi_close(&(*out)->fid);
	return rc;
}

void rail_refuse(struct rail *rail, const struct rail_event *event)
{
	fi_reject(rail->door, event->caller->handle, NULL, 0);
	rail->library->freeinfo(event->caller);
}

static int failed_call(struct rail *rail, struct rail_event *out)
{
	struct fi_eq_err_entry entry = {0};
	if (fi_eq_readerr(rail->eq, &entry, 0) < 0)
		return 0;
	*out = (struct rail_event){.news = RAIL_ENDED, .ep = entry.fid};
	return 1;
}

int rail_event(struct rail *rail, struct rail_event *out)
{
	union {
		struct fi_eq_cm_entry entry;
		uint8_t bytes[sizeof(struct fi_eq_cm_entry) + 256]; /* words, as many as a provider has room for */
	} read = {.entry = {.info = NULL}};
	uint32_t kind;
	if (!rail->eq)
		return 0;
	ssize_t n = fi_eq_read(rail->eq, &kind, &read, sizeof(read), 0);
	if (n == -FI_EAVAIL)
		return failed_call(rail, out);
	if (n < (ssize_t)sizeof(read.entry))
		return 0;
	*out = (struct rail_event){.ep = read.entry.fid, .caller = read.entry.info};
	out->news = kind == FI_CONNREQ ? RAIL_CALLED : kind == FI_CONNECTED ? RAIL_CONNECTED : RAIL_ENDED;
	out->len = min_u64((uint64_t)n - sizeof(read.entry), sizeof(out->words));
	memcpy(out->words, read.bytes + sizeof(read.entry), out->len);
	return 1;
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

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
	struct fid *fids[] = {&rail->cq->fid, &rail->eq->fid};
	return fi_trywait(rail->fabric, fids, 2) == FI_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

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
