/* Memory that a node may reach, and memory of our own that is registered. */
#include "cluster/net/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <time.h>

static void close_memory(struct net_region *region)
{
	if (region->open)
		region->net->way->close(region);
	region->open = false;
}

int net_expose(struct net *net, unsigned node, void *base, uint64_t size, enum net_access access,
	       struct net_region **out, struct err *err)
{
	struct net_region *region = calloc(1, sizeof(*region));
	uint64_t session = net_session(net, node);
	if (!region || !session) {
		free(region);
		return err_set(err, session ? -ENOMEM : -ENOTCONN, "cannot show memory to node %s: %s",
			       net->roster->nodes[node].name, session ? "no memory" : "there is no session with it");
	}
	region->net = net;
	region->node = node;
	region->session = session;
	region->ticket.size = size;
	int rc = net->way->expose(region, base, size, access);
	if (rc) {
		free(region);
		return err_set(err, rc, "cannot register %lu bytes for node %s: %s", (unsigned long)size,
			       net->roster->nodes[node].name, err_name(rc));
	}
	region->open = true;
	list_init(&region->asked);
	LOCK_SCOPE(&net->lock);
	list_push(&net->regions, &region->link);
	/* The session may have ended meanwhile: nobody would close it. */
	if (net->peers[node].session_now != session)
		close_memory(region);
	region->released = !region->open;
	*out = region;
	return 0;
}

struct net_ticket net_region_ticket(const struct net_region *region)
{
	return region->ticket;
}

/* With the lock. */
static bool wait_released(struct net *net, const struct net_region *region, unsigned ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!region->released)
		if (pthread_cond_timedwait(&net->released, &net->lock, &until))
			break;
	return region->released;
}

void net_withdraw(struct net_region *region)
{
	if (!region)
		return;
	struct net *net = region->net;
	if (net) {
		LOCK_SCOPE(&net->lock);
		struct peer *p = &net->peers[region->node];
		close_memory(region);
		if (!region->released) {
			list_push(&p->revokes, &region->asked);
			net_wake(p);
		}
		if (!wait_released(net, region, p->deaf ? 0 : NET_WITHDRAW_MS)) {
			p->cut = true;
			net_wake(p);
			if (!wait_released(net, region, CUT_MS)) {
				log_error("node %s cannot be kept from memory that it was shown: ending",
					  net->roster->nodes[region->node].name);
				abort();
			}
		}
		list_remove(&region->asked);
		list_remove(&region->link);
	}
	free(region);
}

static void release(struct net_region *region)
{
	region->released = true;
	list_remove(&region->asked);
	pthread_cond_broadcast(&region->net->released);
}

void region_released(struct peer *p, uint64_t key)
{
	LOCK_SCOPE(&p->net->lock);
	list_for_safe(node, &p->asked) {
		struct net_region *region = list_entry(node, struct net_region, asked);
		if (region->ticket.key == key)
			release(region);
	}
}

void region_released_all(struct peer *p)
{
	LOCK_SCOPE(&p->net->lock);
	struct list *const lists[] = {&p->revokes, &p->asked};
	for (unsigned i = 0; i < 2; i++)
		list_for_safe(node, lists[i])
			release(list_entry(node, struct net_region, asked));
}

void region_close_all(struct peer *p, uint64_t session)
{
	LOCK_SCOPE(&p->net->lock);
	list_for(node, &p->net->regions) {
		struct net_region *region = list_entry(node, struct net_region, link);
		if (region->node != p->node || region->session != session)
			continue;
		close_memory(region);
		release(region);
	}
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static struct net_region *find(struct peer *p, uint64_t key)
{
	list_for(node, &p->net->regions) {
		struct net_region *region = list_entry(node, struct net_region, link);
		if (region->open && region->node == p->node && region->session == p->id && region->ticket.key == key)
			return region;
	}
	return NULL;
}

uint8_t *region_pin(struct peer *p, const struct lane_request *where, uint64_t at, uint64_t len,
		    struct net_region **out, int *rc)
{
	LOCK_SCOPE(&p->net->lock);
	struct net_region *region = find(p, where->key);
	enum net_access wanted = where->kind == NET_READ ? NET_READABLE : NET_WRITABLE;
	uint64_t size = region ? region->ticket.size : 0;
	if (!region || !(region->access & wanted))
		*rc = -EACCES;
	else if (where->offset > size || where->len > size - where->offset || at > where->len || len > where->len - at)
		*rc = -ERANGE;
	else
		*rc = 0;
	if (*rc)
		return NULL;
	region->pinned = true;
	*out = region;
	return region->base + where->offset + at;
}

void region_unpin(struct net_region *region)
{
	LOCK_SCOPE(&region->net->lock);
	region->pinned = false;
	if (!region->open)
		release(region);
}

/* ---- our own ----------------------------------------------------------------------------------------------------- */

int net_register(struct net *net, void *base, uint64_t size)
{
	struct fid_mr *mr;
	if (!rail_wants_local(&net->copies))
		return 0;
	int rc = rail_expose(&net->copies, base, size, 0, &mr);
	if (rc)
		return rc;
	LOCK_SCOPE(&net->lock);
	unsigned at = 0;
	while (at < net->nlocals && net->locals[at].mr)
		at++;
	struct local *more = at < net->nlocals ? net->locals : realloc(net->locals, (at + 1) * sizeof(*more));
	if (!more) {
		fi_close(&mr->fid);
		return -ENOMEM;
	}
	net->locals = more;
	net->nlocals = at < net->nlocals ? net->nlocals : at + 1;
	net->locals[at] = (struct local){base, size, mr};
	return (int)at + 1;
}

void net_unregister(struct net *net, int token)
{
	if (token <= 0)
		return;
	LOCK_SCOPE(&net->lock);
	if (net->locals[token - 1].mr)
		fi_close(&net->locals[token - 1].mr->fid);
	net->locals[token - 1] = (struct local){0};
}

static bool holds(const struct local *local, const uint8_t *buf, uint64_t len)
{
	return local->mr && buf >= local->base && len <= local->size &&
	       (uint64_t)(buf - local->base) <= local->size - len;
}

int region_local(struct net *net, void *buf, uint64_t len, void **descriptor, struct fid_mr **mr)
{
	*mr = NULL;
	*descriptor = NULL;
	if (!rail_wants_local(&net->copies))
		return 0;
	LOCK_SCOPE(&net->lock);
	for (unsigned i = 0; i < net->nlocals; i++) {
		if (!holds(&net->locals[i], buf, len))
			continue;
		*descriptor = fi_mr_desc(net->locals[i].mr);
		return 0;
	}
	int rc = rail_expose(&net->copies, buf, len, 0, mr);
	if (!rc)
		*descriptor = fi_mr_desc(*mr);
	return rc;
}
