#include "dispatch/peer_dispatch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"
#include "control/room.h"
#include "dispatch/coordinator_link.h"
#include "dispatch/dispatch.h"
#include "format/message/peer_coord.h"
#include "job/room.h"
#include "machine/room.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"
#include "save/room.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSED_S = 10, PATIENCE_S = 10 };

static const char *name_of(const struct dispatch *dispatch, unsigned node)
{
	return dispatch->peers->roster->nodes[node].name;
}

static void on_up(void *arg, unsigned node)
{
	struct dispatch *dispatch = arg;
	log_info("node %s is there", name_of(dispatch, node));
	hand_overs_node_up(dispatch->control, node);
	replica_node_up(dispatch->peers->replica, node);
	coordinator_link_node(dispatch, node);
	hosts_node_up(dispatch->control, node);
}

static void on_down(void *arg, unsigned node, int rc)
{
	struct dispatch *dispatch = arg;
	char why[WIRE_TEXT_MAX];
	snprintf(why, sizeof(why), "node %s is lost: %s", name_of(dispatch, node), err_name(rc));
	log_warn("%s", why);
	replica_node_down(dispatch->peers->replica, node);
	reach_node_down(dispatch->control, node);
	hosts_node_down(dispatch->control, node, rc, why);
	coordinator_link_node(dispatch, node);
}

static bool on_minds(void *arg, unsigned node)
{
	struct dispatch *dispatch = arg;
	return coordinator_link_minds(dispatch, node) || replica_minds(dispatch->peers->replica, node);
}

/* Of another term: who sent it, or we, have yet to hear who coordinates the job. Without a registry that is always the same, and whoever says
 * otherwise cannot go on. */
static int strange(const struct dispatch *dispatch, unsigned node, const char *job, uint16_t type, struct err *err)
{
	if (!dispatch->control->registry)
		return err_set(err, -EPROTO, "%s of job %s, which node %s coordinates", peer_coord_name(type), job,
			       name_of(dispatch, FIRST_NODE));
	log_debug("job %s: %s of node %s is of another term", job, peer_coord_name(type), name_of(dispatch, node));
	return 0;
}

static int take_report(struct dispatch *dispatch, unsigned node, uint16_t type, uint64_t term, const void *body,
		       size_t len, struct err *err)
{
	struct peer_report report;
	int rc = peer_report_decode(type, body, len, &report, err);
	if (rc)
		return rc;
	if (type == PEER_RECOVERED)
		recovery_notes_hear(dispatch->storage, dispatch->peers->roster, node, report.job, &report.recovered);
	else if (election_believes(dispatch->control, report.job, dispatch->peers->self, term))
		host_report(dispatch->control, node, true, &report);
	else
		return strange(dispatch, node, report.job, type, err);
	return 0;
}

static int take_order(struct dispatch *dispatch, unsigned node, uint16_t type, uint64_t term, const void *body,
		      size_t len, struct err *err)
{
	struct peer_order order;
	int rc = peer_order_decode(type, body, len, &order, err);
	if (rc)
		return rc;
	bool believed = election_believes(dispatch->control, order.job, node, term) ||
			election_hears(dispatch->control, order.job, node, term);
	if (believed && type == PEER_RESIGN) {
		election_resigned(dispatch->control, order.job);
	} else if (believed) {
		orders_obey(dispatch, &order);
	} else {
		rc = strange(dispatch, node, order.job, type, err);
	}
	peer_order_free(&order);
	return rc;
}

static int take_coordination(struct dispatch *dispatch, unsigned node, uint16_t type, const void *body, size_t len,
			     struct err *err)
{
	uint64_t term;
	if (!peer_term_take(&body, &len, &term))
		return err_set(err, -EBADMSG, "%s message without a term", peer_coord_name(type));
	return type < PEER_REPORT_END ? take_report(dispatch, node, type, term, body, len, err)
				      : take_order(dispatch, node, type, term, body, len, err);
}

