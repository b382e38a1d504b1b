/* Which step is restored, and from where: of what all nodes have, or can get, the newest that is intact. */
#include "coord_private.h"

#include <stdio.h>
#include <string.h>

static void add_why(char *why, const char *text)
{
	size_t at = strlen(why);
	if (*text && at + 8 < WIRE_TEXT_MAX)
		snprintf(why + at, WIRE_TEXT_MAX - at, "%s%.*s", at ? "; " : "", (int)(WIRE_TEXT_MAX - at - 3), text);
}

/* ---- the barrier ----------------------------------------------------------------------------------------------- */

static void refuse(struct coord *c, int rc, const char *text)
{
	char why[WIRE_TEXT_MAX];
	snprintf(why, sizeof(why), "%s", c->restore.choice.why);
	coord_restore_forget(c);
	uint32_t epoch = c->epoch;
	for (uint32_t n = 0; n < c->nnodes && c->epoch == epoch; n++)
		if (c->nodes[n].ranks)
			c->orders->refuse(c->orders->arg, n, rc, text, why);
}

void coord_restore_forget(struct coord *c)
{
	c->restore = (struct coord_restore){0};
	coord_each(c, n) c->nodes[n].restoring = c->nodes[n].answered = false;
}

/* True while the restore that was begun is the one that runs. */
static bool runs(const struct coord *c, enum coord_step state, uint32_t epoch)
{
	return c->restore.state == state && c->epoch == epoch;
}

static uint32_t begin(struct coord *c, enum coord_step state)
{
	c->restore.state = state;
	c->restore.waiting = 0;
	c->restore.rc = 0;
	coord_each(c, n)
	{
		c->restore.waiting++;
		c->nodes[n].answered = false;
	}
	return c->epoch;
}

static bool agreed(const struct coord *c, uint64_t step)
{
	coord_each(c, n) if (c->nodes[n].step != step) return false;
	return true;
}

static void set_restoring(struct coord *c, uint32_t node, bool restoring)
{
	struct coord_node *n = &c->nodes[node];
	if (n->restoring != restoring)
		c->restore.ranks += restoring ? n->ranks : -n->ranks;
	n->restoring = restoring;
}

void coord_restoring(struct coord *c, struct coord_from from, uint64_t step)
{
	if (!coord_current(c, from) || c->restore.state != COORD_IDLE)
		return;
	set_restoring(c, from.node, true);
	c->nodes[from.node].step = step;
	if (c->restore.ranks != c->world)
		return;
	if (!agreed(c, step)) {
		refuse(c, -EINVAL, "not all nodes ask for the same step");
		return;
	}
	uint32_t epoch = begin(c, COORD_LOOK);
	for (uint32_t n = 0; n < c->nnodes && runs(c, COORD_LOOK, epoch); n++)
		if (c->nodes[n].ranks)
			c->orders->look(c->orders->arg, n, step);
}

/* All or none: ranks that restored must not meet one that was told that they did not. */
void coord_not_restoring(struct coord *c, struct coord_from from)
{
	if (!coord_current(c, from))
		return;
	bool ran = c->restore.state != COORD_IDLE;
	set_restoring(c, from.node, false);
	if (ran)
		refuse(c, -ETIMEDOUT, "restore: the deadline of another rank has passed");
}

/* ---- the choice ------------------------------------------------------------------------------------------------ */

static bool passed_over(const struct coord *c, struct step_id id)
{
	for (uint32_t i = 0; i < c->restore.nfailed; i++)
		if (!step_compare(c->restore.failed[i], id))
			return true;
	return false;
}

static bool all_in_memory(const struct coord *c, struct step_id id)
{
	coord_each(c, n) if (step_compare(c->nodes[n].found.memory, id) != 0) return false;
	return true;
}

static const struct peer_found *first_found(const struct coord *c)
{
	coord_each(c, n) return &c->nodes[n].found;
	return NULL;
}

