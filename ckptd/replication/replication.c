#include "replication/replication_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/room.h"

#include <stdio.h>
#include <string.h>

enum {
	OUTBOX_MAX = 1024,
	JOBS_MAX = 4096,
	JOBS_SPARE = 64,        /* of these: for those that come before the next tick */
	BYTES_PER_S = 128 << 20 /* of touching and digesting, at the least */
};

struct letter {
	struct list link;
	unsigned node;
	uint64_t session;
	enum peer_type type;
	size_t len;
	uint8_t body[];
};

int replica_new(const struct replica_config *config, struct replica **out)
{
	struct replica *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->met = calloc(config->roster->max, sizeof(*r->met));
	if (!r->met) {
		free(r);
		return -ENOMEM;
	}
	r->config = *config;
	r->born_ns = clock_now();
	list_init(&r->jobs);
	list_init(&r->outbox);
	throttle_init(&r->throttle, config->bandwidth);
	r->bucket.rate = &r->no_rate;
	*out = r;
	return 0;
}

static void copied_free(struct copied *job)
{
	survey_end(job);
	list_remove(&job->link);
	free(job->reached);
	free(job);
}

static void forget_placement(struct replica *r)
{
	for (unsigned k = 0; k < REPLICA_COPIES_MAX; k++)
		placement_free(&r->placement[k]);
}

void replica_free(struct replica *r)
{
	if (!r)
		return;
	list_for_safe(node, &r->jobs) {
		struct copied *job = list_entry(node, struct copied, link);
		fetch_end(job, 0);
		send_end(job, 0);
		serve_end(job);
		hold_end(job);
		copied_free(job);
	}
	for (struct list *node; (node = list_pop(&r->outbox));)
		free(list_entry(node, struct letter, link));
	forget_placement(r);
	free(r->met);
	free(r);
}

const char *replica_node(const struct replica *r, unsigned node)
{
	return r->config.roster->nodes[node].name;
}

uint64_t replica_until(const struct replica *r, uint64_t bytes)
{
	return clock_now() + r->config.patience_ns + bytes / BYTES_PER_S * CLOCK_NS_PER_S;
}

