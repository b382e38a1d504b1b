#include "coordinator/coordinator_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void coord_withhold(struct coord *c)
{
	c->persisting = true;
	c->orders->persist(c->orders->arg, c->epoch, c->reason);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

int coord_new(const char *job, uint32_t world, uint32_t nnodes, uint32_t epoch, const struct coord_orders *orders,
	      struct coord **out)
{
	struct coord *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->nodes = calloc(nnodes, sizeof(*c->nodes));
	c->sorted = calloc(nnodes, sizeof(*c->sorted));
	c->owners = calloc(world, sizeof(*c->owners));
	c->lens = calloc(world, sizeof(*c->lens));
	c->addresses = calloc(world, WIRE_ADDRESS_MAX);
	list_init(&c->saves);
	if (tables_init(&c->tables, world) || !c->nodes || !c->sorted || !c->owners || !c->lens || !c->addresses) {
		coord_free(c);
		return -ENOMEM;
	}
	c->orders = orders;
	c->world = world;
	c->nnodes = nnodes;
	c->epoch = epoch;
	c->fresh = true;
	c->lost = COORD_NOBODY;
	snprintf(c->job, sizeof(c->job), "%s", job);
	snprintf(c->reason, sizeof(c->reason), "%u ranks begin", world);
	for (uint32_t r = 0; r < world; r++)
		c->owners[r] = COORD_NOBODY;
	*out = c;
	return 0;
}

void coord_free(struct coord *c)
{
	if (!c)
		return;
	coord_saves_free(c);
	coord_spill_free(c);
	candidates_clear(&c->restore.candidates);
	free(c->restore.held);
	free(c->standstill.all);
	straggling_end(&c->straggling);
	for (uint32_t n = 0; n < c->nnodes; n++)
		node_holdings_free(&c->nodes[n].holdings);
	free(c->nodes);
	free(c->sorted);
	free(c->owners);
	free(c->lens);
	free(c->addresses);
	tables_free(&c->tables);
	free(c);
}

bool coord_current(struct coord *c, struct coord_from from)
{
	bool current = from.epoch == c->epoch && !c->persisting && c->nodes[from.node].ranks;
	c->stale += !current;
	return current;
}

struct coord_view coord_view(const struct coord *c)
{
	return (struct coord_view){.epoch = c->epoch,
				   .entered = c->entered,
				   .world = c->world,
				   .attending = c->attending,
				   .joining = c->joining,
				   .resuming = c->resuming,
				   .restoring = c->restore.ranks || c->restore.state != COORD_IDLE,
				   .fresh = c->fresh,
				   .stale = c->stale,
				   .unserved = c->unserved,
				   .alike = coord_alike(c),
				   .spilled = c->spill.state == SPILL_ENDED,
				   .not_spilled = c->spill.text,
				   .back = c->back};
}

void coord_recall_rollbacks(struct coord *c, const struct rollbacks *back)
{
	c->back = *back;
}

void coord_preface(struct coord *c, const char *text)
{
	snprintf(c->preface, sizeof(c->preface), "%s", text);
}

const char *coord_reason(const struct coord *c)
{
	return c->reason;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

void coord_set_joining(struct coord *c, uint32_t node, bool joining)
{
	struct coord_node *n = &c->nodes[node];
	if (n->joining != joining)
		c->joining += joining ? n->ranks : -n->ranks;
	n->joining = joining;
}

static void tell_epoch(struct coord *c, uint32_t node)
{
	bool is_loss = c->lost != COORD_NOBODY;
	struct peer_word raised = {.epoch = c->epoch,
				   .rank = is_loss ? c->lost : 0,
				   .flag = is_loss,
				   .loss = is_loss ? (uint8_t)c->loss : LOST_NONE};
	if (c->nodes[node].knows)
		coord_order_word(c, node, PEER_RAISE, raised, c->reason);
	else
		coord_order_word(c, node, PEER_ADOPT, (struct peer_word){.epoch = c->epoch}, "");
}

void coord_persisted(struct coord *c, uint32_t epoch)
{
	if (!c->persisting || epoch != c->epoch)
		return;
	c->persisting = false;
	coord_each(c, n) tell_epoch(c, n);
}

static bool has_nothing_to_share(const struct coord *c, uint32_t nranks)
{
	return nranks == c->world;
}

void coord_set_ranks(struct coord *c, uint32_t node, uint32_t nranks)
{
	struct coord_node *n = &c->nodes[node];
	coord_set_joining(c, node, false);
	if (coord_spill_interrupt(c))
		coord_restore_forget(c);
	coord_saves_leave(c, node);
	coord_copy_forget(c); /* the next save begins anew, with whoever is there then */
	coord_standstill_leave(c, node);
	straggling_end(&c->straggling);
	coord_set_finished(c, node, false);
	coord_set_informed(c, node, false);
	c->attending += nranks - n->ranks;
	coord_saves_crowd(c);
	node_holdings_free(&n->holdings);
	*n = (struct coord_node){.ranks = nranks, .owned = n->owned, .parts_known = has_nothing_to_share(c, nranks)};
	coord_parts_forget(c);
}

void coord_node_join(struct coord *c, struct coord_from from, uint32_t nranks, uint32_t known)
{
	uint32_t node = from.node;
	struct coord_node *n = &c->nodes[node];
	bool again = n->ranks == nranks && !n->moved;
	if (!again) /* else nothing of what it has reported is undone */
		coord_set_ranks(c, node, nranks);
	n->knows = n->knows || known != 0;
	c->has_saved = c->has_saved || known != 0;
	/* The same as here, and not from here: an earlier incarnation of the coordinator has told of it, and it may have been entered. */
	bool elsewhere = !again || from.epoch != c->epoch;
	if (known > c->epoch || (known == c->epoch && elsewhere)) {
		c->epoch = known;
		coord_raise(c, "epoch %u had begun before", known);
	} else if (!c->persisting) {
		tell_epoch(c, node);
	}
	if (!again)
		coord_saves_node_join(c, node);
}

bool coord_leave(struct coord *c, uint32_t node)
{
	if (!c->nodes[node].ranks)
		return false;
	coord_set_ranks(c, node, 0);
	coord_resume_give_up(c, "the ranks of a node have left since the coordinator was lost");
	if (!c->persisting)
		coord_try_enter(c); /* its ranks may be elsewhere by now, and all others wait */
	coord_finishes(c);
	return true;
}

bool coord_has_joined(const struct coord *c, uint32_t node)
{
	return c->nodes[node].ranks;
}

bool coord_needs(const struct coord *c, uint32_t node)
{
	const struct coord_node *n = &c->nodes[node];
	return n->ranks && !n->finished && (c->entered == c->epoch || !c->fresh || c->resuming);
}

/* What is lost before all are at work again follows from the first loss. */
static void note_lost(struct coord *c, uint32_t rank, enum lost_kind kind)
{
	if (c->entered != c->epoch && !c->resuming)
		return;
	c->lost = rank;
	c->loss = kind;
}

/* A rank that hangs is ended by its launcher. */
static bool is_waited_for(const struct coord *c, uint32_t rank)
{
	const struct peer_standstill *told = &c->standstill.told;
	return told->is && told->named && told->rank == rank;
}

uint32_t coord_rank_of(const struct coord *c, uint32_t node)
{
	for (uint32_t r = 0; r < c->world; r++)
		if (c->owners[r] == node)
			return r;
	return COORD_NOBODY;
}

void coord_gone(struct coord *c, uint32_t node, const char *why)
{
	bool needed = coord_needs(c, node);
	coord_spill_gone(c, node);
	if (coord_spill_interrupt(c)) /* who has no ranks may have said that it holds copies */
		coord_restore_forget(c);
	if (!c->nodes[node].ranks)
		return;
	coord_set_ranks(c, node, 0);
	if (!needed)
		return;
	note_lost(c, coord_rank_of(c, node), LOST_NODE);
	coord_raise(c, "%s", why);
}

bool coord_moves(struct coord *c, uint32_t node)
{
	struct coord_node *n = &c->nodes[node];
	bool in = c->entered == c->epoch, lacking = c->attending < c->world;
	if (!n->ranks)
		return false;
	if (lacking) {
		coord_set_ranks(c, node, 0);
	} else {
		coord_set_joining(c, node, false);
		n->moved = true;
	}
	if (in)
		coord_raise(c, "ranks move to other nodes");
	return lacking;
}

void coord_invalidate_plan(struct coord *c, const char *why)
{
	bool needed = false;
	coord_each(c, n)
	{
		needed = needed || coord_needs(c, n);
		coord_spill_gone(c, n);
		coord_set_ranks(c, n, 0);
	}
	if (needed)
		coord_raise(c, "%s", why);
}

/* ---- epochs ---------------------------------------------------------------------------------------------------- */

void coord_raise(struct coord *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
	coord_resume_count(c);
	++c->epoch;
	c->fresh = c->resumed = c->resuming = false;
	coord_restore_forget(c);
	coord_copy_forget(c);
	coord_saves_poison(c);
	coord_standstill_forget(c);
	straggling_end(&c->straggling);
	coord_each(c, n)
	{
		coord_set_joining(c, n, false);
		c->nodes[n].knows = true;
		c->nodes[n].in = false;
		coord_set_finished(c, n, false);
	}
	coord_withhold(c);
}

/* A loss may have raised the epoch while the request was on its way: it holds all the same. One that is older than the last rollback does
 * not: several nodes may ask for the same reason. */
static bool may_go_back(struct coord *c, struct coord_from from)
{
	bool overtaken = !c->fresh && c->nodes[from.node].ranks && from.epoch && from.epoch <= c->epoch;
	return (overtaken || coord_current(c, from)) && rollbacks_last(&c->back) <= from.epoch;
}

void coord_rollback(struct coord *c, struct coord_from from, const struct wire_rollback *to)
{
	if (!may_go_back(c, from) || to->to.epoch > c->epoch)
		return;
	rollbacks_add(&c->back, (struct rollback){.at = c->epoch + 1, .to = to->to});
	coord_raise(c, "the job goes back to step %lu of epoch %u: %s", (unsigned long)to->to.step, to->to.epoch,
		    to->reason);
}

static void adopt(struct coord *c, uint32_t epoch, bool resumed)
{
	c->epoch = epoch;
	if (resumed)
		c->entered = c->used = epoch;
	c->resumed = c->resumed || resumed;
	struct peer_word word = {.epoch = epoch, .flag = resumed};
	coord_each(c, n) coord_order_word(c, n, PEER_ADOPT, word, "");
}

/* Who was there knows the epoch better than the store does. A rank that is in the last one that was given out goes on in it; whoever
 * else knows of one proves only that it must not be given out again. */
void coord_knows(struct coord *c, uint32_t node, enum coord_witness witness, uint32_t epoch)
{
	if (!c->fresh || !epoch || epoch > EPOCH_MAX || !c->nodes[node].ranks)
		return;
	c->has_saved = true;
	if (witness == WITNESS_RANK && !c->resumed && epoch + 1 >= c->epoch) {
		adopt(c, epoch, true);
	} else if (!c->resumed && epoch >= c->epoch && epoch < EPOCH_MAX) {
		adopt(c, epoch + 1, false);
	} else if (c->resumed && witness == WITNESS_ARENA && epoch > c->epoch) {
		/* Raised, and who raised it died before it could tell those who have come back. */
		c->epoch = epoch;
		coord_raise(c, "epoch %u had begun before the daemon was restarted", epoch);
	}
}

void coord_lost(struct coord *c, struct coord_from from, uint32_t rank, bool was_in, const char *why)
{
	if (!coord_current(c, from))
		return;
	coord_set_joining(c, from.node, false); /* until its next process waits, too */
	if (c->fresh && !c->resuming && !was_in) {
		struct peer_word word = {.epoch = c->epoch, .rank = rank};
		coord_order_word(c, from.node, PEER_RANK_WANTED, word, why);
		return;
	}
	note_lost(c, rank, is_waited_for(c, rank) ? LOST_HANG : LOST_RANK);
	if (c->resuming)
		coord_resume_end(c, "rank %u is lost: %s", rank, why);
	else
		coord_raise(c, "rank %u is lost: %s", rank, why);
}

void coord_missing(struct coord *c, struct coord_from from, uint32_t rank)
{
	if (!coord_current(c, from))
		return;
	note_lost(c, rank, LOST_DAEMON);
	coord_raise(c, "rank %u did not come back after the daemon restarted", rank);
}