/* The store is the same for all: what the first node has seen there counts. */
static bool choose(const struct coord *c, struct peer_choice *choice)
{
	const struct peer_found *found = first_found(c);
	struct step_id best = {0};
	enum wire_source source = WIRE_FROM_STORAGE;
	for (uint32_t i = 0; i < found->nstored; i++)
		if (!passed_over(c, found->stored[i]) && step_compare(found->stored[i], best) > 0)
			best = found->stored[i];
	if (found->memory.epoch && step_compare(found->memory, best) >= 0 && all_in_memory(c, found->memory)) {
		best = found->memory;
		source = WIRE_FROM_MEMORY;
	}
	choice->id = best;
	choice->source = source;
	return best.epoch != 0;
}

static void refuse_rest(struct coord *c)
{
	const struct peer_found *found = first_found(c);
	bool damaged = false;
	int rc = 0;
	coord_each(c, n)
	{
		damaged = damaged || c->nodes[n].found.damaged;
		rc = rc ? rc : c->nodes[n].found.storage_rc;
	}
	if (found->nstored)
		refuse(c, -EBADMSG, "no intact checkpoint is left");
	else if (rc) /* not -ENOENT: nobody may take this for a fresh start */
		refuse(c, rc == -ENOENT ? -EIO : rc, "the store cannot be read");
	else
		refuse(c, damaged ? -EBADMSG : -ENOENT, "there is no checkpoint to restore");
}

static void fetch_next(struct coord *c)
{
	struct peer_choice choice = c->restore.choice;
	if (!choose(c, &choice)) {
		refuse_rest(c);
		return;
	}
	c->restore.choice = choice;
	uint32_t epoch = begin(c, COORD_FETCH);
	for (uint32_t n = 0; n < c->nnodes && runs(c, COORD_FETCH, epoch); n++)
		if (c->nodes[n].ranks)
			c->orders->fetch(c->orders->arg, n, &choice);
}

/* The node's answer to the order that runs; true: it was the last one. */
static bool answered(struct coord *c, uint32_t node)
{
	c->nodes[node].answered = true;
	return --c->restore.waiting == 0;
}

static bool expected(struct coord *c, struct coord_from from, enum coord_step state)
{
	return coord_current(c, from) && c->restore.state == state && !c->nodes[from.node].answered;
}

void coord_found(struct coord *c, struct coord_from from, const struct peer_found *found)
{
	if (!expected(c, from, COORD_LOOK))
		return;
	c->nodes[from.node].found = *found;
	add_why(c->restore.choice.why, found->why);
	if (answered(c, from.node))
		fetch_next(c);
}

/* ---- fetching -------------------------------------------------------------------------------------------------- */

/* Damage and read errors descend to the next best; what contradicts the plan does not: an older checkpoint would hide it. */
static bool descends(int rc)
{
	return rc == -EBADMSG || rc == -EIO || rc == -EPROTONOSUPPORT;
}

static void pass_over(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	char text[2 * WIRE_TEXT_MAX];
	snprintf(text, sizeof(text), "step %lu epoch %u on storage: %s", (unsigned long)r->choice.id.step,
		 r->choice.id.epoch, r->text);
	add_why(r->choice.why, text);
	r->failed[r->nfailed++] = r->choice.id; /* each of the stored ones once, and memory never */
	fetch_next(c);
}

static void finish(struct coord *c)
{
	struct peer_choice choice = c->restore.choice;
	uint32_t epoch = c->epoch;
	coord_restore_forget(c);
	for (uint32_t n = 0; n < c->nnodes && c->epoch == epoch; n++)
		if (c->nodes[n].ranks)
			c->orders->restored(c->orders->arg, n, &choice);
	if (c->epoch == epoch)
		coord_copy_begin(c, choice.id); /* what took the place of a lost node has no copies yet */
}

void coord_fetched(struct coord *c, struct coord_from from, struct step_id id, int rc, const char *text)
{
	struct coord_restore *r = &c->restore;
	if (!expected(c, from, COORD_FETCH) || step_compare(id, r->choice.id) != 0)
		return;
	/* What does not descend decides, whoever else reports what. */
	if (rc && (!r->rc || (descends(r->rc) && !descends(rc)))) {
		r->rc = rc;
		snprintf(r->text, sizeof(r->text), "%s", text);
	}
	if (!answered(c, from.node))
		return;
	if (!r->rc)
		finish(c);
	else if (descends(r->rc) && r->choice.source == WIRE_FROM_STORAGE)
		pass_over(c);
	else
		refuse(c, r->rc, r->text);
}