/* What nobody understands is of another release, or the other side is broken: either way it cannot go on. */
static void on_message(void *arg, unsigned node, uint16_t type, const void *body, size_t len)
{
	struct dispatch *dispatch = arg;
	struct err err = {{0}};
	int rc = 0;
	if (type >= PEER_OFFER && type < PEER_TYPE_END)
		replica_message(dispatch->peers->replica, node, type, body, len);
	else if (type >= PEER_REACH_ASK && type < PEER_REACH_END)
		rc = reach_message(dispatch->control, node, type, body, len, &err);
	else if (type < PEER_REPORT_END || (type >= PEER_ADOPT && type < PEER_ORDER_END))
		rc = take_coordination(dispatch, node, type, body, len, &err);
	else
		rc = err_set(&err, -EPROTO, "a message of type %u with %zu bytes, which is not known here", type, len);
	if (!rc)
		return;
	log_warn("node %s sends %s: its session ends", name_of(dispatch, node), err.text);
	net_drop(dispatch->peers->net, node, -EPROTO);
}

/* A node may answer what it likes: nothing but a notice comes of it. */
static void on_clock(void *arg, unsigned node, const struct net_clock *clock)
{
	struct dispatch *dispatch = arg;
	machine_hear_peer(dispatch->runtime->machine, name_of(dispatch, node), clock->round_trip_ns, clock->ahead_ns);
}

static void ask_clocks(struct dispatch *dispatch, uint64_t now)
{
	uint64_t every_ms = dispatch->runtime->config.check_interval_ms;
	if (!every_ms || now < dispatch->next_clocks)
		return;
	dispatch->next_clocks = now + every_ms * CLOCK_NS_PER_MS;
	net_ask_clocks(dispatch->peers->net);
}

int peers_event_fd(struct dispatch *dispatch)
{
	return dispatch->peers->net ? net_event_fd(dispatch->peers->net) : -1;
}

void peers_poll(struct dispatch *dispatch)
{
	if (!dispatch->peers->net)
		return;
	net_poll(dispatch->peers->net);
	replica_tick(dispatch->peers->replica); /* what has ended lets the next begin */
}

static void on_net(void *arg, uint32_t events)
{
	(void)events;
	peers_poll(arg);
}

static void on_registry(void *arg, uint32_t events)
{
	(void)events;
	election_poll(arg);
}

static const struct election_events moves = {coordinator_link_moved};

static struct net_credentials credentials_of(const struct config *config)
{
	return (struct net_credentials){.key = config->cluster_key,
					.key_old = config->cluster_key_old,
					.cert = config->cluster_cert,
					.cert_key = config->cluster_cert_key,
					.ca = config->cluster_ca};
}

/* Either the key, or all that belongs to a certificate. */
static int check_credentials(const struct config *config, struct err *err)
{
	if (config->cluster_key_old && !config->cluster_key)
		return err_set(err, -EINVAL, "[node] cluster-key-old counts beside cluster-key alone");
	unsigned n = (config->cluster_cert != NULL) + (config->cluster_cert_key != NULL) + (config->cluster_ca != NULL);
	if (config->cluster_key ? !n : n == 3)
		return 0;
	if (!config->cluster_key && !n)
		return err_set(err, -EINVAL,
			       "[node] cluster needs cluster-key, a file with the secret that all nodes share, or "
			       "cluster-cert, cluster-cert-key and cluster-ca");
	return err_set(err, -EINVAL,
		       "[node] cluster takes cluster-key alone, or cluster-cert, cluster-cert-key and "
		       "cluster-ca together");
}

/* ---- an open roster -------------------------------------------------------------------------------------------- */

static int parse_address(const struct config *config, struct roster_node *self, struct err *err)
{
	char line[NAME_NODE_MAX + SETTING_TEXT_MAX + 1];
	struct roster *one;
	int n = snprintf(line, sizeof(line), "%s %s", config->node, config->node_address);
	int rc = roster_parse("[node] node-address", line, (size_t)n, &one, err);
	if (rc)
		return rc;
	*self = one->nodes[0];
	bool alone = one->n == 1;
	roster_free(one);
	return alone ? 0 : err_set(err, -EINVAL, "[node] node-address: more than one line");
}

