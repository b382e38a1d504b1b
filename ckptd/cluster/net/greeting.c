/* Whose hello it is, and whether it is let in: why not is told. */
#include "cluster/net/engine.h"

#include "base/log.h"
#include "base/quoted.h"

#include <openssl/crypto.h>
#include <string.h>

/* Once per stay: it goes on to call. */
static void say_roster(struct peer *p, bool other)
{
	if (other && !p->told_roster)
		log_warn("node %s has another roster, and is not let in: it must be the same file on all nodes, or "
			 "all must stand in the registry",
			 p->name);
	p->told_roster = other;
}

static void say_protocol(struct peer *p, uint32_t protocol)
{
	bool other = protocol != HELLO_PROTOCOL;
	if (other && !p->told_protocol)
		log_warn("node %s speaks protocol %u between daemons, this one %d, and is not let in: let ckptd be of "
			 "one release on all nodes, and start the older one again",
			 p->name, protocol, HELLO_PROTOCOL);
	p->told_protocol = other;
}

static bool say_way(struct peer *p, uint8_t theirs)
{
	static const char *const ways[] = {"in a way of its own", "sealed", "over TCP, not sealed", "by RDMA"};
	uint8_t ours = p->net->self.way;
	if (theirs != ours && !p->told_way)
		log_warn("node %s makes copies %s, and this one %s: it is not let in. Let fabric-provider and "
			 "seal-copies be alike on all nodes",
			 p->name, ways[theirs <= NET_COPIES_FABRIC ? theirs : 0], ways[ours]);
	p->told_way = theirs != ours;
	return theirs != ours;
}

/* With two ways to elect a coordinator there would be two coordinators. */
static bool say_registry(struct peer *p, const char *theirs)
{
	const char *ours = p->net->self.registry;
	bool other = strcmp(theirs, ours) != 0;
	if (other && !p->told_registry)
		log_warn("node %s elects coordinators %s%s, and this one %s%s: it is not let in. Let registry be alike "
			 "on "
			 "all nodes",
			 p->name, *theirs ? "in a registry, under " : "without a registry",
			 *theirs ? quoted(theirs).text : "", *ours ? "in a registry, under " : "without a registry",
			 *ours ? quoted(ours).text : "");
	p->told_registry = other;
	return other;
}

struct peer *peer_proved(struct net *net, struct link *l, const char *name)
{
	int node = roster_find(net->known, name);
	return node >= 0 && credentials_proved(l->ssl, (unsigned)node) ? &net->peers[node] : NULL;
}

struct peer *peer_of_hello(struct net *net, struct link *l, const struct frame *frame, struct hello *out)
{
	int rc = hello_decode(frame->body, frame->len, out);
	struct peer *p = rc == -EBADMSG ? NULL : peer_proved(net, l, out->from);
	if (!p || strcmp(out->to, net->self.from) != 0)
		return NULL;
	say_protocol(p, out->protocol);
	if (rc)
		return NULL;
	bool other = CRYPTO_memcmp(out->roster, net->self.roster, HELLO_ROSTER) != 0;
	say_roster(p, other);
	other |= say_way(p, out->way);
	other |= say_registry(p, out->registry);
	other |= p->expected && p->expected != out->incarnation; /* another process of that name, or an earlier one */
	return other ? NULL : p;
}