const struct replica_counts *replica_counts(const struct replica *r)
{
	return &r->counts;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

struct copied *copied_find(const struct replica *r, const char *name)
{
	list_for(node, &r->jobs) {
		struct copied *job = list_entry(node, struct copied, link);
		if (!strcmp(job->name, name))
			return job;
	}
	return NULL;
}

static bool has_nothing(const struct copied *job)
{
	return list_empty(&job->shipments) && list_empty(&job->holdings) && list_empty(&job->servings) &&
	       list_empty(&job->fetches) && !job->survey;
}

/* A daemon sees more jobs than it has place for. Those that are over leave an epoch behind, which matters for as long as somebody may
 * speak in an older one. */
static void forget_oldest(struct replica *r)
{
	struct copied *oldest = NULL;
	if (r->njobs <= JOBS_MAX - JOBS_SPARE)
		return;
	list_for(it, &r->jobs) {
		struct copied *job = list_entry(it, struct copied, link);
		if (has_nothing(job) && (!oldest || job->used < oldest->used))
			oldest = job;
	}
	if (!oldest)
		return;
	copied_free(oldest);
	r->njobs--;
}

struct copied *copied_get(struct replica *r, const char *name)
{
	struct copied *job = copied_find(r, name);
	if (job)
		job->used = ++r->uses;
	if (job || r->njobs == JOBS_MAX || !(job = calloc(1, sizeof(*job))))
		return job;
	job->reached = calloc(r->config.roster->max, sizeof(*job->reached));
	if (!job->reached) {
		free(job);
		return NULL;
	}
	r->njobs++;
	job->used = ++r->uses;
	snprintf(job->name, sizeof(job->name), "%s", name);
	job->replica = r;
	list_init(&job->shipments);
	list_init(&job->holdings);
	list_init(&job->servings);
	list_init(&job->fetches);
	list_push(&r->jobs, &job->link);
	return job;
}

void replica_epoch(struct replica *r, const char *name, uint32_t epoch)
{
	struct copied *job = copied_get(r, name);
	if (!job || epoch <= job->epoch)
		return;
	job->epoch = epoch;
	job->forgotten = (struct step_id){0}; /* what is offered from now on is asked for: earlier offers are void */
	/* First memory is closed, before anything else happens in the new epoch. */
	hold_epoch(job);
	serve_end(job);
	send_epoch(job);
	fetch_epoch(job);
}

static bool is_sent_to(const struct shipment *s, unsigned node)
{
	list_for(it, &s->ways)
		if (target_of(it)->node == node)
			return true;
	return false;
}

bool replica_minds(const struct replica *r, unsigned node)
{
	list_for(it, &r->jobs) {
		const struct copied *job = list_entry(it, struct copied, link);
		list_for(at, &job->shipments)
			if (is_sent_to(shipment_of(at), node))
				return true;
	}
	return false;
}

uint32_t replica_known_epoch(const struct replica *r, const char *name)
{
	const struct copied *job = copied_find(r, name);
	return job ? job->epoch : 0;
}

static void post_forget(struct copied *job, struct step_id before, bool all)
{
	struct replica *r = job->replica;
	for (unsigned node = 0; job->epoch && node < r->config.roster->n; node++) {
		AUTO_WBUF struct wbuf body = {0};
		struct peer_forget m = {.head.epoch = job->epoch, .before = before};
		memcpy(m.head.job, job->name, sizeof(m.head.job));
		if (node != r->config.self && (all || job->reached[node]) && net_is_up(r->config.net, node) &&
		    !peer_forget_encode(&m, &body))
			replica_post(r, node, PEER_FORGET, &body);
	}
}

void replica_forget(struct replica *r, const char *name, struct step_id before)
{
	struct copied *job = copied_find(r, name);
	if (!job)
		return;
	hold_forget(job, before);
	send_forget(job, before);
	post_forget(job, before, false);
}

void replica_end(struct replica *r, const char *name)
{
	struct copied *job = copied_find(r, name);
	if (!job || !job->epoch)
		return;
	struct step_id all = {.step = STEP_MAX, .epoch = job->epoch}; /* it may begin anew, in a later one */
	survey_end(job);
	fetch_end(job, -ESHUTDOWN);
	send_end(job, -ESHUTDOWN);
	hold_forget(job, all);
	post_forget(job, all, true);
}

void replica_leave(struct replica *r, const char *name)
{
	struct copied *job = copied_find(r, name);
	if (!job)
		return;
	fetch_end(job, -ESHUTDOWN);
	send_end(job, -ESHUTDOWN);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void post_letter(struct replica *r, unsigned node, enum peer_type type, const struct wbuf *body)
{
	struct letter *letter = r->noutbox < OUTBOX_MAX ? malloc(sizeof(*letter) + body->len) : NULL;
	if (!letter) { /* nobody waits for ever: a new session begins with what there is */
		net_drop(r->config.net, node, -ENOBUFS);
		return;
	}
	*letter = (struct letter){
		.node = node, .session = net_session(r->config.net, node), .type = type, .len = body->len};
	memcpy(letter->body, body->data, body->len);
	list_push(&r->outbox, &letter->link);
	r->noutbox++;
}

static bool has_letter(const struct replica *r, unsigned node)
{
	list_for(it, &r->outbox)
		if (list_entry(it, struct letter, link)->node == node)
			return true;
	return false;
}

void replica_post(struct replica *r, unsigned node, enum peer_type type, const struct wbuf *body)
{
	int rc = has_letter(r, node) ? -ENOBUFS : net_send(r->config.net, node, (uint16_t)type, body);
	if (rc == -ENOBUFS || rc == -ENOMEM)
		post_letter(r, node, type, body);
}

void replica_post_head(struct copied *job, unsigned node, enum peer_type type, uint64_t token)
{
	AUTO_WBUF struct wbuf body = {0};
	struct peer_head m = {.epoch = job->epoch, .token = token};
	memcpy(m.job, job->name, sizeof(m.job));
	if (!peer_head_encode(&m, &body))
		replica_post(job->replica, node, type, &body);
}

void replica_refuse(struct copied *job, unsigned node, uint64_t token, int rc, const char *text)
{
	AUTO_WBUF struct wbuf body = {0};
	struct peer_refused m = {.head = {.epoch = job->epoch, .token = token}, .rc = rc};
	memcpy(m.head.job, job->name, sizeof(m.head.job));
	snprintf(m.text, sizeof(m.text), "%s", text);
	job->replica->counts.refused++;
	if (!peer_refused_encode(&m, &body))
		replica_post(job->replica, node, PEER_REFUSED, &body);
}

static void send_letters(struct replica *r)
{
	bool full = false;
	list_for_safe(it, &r->outbox) {
		struct letter *letter = list_entry(it, struct letter, link);
		struct wbuf body = {.data = letter->body, .len = letter->len};
		bool void_now = letter->session != net_session(r->config.net, letter->node);
		/* One node's full queue holds back what is for others, too, for a tick: order is kept simply. */
		if (!void_now &&
		    (full || (full = net_send(r->config.net, letter->node, (uint16_t)letter->type, &body) == -ENOBUFS)))
			continue;
		list_remove(it);
		free(letter);
		r->noutbox--;
	}
}

/* NULL: an old epoch's, to which nothing is said. A newer one is news, and closes what belongs to older ones: this node may hold copies for
 * a job that it has no rank of, and that nobody tells it about. */
static struct copied *admit(struct replica *r, const struct peer_head *head)
{
	struct copied *job = copied_get(r, head->job);
	if (!job)
		return NULL;
	if (head->epoch < job->epoch) {
		r->counts.stale++;
		return NULL;
	}
	replica_epoch(r, head->job, head->epoch);
	return job;
}

#define TAKE(message, call)                                                                                            \
	do {                                                                                                           \
		struct peer_##message m;                                                                               \
		rc = peer_##message##_decode(body, len, &m, &err);                                                     \
		struct copied *job = rc ? NULL : admit(r, &m.head);                                                    \
		if (job)                                                                                               \
			call;                                                                                          \
	} while (0)

static int take_head(struct replica *r, unsigned node, uint16_t type, const void *body, size_t len, struct err *err)
{
	struct peer_head m;
	int rc = peer_head_decode(type, body, len, &m, err);
	struct copied *job = rc ? NULL : copied_find(r, m.job);
	/* A question opens nothing: who asks in an old epoch learns that there is a newer one. */
	if (rc || !job || type != PEER_SURVEY || m.epoch >= job->epoch)
		job = rc ? NULL : admit(r, &m);
	if (!job)
		return rc;
	if (type == PEER_SEAL)
		hold_seal(job, node, &m);
	else if (type == PEER_SURVEY)
		survey_asked(job, node, &m);
	else if (type == PEER_HELD)
		send_held(job, node, &m);
	else if (!hold_release(job, node, &m))
		serve_release(job, node, &m);
	return 0;
}

void replica_message(struct replica *r, unsigned node, uint16_t type, const void *body, size_t len)
{
	struct err err = {{0}};
	int rc = 0;
	switch (type) {
	case PEER_OFFER:
		TAKE(offer, hold_offer(job, node, &m));
		break;
	case PEER_TICKET:
		TAKE(open, send_ticket(job, node, &m));
		break;
	case PEER_REFUSED:
		TAKE(refused, if (!send_refused(job, node, &m)) fetch_refused(job, node, &m));
		break;
	case PEER_FETCH:
		TAKE(fetch, serve_fetch(job, node, &m));
		break;
	case PEER_SOURCE:
		TAKE(source, fetch_source(job, node, &m));
		break;
	case PEER_FORGET:
		TAKE(forget, hold_forget(job, m.before));
		break;
	case PEER_HOLDINGS:
		TAKE(holdings, survey_answer(job, node, &m));
		break;
	case PEER_SEAL:
	case PEER_HELD:
	case PEER_RELEASE:
	case PEER_SURVEY:
		rc = take_head(r, node, type, body, len, &err);
		break;
	default:
		rc = err_set(&err, -EBADMSG, "a message of type %u", type);
	}
	if (!rc)
		return;
	log_warn("node %s breaks the protocol of copies: %s", replica_node(r, node), err.text);
	net_drop(r->config.net, node, -EPROTO);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

void replica_node_up(struct replica *r, unsigned node)
{
	forget_placement(r);
	r->met[node] = true;
	list_for(it, &r->jobs) {
		send_up(list_entry(it, struct copied, link), node);
		survey_up(list_entry(it, struct copied, link), node);
	}
}

void replica_node_down(struct replica *r, unsigned node)
{
	forget_placement(r);
	list_for_safe(it, &r->jobs) {
		struct copied *job = list_entry(it, struct copied, link);
		hold_down(job, node);
		serve_down(job, node);
		fetch_down(job, node);
		send_down(job, node);
		survey_down(job, node);
	}
}

void replica_tick(struct replica *r)
{
	send_letters(r);
	throttle_pump(&r->throttle);
	forget_oldest(r);
	list_for_safe(it, &r->jobs) {
		struct copied *job = list_entry(it, struct copied, link);
		hold_tick(job);
		serve_tick(job);
		fetch_tick(job);
		send_tick(job);
		survey_tick(job);
	}
}

bool replica_busy(const struct replica *r)
{
	bool busy = r->noutbox || throttle_waiting(&r->throttle);
	list_for(it, &r->jobs) {
		const struct copied *job = list_entry(it, struct copied, link);
		busy = busy || send_busy(job) || !list_empty(&job->fetches) || job->survey;
	}
	return busy;
}