/* Others are told an address, so that none of them asks for names. Who listens there already has our place: then we are not to take it. */
static int try_address(struct roster_node *self, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
	char port[8];
	int one = 1;
	snprintf(port, sizeof(port), "%u", self->port);
	int rc = getaddrinfo(self->host, port, &hints, &found);
	if (rc)
		return err_set(err, -EINVAL, "[node] node-address: cannot look up %s: %s", self->host,
			       gai_strerror(rc));
	AUTO_CLOSE int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, 1) < 0)
		rc = err_set(err, -errno, "node %s at %s:%u: cannot listen there: %s", self->name, self->host,
			     self->port, err_name(errno));
	else if (getnameinfo(found->ai_addr, found->ai_addrlen, self->host, sizeof(self->host), NULL, 0,
			     NI_NUMERICHOST))
		rc = err_set(err, -EINVAL, "[node] node-address: %s has no numeric form", self->host);
	freeaddrinfo(found);
	return rc;
}

int peers_enter(struct dispatch *dispatch, const struct roster_node *self, struct err *err)
{
	int rc = members_open(dispatch->control, self, clock_wall() / CLOCK_NS_PER_MS, err);
	return rc ? rc : election_open(dispatch->control, &moves, err);
}

/* Of an open roster: the registry is opened first, for it says who we are. */
static int find_place(struct dispatch *dispatch, struct err *err)
{
	struct roster_node self;
	int rc = check_credentials(&dispatch->runtime->config, err);
	if (!rc)
		rc = parse_address(&dispatch->runtime->config, &self, err);
	if (!rc)
		rc = try_address(&self, err);
	if (!rc && getrandom(&self.incarnation, sizeof(self.incarnation), 0) != sizeof(self.incarnation))
		rc = err_set(err, -errno, "there are no random numbers: %s", err_name(errno));
	return rc ? rc : peers_enter(dispatch, &self, err);
}

