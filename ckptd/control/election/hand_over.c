#include "control/election/hand_over.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "control/election/election.h"
#include "control/election/reach.h"
#include "control/host/coordinator_host_private.h"
#include "format/message/peer_reach.h"
#include "participant/room.h"
#include "replication/room.h"
#include "runtime/room.h"

#include <stdio.h>
#include <string.h>

static uint64_t limit_of(const struct control *control)
{
	return control->runtime->config.peer_timeout_ms * CLOCK_NS_PER_MS;
}

static const char *name_of(const struct control *control, uint32_t node)
{
	return control->peers->roster->nodes[node].name;
}

static bool is_silent(const struct hand_over *h, uint32_t node)
{
	for (unsigned i = 0; i < h->nsilent; i++)
		if (h->silent[i].node == node)
			return true;
	return false;
}

bool hand_over_doubts(const struct control *control, const char *job, uint32_t node)
{
	const struct coordinator_host *host = host_find(control, job);
	return host && is_silent(&host->hand_over, node);
}

bool hand_over_waits(const struct control *control, const char *job)
{
	const struct coordinator_host *host = host_find(control, job);
	return host && host->hand_over.until_ns;
}

/* ---- the question ---------------------------------------------------------------------------------------------- */

/* Its own goodbye, or what it has broken, is no cut. */
static bool may_be_cut(const struct coordinator_host *host, uint32_t node, int rc)
{
	return (rc == -ETIMEDOUT || rc == -ECONNRESET) && coord_needs(host->coord, node) &&
	       host->hand_over.nsilent < HAND_OVER_SILENT && clock_now() - host->begun_ns >= limit_of(host->control) &&
	       election_may_hand_over(host->control, host->job);
}

/* All others of the job. False: they are too many. */
static bool name_all(const struct coordinator_host *host, struct peer_reach *ask)
{
	const struct control *control = host->control;
	for (uint32_t n = 0; n < control->peers->roster->n; n++) {
		if (n == control->peers->self || !coord_has_joined(host->coord, n))
			continue;
		if (ask->n == PEER_REACH_NODES)
			return false;
		ask->nodes[ask->n++] = n;
	}
	return true;
}

static void ask_one(struct coordinator_host *host, uint32_t node, const struct peer_reach *ask)
{
	struct hand_over *h = &host->hand_over;
	const struct control *control = host->control;
	if (h->nasked == HAND_OVER_ASKED || node == control->peers->self || is_silent(h, node) ||
	    !net_is_up(control->peers->net, node) || reach_send(control, node, ask))
		return;
	h->asked[h->nasked++] = (struct hand_over_asked){.node = node};
}

/* Those that have ranks of it first; then the others, of which spares have part in it. */
static bool ask_all(struct coordinator_host *host)
{
	struct hand_over *h = &host->hand_over;
	struct peer_reach ask = {.type = PEER_REACH_ASK, .number = ++host->control->reach_numbers};
	snprintf(ask.job, sizeof(ask.job), "%s", host->job);
	h->number = ask.number;
	h->nasked = 0;
	if (!name_all(host, &ask))
		return false;
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t n = 0; n < host->control->peers->roster->n; n++)
			if (coord_has_joined(host->coord, n) == !pass)
				ask_one(host, n, &ask);
	return h->nasked;
}

static void give_up(struct control *control, struct coordinator_host *host);

bool hand_over_asks(struct coordinator_host *host, uint32_t node, int rc, const char *why)
{
	struct hand_over *h = &host->hand_over;
	if (!may_be_cut(host, node, rc))
		return false;
	struct hand_over_silent *s = &h->silent[h->nsilent++];
	*s = (struct hand_over_silent){.node = node, .rc = rc, .heard_ns = net_heard(host->control->peers->net, node)};
	snprintf(s->why, sizeof(s->why), "%s", why);
	if (!h->until_ns)
		h->until_ns = clock_deadline(limit_of(host->control));
	if (ask_all(host))
		log_info("job %s: node %s is not heard any more: %u other nodes are asked whether they hear it",
			 host->job, name_of(host->control, node), h->nasked);
	else
		give_up(host->control, host);
	return true;
}

