/* Which step is restored: of what all nodes have, or can get, the newest that is intact. Each node brings its ranks' parts from where it
 * can: its own memory, a node that holds a copy, storage, in this order; when one cannot, the step is passed over for all. */
#include "coordinator/coordinator_private.h"
#include "coordinator/restore/node_ranks.h"
#include "coordinator/restore/other_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the barrier ----------------------------------------------------------------------------------------------- */

static void refuse(struct coord *c, int rc, const char *text)
{
	struct peer_order order = {.type = PEER_REFUSE, .refuse.rc = rc};
	snprintf(order.refuse.text, sizeof(order.refuse.text), "%s",
		 *text ? text : "a node could not restore, and did not say why");
	snprintf(order.refuse.why, sizeof(order.refuse.why), "%s", c->restore.choice.why);
	coord_restore_forget(c);
	c->unserved = c->unserved || rc != -ENOENT;
	coord_each(c, n) coord_order(c, n, &order);
}

void coord_restore_forget(struct coord *c)
{
	coord_spill_interrupt(c);
	candidates_clear(&c->restore.candidates);
	free(c->restore.held);
	coord_set_restore(c, COORD_IDLE);
	c->restore = (struct coord_restore){0};
	coord_each(c, n) c->nodes[n].restoring = c->nodes[n].answered = false;
}

