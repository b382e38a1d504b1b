#include "replication/replication_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cluster/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long nodes have that are there, and how long after the start of this daemon those are waited for that have
 * not come yet. */
#define ANSWER_NS (2 * CLOCK_NS_PER_S)
#define ARRIVAL_NS (3 * CLOCK_NS_PER_S)

enum asked { ASKED_NOT = 0, ASKED, ASKED_ANSWERED };

struct survey {
	struct copied *job;
	uint32_t epoch;
	uint64_t token, deadline;
	void (*done)(void *arg, const struct replica_surveyed *surveyed);
	void *arg;
	struct replica_found *found;
	size_t n, size;
	enum asked nodes[];
};

void survey_end(struct copied *job)
{
	if (job->survey)
		free(job->survey->found);
	free(job->survey);
	job->survey = NULL;
}

/* ---- what is found ------------------------------------------------------------------------------------------------- */

static bool add(struct survey *s, unsigned node, const struct peer_holding *h)
{
	if (s->n == s->size) {
		size_t size = s->size ? 2 * s->size : 64;
		struct replica_found *more = reallocarray(s->found, size, sizeof(*more));
		if (!more)
			return false;
		s->found = more;
		s->size = size;
	}
	s->found[s->n++] = (struct replica_found){
		.node = node, .rank = h->rank, .world = h->world, .owner = h->owner, .id = h->id, .table = h->table};
	return true;
}

struct gathered {
	struct wbuf items;
	uint32_t n;
};

static void gather(void *arg, const struct replica_item *item)
{
	struct gathered *g = arg;
	if (g->n == PEER_HOLDINGS_MAX)
		return;
	g->n++;
	peer_holding_put(&(struct peer_holding){.rank = item->rank,
						.world = item->world,
						.owner = item->owner,
						.id = item->id,
						.table = item->table},
			 &g->items);
}

/* Copies, and what is in the arenas of the ranks here. */
static void gather_all(const struct copied *job, struct gathered *g)
{
	const struct replica_config *config = &job->replica->config;
	replica_inventory(job->replica, job->name, gather, g);
	if (config->own)
		config->own(config->arg, job->name, gather, g);
}

static void add_all(struct survey *s, unsigned node, const struct peer_holdings *m)
{
	size_t before = s->n;
	for (uint32_t i = 0; i < m->n; i++) {
		struct peer_holding h = peer_holding_at(m, i);
		if (add(s, node, &h))
			continue;
		s->n = before;
		return;
	}
	s->nodes[node] = ASKED_ANSWERED;
}

/* ---- for others ---------------------------------------------------------------------------------------------------- */

void survey_asked(struct copied *job, unsigned node, const struct peer_head *m)
{
	AUTO_WBUF struct wbuf body = {0};
	struct gathered g = {0};
	struct peer_holdings reply = {.head = {.epoch = job->epoch, .token = m->token}};
	memcpy(reply.head.job, job->name, sizeof(reply.head.job));
	gather_all(job, &g);
	reply.n = g.n;
	reply.items = g.items.data;
	if (!g.items.failed && !peer_holdings_encode(&reply, &body))
		replica_post(job->replica, node, PEER_HOLDINGS, &body);
	wbuf_free(&g.items);
}

/* ---- our own ------------------------------------------------------------------------------------------------------- */

static void ask(struct survey *s, unsigned node)
{
	s->nodes[node] = ASKED;
	replica_post_head(s->job, node, PEER_SURVEY, s->token);
}

static void finish(struct survey *s)
{
	struct copied *job = s->job;
	const struct roster *roster = job->replica->config.roster;
	struct replica_surveyed out = {
		.job = job->name, .epoch = s->epoch, .known = job->epoch, .found = s->found, .n = s->n};
	for (unsigned i = 0; i < roster->n; i++) {
		size_t at = strlen(out.names);
		if (s->nodes[i] == ASKED_ANSWERED || !roster_has(roster, i))
			continue;
		if (!out.unheard++ || at + strlen(roster->nodes[i].name) + 3 < sizeof(out.names))
			snprintf(out.names + at, sizeof(out.names) - at, "%s%s", at ? ", " : "", roster->nodes[i].name);
	}
	job->survey = NULL;
	s->done(s->arg, &out);
	free(s->found);
	free(s);
}

/* Of nodes that are not there some may be on their way, when this daemon has just been started. */
static void advance(struct survey *s)
{
	struct replica *r = s->job->replica;
	uint64_t now = clock_now();
	bool young = now < r->born_ns + ARRIVAL_NS;
	for (unsigned i = 0; now < s->deadline && i < r->config.roster->n; i++)
		if (s->nodes[i] == ASKED ||
		    (s->nodes[i] == ASKED_NOT && young && !r->met[i] && roster_has(r->config.roster, i)))
			return;
	finish(s);
}

void survey_answer(struct copied *job, unsigned node, const struct peer_holdings *m)
{
	struct survey *s = job->survey;
	if (!s || s->token != m->head.token || s->nodes[node] != ASKED)
		return;
	add_all(s, node, m);
	job->reached[node] |= m->n; /* what it holds it is to forget, also if somebody else has sent that */
	if (s->nodes[node] != ASKED_ANSWERED)
		s->nodes[node] = ASKED_NOT;
	advance(s);
}

void survey_tick(struct copied *job)
{
	if (job->survey)
		advance(job->survey);
}

void survey_up(struct copied *job, unsigned node)
{
	if (job->survey && job->survey->nodes[node] != ASKED_ANSWERED)
		ask(job->survey, node);
}

void survey_down(struct copied *job, unsigned node)
{
	struct survey *s = job->survey;
	if (s && s->nodes[node] == ASKED)
		s->nodes[node] = ASKED_NOT;
}

static void look_here(struct survey *s)
{
	struct gathered g = {0};
	unsigned self = s->job->replica->config.self;
	gather_all(s->job, &g);
	if (!g.items.failed)
		add_all(s, self, &(struct peer_holdings){.n = g.n, .items = g.items.data});
	wbuf_free(&g.items);
}

int replica_survey(struct replica *r, const char *name, uint32_t epoch,
		   void (*done)(void *arg, const struct replica_surveyed *surveyed), void *arg)
{
	struct copied *job = copied_get(r, name);
	unsigned n = r->config.roster->n;
	struct survey *s = job ? calloc(1, sizeof(*s) + r->config.roster->max * sizeof(s->nodes[0])) : NULL;
	if (!s)
		return -ENOMEM;
	if (epoch < job->epoch) {
		free(s);
		return -ESTALE;
	}
	replica_epoch(r, name, epoch);
	survey_end(job);
	s->job = job;
	s->epoch = epoch;
	s->token = ++r->tokens;
	s->deadline = clock_deadline(max_u64(ANSWER_NS, ARRIVAL_NS));
	s->done = done;
	s->arg = arg;
	job->survey = s;
	look_here(s);
	for (unsigned i = 0; i < n; i++)
		if (i != r->config.self && net_is_up(r->config.net, i))
			ask(s, i);
	advance(s);
	return 0;
}