/* ---- what comes of it ------------------------------------------------------------------------------------------ */

/* With the first one the host may be over. */
static void give_up(struct control *control, struct coordinator_host *host)
{
	struct hand_over h = host->hand_over;
	char job[NAME_JOB_MAX];
	memcpy(job, host->job, sizeof(job));
	host->hand_over = (struct hand_over){0};
	for (unsigned i = 0; i < h.nsilent; i++)
		host_lose(control, job, h.silent[i].node, h.silent[i].rc, h.silent[i].heard_ns, h.silent[i].why);
}

static void note(const struct coordinator_host *host, uint32_t to, const char *text)
{
	const struct control *control = host->control;
	struct spanlog *log = control->runtime->spanlog;
	struct coord_view v = coord_view(host->coord);
	AUTO_WBUF struct wbuf out = {0};
	log_warn("job %s: %s", host->job, text);
	catalog_event(control->storage->catalog, host->job, (struct step_id){.epoch = v.epoch}, "hand-over", text);
	if (!log)
		return;
	span_begin(&out, log, "hand_over", host->job);
	span_u64(&out, "epoch", v.epoch);
	span_u64(&out, "term", coordinator_term(control, host->job));
	span_u64(&out, "ended_ns", clock_wall());
	span_text(&out, "to", name_of(control, to));
	span_text(&out, "silent", name_of(control, host->hand_over.silent[0].node));
	span_text(&out, "reason", text);
	span_end(log, &out);
}

static void hand_over(struct coordinator_host *host, uint32_t to)
{
	struct control *control = host->control;
	char text[WIRE_TEXT_MAX], job[NAME_JOB_MAX];
	if (host->ended || !election_may_hand_over(control, host->job)) {
		give_up(control, host);
		return;
	}
	snprintf(text, sizeof(text),
		 "node %s is not heard here any more, and node %s hears it and all others: the job is handed over to "
		 "node %s",
		 name_of(control, host->hand_over.silent[0].node), name_of(control, to), name_of(control, to));
	note(host, to, text);
	memcpy(job, host->job, sizeof(job));
	control->hand_overs++;
	election_hand_over(control, job, to);
}

static bool all_said_no(const struct hand_over *h)
{
	for (unsigned i = 0; i < h->nasked; i++)
		if (!h->asked[i].no)
			return false;
	return true;
}

static void heard_no(struct coordinator_host *host, uint32_t node)
{
	struct hand_over *h = &host->hand_over;
	for (unsigned i = 0; i < h->nasked; i++)
		if (h->asked[i].node == node)
			h->asked[i].no = true;
	if (h->until_ns && all_said_no(h))
		give_up(host->control, host);
}

static bool is_asked(const struct hand_over *h, uint32_t node)
{
	for (unsigned i = 0; i < h->nasked; i++)
		if (h->asked[i].node == node)
			return !h->asked[i].no;
	return false;
}

void hand_over_answer(struct control *control, uint32_t node, uint64_t number, bool all)
{
	list_for_safe(it, &control->hosts) {
		struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		const struct hand_over *h = &host->hand_over;
		if (host->deposed || !h->until_ns || h->number != number || !is_asked(h, node))
			continue;
		if (all)
			hand_over(host, node);
		else
			heard_no(host, node);
		return;
	}
}

void hand_overs_node_down(struct control *control, uint32_t node)
{
	list_for_safe(it, &control->hosts) {
		struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (!host->deposed)
			heard_no(host, node);
	}
}

/* What was said to it in vain is not said again: it joins anew. */
void hand_overs_node_up(struct control *control, uint32_t node)
{
	list_for_safe(it, &control->hosts) {
		struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (!host->deposed && is_silent(&host->hand_over, node))
			give_up(control, host);
	}
}

void hand_overs_tick(struct control *control, uint64_t now)
{
	list_for_safe(it, &control->hosts) {
		struct coordinator_host *host = list_entry(it, struct coordinator_host, link);
		if (!host->deposed && host->hand_over.until_ns && now >= host->hand_over.until_ns)
			give_up(control, host);
	}
}