static int check_roster(const struct config *config, struct err *err)
{
	if (config->cluster && config->node_address)
		return err_set(err, -EINVAL,
			       "[node] cluster and node-address: the nodes stand in a file, or in the registry");
	if (config->node_address && !config->registry)
		return err_set(err, -EINVAL,
			       "[node] node-address needs registry, in which the nodes of the cluster stand");
	if (config->registry && !config->node_address && !config->cluster)
		return err_set(
			err, -EINVAL,
			"[node] registry needs node-address, at which other nodes reach this one (HOST:PORT), or "
			"cluster, a file with all nodes");
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int find_self(struct dispatch *dispatch, struct err *err)
{
	const struct config *config = &dispatch->runtime->config;
	int rc = check_credentials(config, err);
	if (!rc)
		rc = roster_read(config->cluster, &dispatch->peers->roster, err);
	if (rc)
		return rc;
	rc = roster_find(dispatch->peers->roster, config->node);
	if (rc < 0)
		return err_set(err, rc, "this node's name, %s, is not in the roster %s: [node] name sets it",
			       config->node, config->cluster);
	dispatch->peers->self = (unsigned)rc;
	return 0;
}

static int open_replica(struct dispatch *dispatch, struct err *err)
{
	const struct replica_config config = {.pool = dispatch->runtime->pool,
					      .memory = &dispatch->runtime->memory,
					      .memory_limit = &dispatch->runtime->config.memory_limit,
					      .net = dispatch->peers->net,
					      .roster = dispatch->peers->roster,
					      .self = dispatch->peers->self,
					      .bandwidth = &dispatch->runtime->config.net_bandwidth,
					      .patience_ns = PATIENCE_S * CLOCK_NS_PER_S,
					      .find = copying_find,
					      .own = keeping_list,
					      .arg = dispatch->jobs};
	return replica_new(&config, &dispatch->peers->replica) ? err_set(err, -ENOMEM, "no memory for copies") : 0;
}

int peers_find(struct dispatch *dispatch, struct err *err)
{
	int rc = check_roster(&dispatch->runtime->config, err);
	if (rc || !(dispatch->runtime->config.cluster || dispatch->runtime->config.node_address))
		return rc;
	return dispatch->runtime->config.cluster ? find_self(dispatch, err) : find_place(dispatch, err);
}

int peers_join(struct dispatch *dispatch, struct err *err)
{
	if (!dispatch->control->members)
		return 1;
	election_poll(dispatch->control);
	members_tick(dispatch->control);
	return members_state(dispatch->control, err);
}

int peers_out(const struct dispatch *dispatch, struct err *err)
{
	int rc = members_state(dispatch->control, err);
	return rc < 0 ? rc : 0;
}

int peers_join_fd(const struct dispatch *dispatch)
{
	return election_event_fd(dispatch->control);
}

int peers_open(struct dispatch *dispatch, struct err *err)
{
	const struct config *config = &dispatch->runtime->config;
	if (!dispatch->peers->roster)
		return 0;
	char prefix[ELECTION_PREFIX_MAX];
	int rc = election_prefix(dispatch->control, prefix, err);
	if (rc)
		return rc;
	const struct net_events events = {.up = on_up,
					  .down = on_down,
					  .message = on_message,
					  .clock = on_clock,
					  .minds = on_minds,
					  .arg = dispatch};
	const struct net_config net = {
		.roster = dispatch->peers->roster,
		.self = dispatch->peers->self,
		.provider = setting_find(SCOPE_NODE, "fabric-provider")->choices[config->fabric_provider],
		.copies = setting_seals_copies(config)            ? NET_COPIES_SEALED
			  : config->fabric_provider == FABRIC_TCP ? NET_COPIES_BARE
								  : NET_COPIES_FABRIC,
		.credentials = credentials_of(config),
		.incarnation = dispatch->peers->roster->nodes[dispatch->peers->self].incarnation,
		.registry = prefix,
		.peer_timeout_ns = config->peer_timeout_ms * CLOCK_NS_PER_MS};
	rc = net_new(&net, &events, &dispatch->peers->net, err);
	if (!rc)
		rc = open_replica(dispatch, err);
	if (!rc && !loop_watch(dispatch->runtime->loop, net_event_fd(dispatch->peers->net), EPOLLIN, on_net, dispatch))
		rc = err_set(err, -ENOMEM, "cannot watch the net");
	if (!rc && !dispatch->control->members)
		rc = election_open(dispatch->control, &moves, err);
	if (!rc && dispatch->control->registry &&
	    !loop_watch(dispatch->runtime->loop, election_event_fd(dispatch->control), EPOLLIN, on_registry,
			dispatch->control))
		rc = err_set(err, -ENOMEM, "cannot watch the registry");
	if (!rc)
		log_info("node %u of %u in the cluster of %s, copies between nodes are %s", dispatch->peers->self + 1,
			 dispatch->peers->roster->n, config->cluster ? config->cluster : config->registry,
			 setting_seals_copies(config) ? "sealed" : "not sealed");
	return rc;
}

void peers_renew(struct dispatch *dispatch)
{
	struct err err;
	struct net_credentials files = credentials_of(&dispatch->runtime->config);
	if (!dispatch->peers->net)
		return;
	if (check_credentials(&dispatch->runtime->config, &err) || net_renew(dispatch->peers->net, &files, &err))
		log_warn("what this node proves itself with stays as it was: %s", err.text);
	else
		log_info("what this node proves itself with has been read again");
}

/* Another key cannot be told from a stranger. */
void peers_tick(struct dispatch *dispatch, uint64_t now)
{
	if (!dispatch->peers->net)
		return;
	election_tick(dispatch->control);
	replica_tick(dispatch->peers->replica);
	ask_clocks(dispatch, now);
	if (now < dispatch->next_refused)
		return;
	uint64_t refused = net_counts(dispatch->peers->net).refused;
	dispatch->next_refused = clock_deadline(REFUSED_S * CLOCK_NS_PER_S);
	if (refused > dispatch->refused)
		log_info("%lu connections from the network were refused: of nodes with another key, or of strangers",
			 (unsigned long)(refused - dispatch->refused));
	dispatch->refused = refused;
}

void peers_close(struct dispatch *dispatch)
{
	election_close(dispatch->control);
	net_free(dispatch->peers->net);
	dispatch->peers->net = NULL;
	replica_free(dispatch->peers->replica);
	dispatch->peers->replica = NULL;
	members_close(dispatch->control);
	roster_free(dispatch->peers->roster);
	dispatch->peers->roster = NULL;
}