static void begin(struct coord *c, enum coord_step state)
{
	coord_set_restore(c, state);
	c->restore.waiting = 0;
	c->restore.rc = 0;
	coord_each(c, n)
	{
		c->restore.waiting++;
		c->nodes[n].answered = false;
	}
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

static void look(struct coord *c)
{
	struct peer_order order = {.type = PEER_LOOK, .look = {.step = c->restore.step, .back = c->restore.back}};
	begin(c, COORD_LOOK);
	c->restore.waiting++; /* for what other nodes hold */
	coord_each(c, n) coord_order(c, n, &order);
	c->orders->survey(c->orders->arg);
}

void coord_look(struct coord *c, uint64_t step)
{
	struct coord_restore *r = &c->restore;
	r->step = step;
	r->back = step > STEP_MAX ? c->back : (struct rollbacks){0}; /* who names a step may have any */
	snprintf(r->choice.why, sizeof(r->choice.why), "%s", c->preface);
	look(c);
}

/* All that there is was given up when the job went back. That is better than to begin anew. */
static void look_at_given_up(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	struct step_id to = r->back.of[r->back.n - 1].to;
	char text[WIRE_TEXT_MAX];
	snprintf(text, sizeof(text),
		 "the job went back to step %lu of epoch %u, and nothing intact is left that is as old",
		 (unsigned long)to.step, to.epoch);
	coord_add_why(r->choice.why, text);
	candidates_clear(&r->candidates);
	r->back = (struct rollbacks){0};
	r->surveyed = r->others = false;
	r->nheld = r->nstored = 0;
	look(c);
}

void coord_restoring(struct coord *c, struct coord_from from, uint64_t step)
{
	if (!coord_current(c, from) || c->restore.state != COORD_IDLE)
		return;
	set_restoring(c, from.node, true);
	c->nodes[from.node].step = step;
	if (c->restore.ranks != c->world)
		return;
	if (agreed(c, step))
		coord_look(c, step);
	else
		refuse(c, -EINVAL, "not all nodes ask for the same step");
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

/* The job has checkpoints, but not what was asked for. */
static void refuse_asked(struct coord *c)
{
	char text[WIRE_TEXT_MAX];
	if (c->restore.step == STEP_NEWEST_HEALTHY) {
		refuse(c, -ENODATA, "the job has checkpoints, but none that was marked healthy");
		return;
	}
	snprintf(text, sizeof(text), "the job has checkpoints, but none of step %lu", (unsigned long)c->restore.step);
	refuse(c, -ENODATA, text);
}

/* Only -ENOENT is a fresh start: there is no checkpoint of the job wherever one may be. The job has had a snapshot, as far as is known here:
 * then nobody may take what is not found for a fresh start while somebody who may hold it is not there. */
static void refuse_rest(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	bool all_known = !r->storage_rc && !r->unheard;
	bool some = !candidates_is_empty(&r->candidates) || r->nheld;
	bool asked = r->others || (r->step != STEP_NEWEST && !candidates_is_empty(&r->candidates));
	char text[WIRE_TEXT_MAX];
	if (r->back.n && r->others && all_known && r->step == STEP_NEWEST)
		look_at_given_up(c);
	else if (r->passed_over)
		refuse(c, -EBADMSG, "no intact checkpoint is left");
	else if (r->storage_rc)
		refuse(c, r->storage_rc == -ENOMEM ? -ENOMEM : -EIO, "the store cannot be read");
	else if (r->unheard && (c->has_saved || asked || some)) {
		snprintf(text, sizeof(text),
			 "nothing to restore is found, and nodes that may hold copies are not there: %s", r->names);
		refuse(c, -EIO, text);
	} else if (asked)
		refuse_asked(c);
	else
		refuse(c, -ENOENT, "there is no checkpoint to restore");
}

static void list_holders(struct coord *c, const struct node_ranks *of, uint32_t node, struct peer_restore_fetch *bring)
{
	uint32_t nodes[PEER_HOLDERS_EACH];
	bring->nholders = 0;
	for (uint32_t at = of->first[node]; at < of->first[node + 1]; at++) {
		uint32_t rank = of->ranks[at];
		uint32_t n = candidates_holders(&c->restore.candidates, bring->id, rank, nodes, PEER_HOLDERS_EACH);
		for (uint32_t i = 0; i < n && bring->nholders < PEER_HOLDERS; i++)
			bring->holders[bring->nholders++] = (struct peer_holder){.rank = rank, .node = nodes[i]};
	}
}

/* What could be brought to storage before the nodes of the job changed is there, and the rest is given up. */
static bool is_given_up(const struct coord *c)
{
	return c->restore.parted || c->preface[0];
}

/* ---- of another world ------------------------------------------------------------------------------------------ */

/* Of a step that is to be healthy memory of others says nothing. Another program may register less than was saved, which no node alone would
 * know: its ranks would leave a part of the step under its name. */
static bool may_recut(const struct coord_restore *r)
{
	return r->planned && r->step != STEP_NEWEST_HEALTHY;
}

static void order_recut(struct coord *c, struct step_id id, uint32_t world)
{
	struct coord_restore *r = &c->restore;
	struct peer_order order = {.type = PEER_RESTORE_FETCH, .bring = {.id = id, .world = world, .recut = true}};
	begin(c, COORD_FETCH);
	r->choice.id = id;
	r->choice.source = WIRE_FROM_MEMORY;
	r->recut = world;
	coord_each(c, n) coord_order(c, n, &order);
}

static void refuse_elsewhere(struct coord *c, struct step_id id, uint32_t world)
{
	char text[WIRE_TEXT_MAX];
	snprintf(text, sizeof(text),
		 "step %lu epoch %u is newer, and is in memory of other nodes only, as copies of a world of %u: start "
		 "%u "
		 "ranks with the same tables and save to storage, or name an older step",
		 (unsigned long)id.step, id.epoch, world, world);
	refuse(c, -EINVAL, text);
}

/* The newest that memory has of another world, if it is newer than what the ranks can be given as it is. */
static bool recut_newest(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	struct coord_survey held = coord_held_of(r);
	uint32_t world;
	struct step_id id = {0};
	if (r->step != STEP_NEWEST_HEALTHY && (r->planned || !is_given_up(c)))
		id = other_world_newest(&held, c->world, r->step, &r->back, &world);
	if (!id.epoch || step_compare(id, r->choice.id) <= 0)
		return false;
	if (r->planned)
		order_recut(c, id, world);
	else
		refuse_elsewhere(c, id, world);
	return true;
}

static void order_fetch(struct coord *c, const struct node_ranks *of)
{
	struct coord_restore *r = &c->restore;
	struct peer_order order = {.type = PEER_RESTORE_FETCH,
				   .bring = {.id = r->choice.id,
					     .world = c->world,
					     .stored = candidates_is_stored(&r->candidates, r->choice.id)}};
	begin(c, COORD_FETCH);
	r->choice.source = WIRE_FROM_MEMORY;
	coord_each(c, n)
	{
		list_holders(c, of, n, &order.bring);
		coord_order(c, n, &order);
	}
}

static void fetch_next(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	struct step_id before = r->choice.id;
	struct node_ranks of;
	if (candidates_choose(&r->candidates, c->world, c->owners, &r->choice.id)) {
		refuse(c, -ENOMEM, "no memory to choose what to restore");
		return;
	}
	r->recut = 0;
	coord_tell_gaps(c, c->owners, before);
	if (recut_newest(c))
		return;
	coord_tell_other_gap(c);
	if (!r->choice.id.epoch) {
		refuse_rest(c);
		return;
	}
	if (node_ranks_make(&of, c->nnodes, c->world, c->owners)) {
		refuse(c, -ENOMEM, "no memory to tell nodes what to bring");
		return;
	}
	order_fetch(c, &of);
	node_ranks_free(&of);
}

static void choose(struct coord *c)
{
	if (c->restore.step == STEP_NEWEST_HEALTHY) {
		c->restore.others |= !candidates_is_empty(&c->restore.candidates);
		candidates_drop_copies_alone(&c->restore.candidates);
	}
	if (c->spill.state == SPILL_LOOK)
		coord_spill_choose(c);
	else
		fetch_next(c);
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

static uint32_t first_node(const struct coord *c)
{
	coord_each(c, n) return n;
	return 0;
}

static bool says_the_same(const struct coord_restore *r, const struct peer_restore_candidates *found)
{
	bool same = r->nstored == found->nstored;
	for (uint32_t i = 0; same && i < found->nstored; i++)
		same = !step_compare(r->stored[i], found->stored[i]);
	return same;
}

/* The store is the same for all; yet a client of it may see a checkpoint late, and a node may have another store by mistake. What one of them
 * sees there is a checkpoint: who cannot read it says so, and the next one is taken. Of a mark that one sees late nobody says so: which are
 * healthy the first node decides. */
static void hear_stored(struct coord *c, uint32_t node, const struct peer_restore_candidates *found)
{
	struct coord_restore *r = &c->restore;
	if (r->step == STEP_NEWEST_HEALTHY && node != first_node(c)) {
		r->others |= found->nstored != 0; /* so that it is no fresh start */
		return;
	}
	if (says_the_same(r, found))
		return;
	for (uint32_t i = 0; i < found->nstored; i++)
		candidates_add_stored(&r->candidates, found->stored[i]);
	r->nstored = found->nstored;
	memcpy(r->stored, found->stored, found->nstored * sizeof(found->stored[0]));
}

void coord_found(struct coord *c, struct coord_from from, const struct peer_restore_candidates *found)
{
	struct coord_restore *r = &c->restore;
	if (!expected(c, from, COORD_LOOK))
		return;
	coord_spill_hear(c, from.node, found);
	for (uint32_t i = 0; i < found->nmemory; i++)
		candidates_add_memory(&r->candidates, from.node, found->memory[i]);
	hear_stored(c, from.node, found);
	r->storage_rc = r->storage_rc ? r->storage_rc : found->storage_rc;
	r->others |= found->others;
	coord_add_why(r->choice.why, found->why);
	if (answered(c, from.node))
		choose(c);
}

/* Of one that is to be healthy this shows when it is chosen: who has it in memory, or storage, says so. */
static bool asked_for(const struct coord_restore *r, struct step_id id)
{
	return (r->step > STEP_MAX || id.step == r->step) && !rollbacks_give_up(&r->back, id);
}

/* The newest epoch that others know of, or have a copy of a snapshot of, which is not of this incarnation of the job if nothing was saved in it here. */
static uint32_t epoch_of_others(const struct coord *c, const struct coord_survey *survey)
{
	uint32_t epoch = survey->known > c->epoch ? survey->known : 0;
	for (size_t i = 0; c->used != c->epoch && i < survey->n; i++)
		if (survey->found[i].id.epoch >= c->epoch && survey->found[i].id.epoch > epoch)
			epoch = survey->found[i].id.epoch;
	return epoch;
}

/* Without memory for it, as if nobody held anything of another world. */
static void keep_held(struct coord_restore *r, const struct coord_survey *survey)
{
	free(r->held);
	r->held = calloc(survey->n ? survey->n : 1, sizeof(*r->held));
	r->nheld = r->held ? survey->n : 0;
	r->unheard += !r->held;
	for (size_t i = 0; i < r->nheld; i++)
		r->held[i] = survey->found[i];
}

void coord_surveyed(struct coord *c, const struct coord_survey *survey)
{
	struct coord_restore *r = &c->restore;
	if (r->state != COORD_LOOK || survey->epoch != c->epoch || r->surveyed)
		return;
	uint32_t begun = epoch_of_others(c, survey);
	if (begun) {
		/* It has run on nodes that this coordinator has not heard of. */
		c->epoch = begun;
		coord_raise(c, "epoch %u has begun on other nodes", begun);
		return;
	}
	r->surveyed = true;
	coord_spill_survey(c, survey);
	r->unheard = survey->unheard;
	r->parted = survey->parted;
	r->planned = survey->planned;
	snprintf(r->names, sizeof(r->names), "%s", survey->names);
	keep_held(r, survey);
	for (size_t i = 0; i < survey->n; i++) {
		const struct coord_held *f = &survey->found[i];
		if (f->world == c->world && asked_for(r, f->id))
			candidates_add_copy(&r->candidates, f->node, f->rank, f->id);
		r->others |= !asked_for(r, f->id);
	}
	if (--r->waiting == 0)
		choose(c);
}

/* What had been begun before the epoch ended: memory may give up what was chosen for it. */
void coord_restore_stored(struct coord *c, struct step_id id)
{
	struct coord_restore *r = &c->restore;
	if (r->state != COORD_IDLE && r->step != STEP_NEWEST_HEALTHY && asked_for(r, id))
		candidates_add_stored(&r->candidates, id);
}

/* ---- fetching -------------------------------------------------------------------------------------------------- */

/* Damage and read errors descend to the next best, as does what is in memory in another shape (-ESTALE); what contradicts the plan does not,
 * nor what a later version of ckpt has written: an older checkpoint would hide it. */
static bool descends(int rc)
{
	return rc == -EBADMSG || rc == -EIO || rc == -ESTALE;
}

/* Of what several report: what does not descend decides; then that it has another shape, since nobody can use it whatever else is wrong. */
static bool outweighs(int rc, int other)
{
	return descends(rc) == descends(other) ? rc == -ESTALE : descends(other);
}

/* The tables of copies are not those of the ranks: nothing older is taken in its place, unless all that fits was brought to storage. */
static void refuse_unfit(struct coord *c)
{
	const struct coord_restore *r = &c->restore;
	char text[2 * WIRE_TEXT_MAX];
	snprintf(text, sizeof(text),
		 "step %lu epoch %u is in memory of other nodes only, as copies of other tables: start the program "
		 "that saved it, "
		 "or name an older step (%s)",
		 (unsigned long)r->choice.id.step, r->choice.id.epoch, r->text);
	refuse(c, -EINVAL, text);
}

static void pass_over(struct coord *c)
{
	struct coord_restore *r = &c->restore;
	char text[2 * WIRE_TEXT_MAX];
	struct coord_survey held = coord_held_of(r);
	bool unfit = r->rc == -ESTALE && !candidates_is_stored(&r->candidates, r->choice.id);
	if (unfit && !r->recut && may_recut(r) && other_world_whole(&held, r->choice.id, c->world)) {
		order_recut(c, r->choice.id, c->world);
		return;
	}
	if (unfit && !is_given_up(c)) {
		refuse_unfit(c);
		return;
	}
	snprintf(text, sizeof(text), "step %lu epoch %u: %s", (unsigned long)r->choice.id.step, r->choice.id.epoch,
		 r->text);
	coord_add_why(r->choice.why, text);
	r->passed_over = r->passed_over || !unfit;
	if (r->recut)
		other_world_pass_over(r->held, &r->nheld, r->choice.id, r->recut);
	if (!r->recut || r->recut == c->world)
		candidates_pass_over(&r->candidates, r->choice.id);
	fetch_next(c);
}

static void finish(struct coord *c)
{
	struct peer_order order = {.type = PEER_RESTORED, .choice = c->restore.choice};
	coord_restore_forget(c);
	c->has_saved = true;
	c->unserved = false;
	c->preface[0] = 0;
	coord_each(c, n) coord_order(c, n, &order);
	coord_copy_restored(c, order.choice.id); /* what took the place of a lost node has no copies yet */
}

void coord_fetched(struct coord *c, struct coord_from from, const struct peer_save *f)
{
	struct coord_restore *r = &c->restore;
	if (!expected(c, from, COORD_FETCH) || step_compare(f->id, r->choice.id) != 0)
		return;
	if (!f->rc) {
		r->choice.source = f->level > r->choice.source ? (enum wire_source)f->level : r->choice.source;
		coord_add_why(r->choice.why, f->text);
	} else if (!r->rc || outweighs(f->rc, r->rc)) {
		r->rc = f->rc == -ENOENT ? -EBADMSG : f->rc; /* no node alone knows that there is nothing */
		snprintf(r->text, sizeof(r->text), "%s", f->text);
	}
	if (!answered(c, from.node))
		return;
	if (!r->rc)
		finish(c);
	else if (descends(r->rc))
		pass_over(c);
	else
		refuse(c, r->rc, r->text);
}
