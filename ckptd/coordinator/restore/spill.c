/* What is newest in memory, written before the world changes: by the nodes that have it, and for those that are lost by who holds their
 * copies. It is written under the epoch that nobody has entered: no directory of that name was ever made, so that nobody who was given
 * up for lost, and lives, has one open. */
#include "coordinator/restore/spill.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_NS CLOCK_NS_PER_S

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void coord_spill_free(struct coord *c)
{
	for (uint32_t o = 0; c->spill.owners && o < c->nnodes; o++)
		node_holdings_free(&c->spill.owners[o].holdings);
	free(c->spill.owners);
	free(c->spill.senders);
	free(c->spill.had);
	free(c->spill.remembered);
	c->spill.owners = NULL;
	c->spill.senders = NULL;
	c->spill.had = NULL;
	c->spill.remembered = NULL;
}

static void end(struct coord *c)
{
	coord_spill_free(c);
	coord_set_spill(c, SPILL_ENDED);
	coord_saves_resume(c);
}

bool coord_spill_writes(const struct coord *c)
{
	return c->spill.state >= SPILL_GATHER && c->spill.state < SPILL_ENDED;
}

static void add_text(struct coord *c, const char *text)
{
	char *all = c->spill.text;
	size_t at = strlen(all);
	const char *between = at ? "; " : "";
	if (*text && at + 8 < WIRE_TEXT_MAX)
		snprintf(all + at, WIRE_TEXT_MAX - at, "%s%.*s", between,
			 (int)(WIRE_TEXT_MAX - at - strlen(between) - 1), text);
}

static void say_why(struct coord *c, int rc, const char *why)
{
	char text[2 * WIRE_TEXT_MAX];
	struct step_id id = c->spill.id;
	snprintf(text, sizeof(text), "step %lu epoch %u, in memory only, cannot be written: %s (%s)",
		 (unsigned long)id.step, id.epoch, why, err_name(rc));
	add_text(c, text);
}

/* The epoch was raised, or who was asked has changed: it is to be begun again. */
bool coord_spill_interrupt(struct coord *c)
{
	bool looks = c->spill.state == SPILL_LOOK;
	if (looks)
		coord_set_spill(c, SPILL_NONE);
	return looks;
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static void order(struct coord *c, uint32_t owner, enum peer_spill_phase phase)
{
	const struct coord_spiller *o = &c->spill.owners[owner];
	struct peer_order m = {.type = PEER_SPILL,
			       .spill = {.owner = owner,
					 .phase = phase,
					 .as = c->spill.as,
					 .parts = o->holdings.parts,
					 .bring = {.id = c->spill.id, .world = c->world}}};
	coord_order(c, o->writer, &m);
}

static void begin(struct coord *c, enum coord_spill_state state)
{
	coord_set_spill(c, state);
	c->spill.waiting = 0;
	c->spill.asked_ns = clock_now();
	each_owner(c, o)
	{
		c->spill.owners[o].answered = false;
		c->spill.waiting++;
	}
}

/* Whoever is told may answer before the next one hears of it. */
static void order_all(struct coord *c, enum coord_spill_state state, enum peer_spill_phase phase)
{
	begin(c, state);
	for (uint32_t o = 0; o < c->nnodes && c->spill.state == state; o++)
		if (c->spill.owners[o].writer != COORD_NOBODY)
			order(c, o, phase);
}

/* STORED or KEEP. */
static void order_end(struct coord *c, enum peer_spill_phase phase)
{
	each_owner(c, o) order(c, o, phase);
	end(c);
}

static void fail(struct coord *c, int rc, const char *why)
{
	struct coord_spill *r = &c->spill;
	if (r->state < SPILL_GATHER || r->state >= SPILL_DROP)
		return;
	bool is_there = r->state > SPILL_GATHER;
	say_why(c, rc, why);
	log_warn("job %s: %s", c->job, r->text);
	if (!is_there) {
		order_end(c, PEER_SPILL_KEEP); /* nothing was written */
		return;
	}
	coord_set_spill(c, SPILL_DROP);
	c->orders->drop(c->orders->arg, r->as, rc, why);
}

/* ---- whose ranks they are ---------------------------------------------------------------------------------------- */

/* Those who want to enter are in c->owners: they may have other ranks than they had. */
static void remember(struct coord *c)
{
	struct coord_spill *r = &c->spill;
	r->had = malloc(c->world * sizeof(*r->had));
	r->remembered = calloc(c->world, sizeof(*r->remembered));
	if (r->had)
		memcpy(r->had, c->owners, c->world * sizeof(*r->had));
}

/* The word of a node that has its ranks' state in memory counts more than where they were expected. */
void coord_spill_hear(struct coord *c, uint32_t node, const struct peer_restore_candidates *found)
{
	struct coord_spill *r = &c->spill;
	if (r->state != SPILL_LOOK || !r->had || !r->remembered)
		return;
	for (uint32_t i = 0; i < found->nranks; i++) {
		uint32_t rank = found->ranks[i];
		if (rank >= c->world || r->remembered[rank])
			continue;
		r->remembered[rank] = found->nmemory;
		if (found->nmemory || r->had[rank] == COORD_NOBODY)
			r->had[rank] = node;
	}
}

void coord_spill_survey(struct coord *c, const struct coord_survey *survey)
{
	struct coord_spill *r = &c->spill;
	if (r->state != SPILL_LOOK || r->senders || !(r->senders = calloc(c->world, sizeof(*r->senders))))
		return;
	for (size_t i = 0; i < survey->n; i++) {
		const struct coord_held *f = &survey->found[i];
		if (f->world == c->world && f->rank < c->world && f->owner < c->nnodes &&
		    step_compare(f->id, r->senders[f->rank].id) > 0)
			r->senders[f->rank] = (struct coord_sender){f->owner, f->id};
	}
}

/* Of ranks that nobody has said to have, the node is lost. Returns one of which even the copies do not tell; world: of none. */
static uint32_t find_owners(struct coord *c)
{
	uint32_t unknown = c->world;
	for (uint32_t r = 0; r < c->world; r++) {
		uint32_t *had = &c->spill.had[r];
		if (*had == COORD_NOBODY && c->spill.senders && c->spill.senders[r].id.epoch)
			*had = c->spill.senders[r].node;
		if (*had == COORD_NOBODY)
			unknown = r;
	}
	return unknown;
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

/* Who holds most of the node's ranks. */
static uint32_t best_holder(struct coord *c, uint32_t owner)
{
	uint32_t nodes[PEER_HOLDERS_EACH], best = COORD_NOBODY, most = 0;
	memset(c->sorted, 0, c->nnodes * sizeof(*c->sorted));
	for (uint32_t rank = 0; rank < c->world; rank++) {
		uint32_t n = c->spill.had[rank] != owner ? 0
							 : candidates_holders(&c->restore.candidates, c->spill.id, rank,
									      nodes, PEER_HOLDERS_EACH);
		for (uint32_t i = 0; i < n; i++)
			if (++c->sorted[nodes[i]] > most) {
				most = c->sorted[nodes[i]];
				best = nodes[i];
			}
	}
	return best;
}

static int choose_writers(struct coord *c)
{
	struct coord_spill *r = &c->spill;
	r->owners = calloc(c->nnodes, sizeof(*r->owners));
	if (!r->owners)
		return -ENOMEM;
	for (uint32_t o = 0; o < c->nnodes; o++)
		r->owners[o].writer = COORD_NOBODY;
	for (uint32_t rank = 0; rank < c->world; rank++) {
		uint32_t o = r->had[rank];
		if (r->owners[o].writer == COORD_NOBODY)
			r->owners[o].writer =
				candidates_in_memory(&c->restore.candidates, r->id, o) ? o : best_holder(c, o);
	}
	return 0;
}

static void add_holder(struct peer_restore_fetch *bring, uint32_t rank, uint32_t node)
{
	if (bring->nholders < PEER_HOLDERS)
		bring->holders[bring->nholders++] = (struct peer_holder){.rank = rank, .node = node};
}

/* The writer first: it looks whether it has the part before it asks others. */
static void order_gather(struct coord *c, uint32_t owner)
{
	uint32_t nodes[PEER_HOLDERS_EACH], writer = c->spill.owners[owner].writer;
	struct peer_order m = {.type = PEER_SPILL,
			       .spill = {.owner = owner,
					 .phase = PEER_SPILL_GATHER,
					 .as = c->spill.as,
					 .bring = {.id = c->spill.id, .world = c->world}}};
	for (uint32_t rank = 0; rank < c->world; rank++) {
		if (c->spill.had[rank] != owner)
			continue;
		uint32_t n =
			candidates_holders(&c->restore.candidates, c->spill.id, rank, nodes, PEER_HOLDERS_EACH - 1);
		add_holder(&m.spill.bring, rank, writer);
		for (uint32_t i = 0; i < n; i++)
			if (nodes[i] != writer)
				add_holder(&m.spill.bring, rank, nodes[i]);
	}
	coord_order(c, writer, &m);
}

static void gather(struct coord *c)
{
	struct coord_spill *r = &c->spill;
	r->as = (struct step_id){.step = r->id.step, .epoch = c->epoch};
	begin(c, SPILL_GATHER);
	log_info("job %s: step %lu epoch %u is in memory only: it is written as one of epoch %u before the world "
		 "changes",
		 c->job, (unsigned long)r->id.step, r->id.epoch, r->as.epoch);
	for (uint32_t o = 0; o < c->nnodes && r->state == SPILL_GATHER; o++)
		if (r->owners[o].writer != COORD_NOBODY)
			order_gather(c, o);
}

/* A node that does not know yet who coordinates pays no heed to an order, and may have no ranks of the job: then it does
 * not say when it does. */
static void ask_again(struct coord *c)
{
	if (clock_now() - c->spill.asked_ns < ASK_AGAIN_NS)
		return;
	c->spill.asked_ns = clock_now();
	for (uint32_t o = 0; o < c->nnodes && c->spill.state == SPILL_GATHER; o++)
		if (c->spill.owners[o].writer != COORD_NOBODY && !c->spill.owners[o].answered)
			order_gather(c, o);
}

void coord_spill_begin(struct coord *c)
{
	if (c->spill.state == SPILL_GATHER)
		ask_again(c);
	if (c->spill.state != SPILL_NONE && c->spill.state != SPILL_ENDED)
		return;
	if (c->persisting || c->restore.state != COORD_IDLE) {
		coord_set_spill(c, SPILL_NONE); /* it is yet to be done, also where another one has ended */
		return;
	}
	coord_set_spill(c, SPILL_LOOK);
	coord_spill_free(c);
	c->spill = (struct coord_spill){.state = c->spill.state};
	remember(c);
	coord_look(c, UINT64_MAX);
}

/* They have nobody who waits for a restore. */
static void end_look(struct coord *c)
{
	struct peer_order m = {.type = PEER_REFUSE, .refuse = {.rc = -ECANCELED, .text = "the world changes"}};
	coord_restore_forget(c);
	coord_each(c, n) coord_order(c, n, &m);
}

void coord_spill_give_up(struct coord *c)
{
	if (c->spill.state != SPILL_LOOK && c->spill.state != SPILL_NONE)
		return;
	add_text(c, "what is in memory was not found out in time: it is lost");
	log_warn("job %s: %s", c->job, c->spill.text);
	coord_set_spill(c, SPILL_ENDED);
	end_look(c);
}

static void say_unknown(struct coord *c, uint32_t rank)
{
	char text[128];
	snprintf(text, sizeof(text), "which node had rank %u is not known any more: what was in memory only is lost",
		 rank);
	add_text(c, text);
}

/* A save that all are there again for is not to be written twice: what there is when that has ended is looked at anew. */
void coord_spill_choose(struct coord *c)
{
	struct coord_spill *r = &c->spill;
	if (coord_saves_written(c)) {
		coord_set_spill(c, SPILL_NONE);
		end_look(c);
		return;
	}
	bool remembers = r->had && r->remembered;
	int rc = remembers ? candidates_choose(&c->restore.candidates, c->world, r->had, &r->id) : -ENOMEM;
	c->restore.choice.id = r->id;
	coord_tell_gaps(c, remembers ? r->had : c->owners, (struct step_id){0});
	uint32_t unknown =
		remembers ? find_owners(c)
			  : c->world; /* now: a node that sent a copy once need not have the rank in its memory */
	bool lost = !r->id.epoch || candidates_is_stored(&c->restore.candidates, r->id) || unknown < c->world;
	add_text(c, c->restore.choice.why);
	if (!rc && !lost)
		rc = choose_writers(c);
	if (rc || lost) {
		end(c); /* on storage is what is newest, or nobody has the rest */
		if (rc)
			add_text(c, "no memory to write what is in memory only");
		else if (unknown < c->world)
			say_unknown(c, unknown);
	} else {
		gather(c);
	}
	end_look(c);
}

/* ---- what is reported ---------------------------------------------------------------------------------------------- */

/* What the ranks of several nodes hold alike, as in coordinator/save/shared_files.c. */
static int assign(struct coord *c, struct err *err)
{
	struct division d;
	int rc = division_make(&d, c->nnodes, err);
	each_owner(c, o) if (!rc) d.of[d.n++] = &c->spill.owners[o].holdings;
	rc = rc ? rc : division_look(&d, err);
	rc = rc ? rc : division_settle(&d, err);
	division_free(&d);
	return rc;
}

static void seal(struct coord *c)
{
	AUTO_WBUF struct wbuf manifest = {0};
	AUTO_FREE struct peer_part *parts = calloc(c->nnodes, sizeof(*parts));
	each_owner(c, o) if (parts) parts[o] = c->spill.owners[o].made;
	int rc = parts ? coord_manifest(c, c->spill.as, parts, &manifest) : -ENOMEM;
	if (rc) {
		fail(c, rc, "no memory for the manifest");
		return;
	}
	coord_set_spill(c, SPILL_SEAL);
	c->orders->seal(c->orders->arg, c->spill.as, &manifest);
}

static void all_answered(struct coord *c)
{
	struct coord_spill *r = &c->spill;
	if (r->state == SPILL_GATHER) {
		struct err err = {{0}};
		int rc = assign(c, &err);
		if (rc) {
			fail(c, rc, err.text);
			return;
		}
		coord_set_spill(c, SPILL_MAKE);
		c->orders->make(c->orders->arg, r->as);
	} else if (r->state == SPILL_WRITE) {
		seal(c);
	} else if (r->state == SPILL_CLEAR) {
		struct step_id as = r->as;
		end(c);
		c->orders->remove(c->orders->arg, as);
	}
}

static enum peer_spill_phase phase_of(enum coord_spill_state state)
{
	return state == SPILL_GATHER ? PEER_SPILL_GATHER : state == SPILL_WRITE ? PEER_SPILL_WRITE : PEER_SPILL_CLEAR;
}

void coord_spilled(struct coord *c, uint32_t node, const struct peer_spilled *m)
{
	struct coord_spill *r = &c->spill;
	if (!r->owners || m->owner >= c->nnodes || step_compare(m->as, r->as) != 0 ||
	    r->owners[m->owner].writer != node)
		return;
	struct coord_spiller *o = &r->owners[m->owner];
	int rc = 0;
	if (m->phase == PEER_SPILL_FAILED) {
		fail(c, m->rc, m->text);
		return;
	}
	if (o->answered || m->phase != phase_of(r->state))
		return;
	if (m->phase == PEER_SPILL_GATHER)
		rc = node_holdings_hear(&o->holdings, &m->shares);
	else if (m->phase == PEER_SPILL_WRITE)
		o->made = m->part;
	o->answered = true;
	if (rc < 0)
		fail(c, rc, "no memory for what its nodes hold");
	else if (--r->waiting == 0)
		all_answered(c);
}

void coord_spill_gone(struct coord *c, uint32_t node)
{
	struct coord_spill *r = &c->spill;
	bool waited = false, writes = false;
	for (uint32_t o = 0; r->owners && o < c->nnodes; o++) {
		if (r->owners[o].writer != node)
			continue;
		writes = true;
		r->owners[o].writer = COORD_NOBODY;
		if (r->state == SPILL_CLEAR && !r->owners[o].answered)
			waited = --r->waiting == 0;
	}
	if (waited)
		all_answered(c);
	else if (writes && r->state != SPILL_SEAL) /* once all have written, it can be completed without any of them */
		fail(c, -ENODEV, "a node that has a part of it is lost");
}

/* ---- its directory --------------------------------------------------------------------------------------------------- */

static bool is_mine(const struct coord *c, struct step_id id)
{
	return c->spill.owners && c->spill.state > SPILL_GATHER && !step_compare(c->spill.as, id);
}

bool coord_spill_made(struct coord *c, struct step_id id, bool found)
{
	if (!is_mine(c, id))
		return false;
	if (c->spill.state == SPILL_MAKE && found)
		fail(c, -EEXIST, "a checkpoint of that name is there");
	else if (c->spill.state == SPILL_MAKE)
		order_all(c, SPILL_WRITE, PEER_SPILL_WRITE);
	return true;
}

bool coord_spill_sealed(struct coord *c, struct step_id id)
{
	if (!is_mine(c, id))
		return false;
	log_info("job %s: step %lu is on storage, as one of epoch %u", c->job, (unsigned long)id.step, id.epoch);
	c->brought = (struct coord_brought){c->spill.id, id};
	order_end(c, PEER_SPILL_STORED);
	return true;
}

bool coord_spill_spoiled(struct coord *c, struct step_id id, int rc, const char *text)
{
	if (!is_mine(c, id))
		return false;
	fail(c, rc, text);
	return true;
}

bool coord_spill_left(struct coord *c, struct step_id id, bool kept)
{
	if (!is_mine(c, id))
		return false;
	if (kept) {
		order_end(c, PEER_SPILL_KEEP);
		c->orders->remove(c->orders->arg, id);
		return true;
	}
	order_all(c, SPILL_CLEAR, PEER_SPILL_CLEAR);
	if (c->spill.state == SPILL_CLEAR && !c->spill.waiting) /* nobody is left who could delete it */
		all_answered(c);
	return true;
}
