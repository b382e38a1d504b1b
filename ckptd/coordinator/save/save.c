/* How far each save has come: a level is shown only when true for every rank; MANIFEST.json is written only when every node has written
 * and fsynced what it vouches for, and nothing is deleted before the directory is out of the way. */
#include "coordinator/save/save.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILED_ELSEWHERE "this save has failed on another node"

void coord_save_free(struct coord *c, struct coord_save *s)
{
	c->nsaves--;
	list_remove(&s->link);
	coord_divergence_free(s->vote);
	free(s->parts);
	free(s);
}

void coord_saves_free(struct coord *c)
{
	list_for_safe(node, &c->saves)
		coord_save_free(c, save_of(node));
}

/* ---- finding --------------------------------------------------------------------------------------------------- */

static struct coord_save *find(struct coord *c, struct step_id id, struct list **after)
{
	*after = c->saves.prev;
	while (*after != &c->saves && step_compare(save_of(*after)->id, id) > 0)
		*after = (*after)->prev;
	return *after != &c->saves && !step_compare(save_of(*after)->id, id) ? save_of(*after) : NULL;
}

static struct coord_save *find_or_make(struct coord *c, struct step_id id)
{
	struct list *after;
	struct coord_save *s = find(c, id, &after);
	if (s)
		return s;
	s = c->nsaves < COORD_SAVES_MAX ? calloc(1, sizeof(*s) + c->nnodes * sizeof(s->said[0])) : NULL;
	if (!s)
		return NULL;
	c->nsaves++;
	s->id = id;
	list_push(after->next, &s->link); /* before the next one */
	return s;
}

struct coord_save *coord_save_find(struct coord *c, struct step_id id)
{
	struct list *after;
	return find(c, id, &after);
}

void coord_save_recall(struct coord *c, struct step_id id, bool captured)
{
	struct coord_save *s = find_or_make(c, id);
	if (!s || s->failed)
		return;
	s->copied = true;
	if (captured && s->shown < LEVEL_CAPTURED)
		s->shown = LEVEL_CAPTURED;
}

/* Who is not answered would wait for as long as the job lasts. */
static struct coord_save *make_or_refuse(struct coord *c, struct step_id id)
{
	struct coord_save *s = find_or_make(c, id);
	if (!s)
		coord_leave_out(c, id, -ENOMEM, "the coordinator has no room to follow this save");
	return s;
}

/* While not all nodes have come to a coordinator that takes over nothing counts (coordinator/resume.c). Else what is
 * ordered to those who are there fails as soon as the next one joins, and what a node has told the last coordinator alone
 * looks skipped. */
struct coord_save *coord_save_hear(struct coord *c, struct coord_from from, struct step_id id)
{
	if (!coord_current(c, from) || c->resuming)
		return NULL;
	struct coord_save *s = coord_save_find(c, id);
	const struct coord_left_out *left_out = s ? NULL : coord_was_left_out(c, id);
	c->used = c->epoch;
	if (!left_out && !(s && s->failed))
		return s ? s : make_or_refuse(c, id);
	/* Else it has nothing there, or has been told what to do with it. */
	bool written = s && s->place == PLACE_DROPPED;
	coord_order_failure(c, from.node, PEER_FAIL, id, false, left_out ? left_out->rc : -ECANCELED,
			    left_out ? left_out->why : FAILED_ELSEWHERE);
	if (!written)
		coord_order_clear(c, from.node, id, true);
	return NULL;
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void order_level(struct coord *c, struct step_id id, enum level_shown level)
{
	coord_each(c, n) coord_order_level(c, n, id, level);
}

static void order_clear(struct coord *c, struct step_id id, bool kept)
{
	coord_each(c, n) coord_order_clear(c, n, id, kept);
}

/* Its directory is dropped; one that has been given up already goes its way. */
static void fail(struct coord *c, struct coord_save *s, bool storage, int rc, const char *text)
{
	struct step_id id = s->id;
	enum place was = s->place;
	bool is_there = was >= PLACE_MAKING && was <= PLACE_SEALING;
	s->unwritten = true;
	s->place = is_there ? PLACE_DROPPED : was;
	free(s->parts);
	s->parts = NULL;
	coord_each(c, n) coord_order_failure(c, n, PEER_FAIL, id, storage, rc, text);
	if (is_there)
		c->orders->drop(c->orders->arg, id, rc, text);
	else if (was == PLACE_NONE)
		order_clear(c, id, true);
}

void coord_save_fail(struct coord *c, struct coord_save *s, int rc, const char *text)
{
	s->failed = true;
	coord_divergence_free(s->vote);
	s->vote = NULL;
	fail(c, s, false, rc, text);
	coord_saves_in_turn(c);
}

void coord_save_fail_storage(struct coord *c, struct coord_save *s, int rc, const char *text)
{
	if (s->shown >= LEVEL_CAPTURED)
		coord_save_fail(c, s, rc, text);
	else if (!s->unwritten)
		fail(c, s, true, rc, text);
}

/* A node that wants to write, or has written, what does not come to storage. */
static void refuse_unwritten(struct coord *c, const struct coord_save *s, uint32_t node)
{
	struct step_id id = s->id;
	bool dropped = s->place == PLACE_DROPPED; /* else it is told what to do with it */
	coord_order_failure(c, node, PEER_FAIL, id, true, -ECANCELED, FAILED_ELSEWHERE);
	if (!dropped)
		coord_order_clear(c, node, id, true);
}

void coord_save_show(struct coord *c, struct coord_save *s, enum level_shown level)
{
	s->shown = level;
	s->failed = s->unwritten; /* and all know it */
	c->has_saved = true;
	c->unserved = false;
	coord_divergence_free(s->vote);
	s->vote = NULL;
	if (level >= LEVEL_DURABLE) {
		free(s->parts);
		s->parts = NULL;
		coord_restore_stored(c, s->id);
	}
	order_level(c, s->id, level);
	if (level < LEVEL_CAPTURED)
		return;
	coord_copy_next(c);
	coord_saves_in_turn(c);
}

struct step_id coord_newest_captured(const struct coord *c)
{
	for (struct list *it = c->saves.prev; it != &c->saves; it = it->prev)
		if (save_of(it)->shown >= LEVEL_CAPTURED)
			return save_of(it)->id;
	return (struct step_id){0};
}

/* Also of one that is on storage already, or could not be written. */
void coord_show_replicated(struct coord *c, struct step_id id)
{
	struct list *after;
	struct coord_save *s = find(c, id, &after);
	if (s && s->shown < LEVEL_REPLICATED)
		s->shown = LEVEL_REPLICATED;
	if (step_compare(id, c->replicated) > 0)
		c->replicated = id;
	order_level(c, id, LEVEL_REPLICATED);
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

bool coord_save_take(const struct coord *c, struct coord_save *s, uint32_t node, unsigned what)
{
	if (!(s->said[node] & 1u << what))
		s->ranks[what] += c->nodes[node].ranks;
	s->said[node] |= (uint16_t)(1u << what);
	return s->ranks[what] == c->world;
}

/* False: what a node says of it now proves nothing, it has failed. */
static bool sound(struct coord *c, struct coord_save *s, uint32_t node)
{
	if (s->copied || s->id.epoch >= c->epoch || c->nodes[node].ranks == c->world)
		return true;
	coord_save_fail(c, s, -ESTALE, "whether every rank had copied it before the epoch was raised is not known");
	return false;
}

/* Ranks begin their steps in order: what this node has not copied before a later one, it found no slots for, and never
 * will. While the others waited for it, these would hold theirs, and lack them in turn for what it does copy. */
static void give_up_skipped(struct coord *c, uint32_t node, struct step_id id)
{
	char text[WIRE_TEXT_MAX];
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		if (s->failed || s->copied || s->id.epoch != id.epoch || s->id.step >= id.step ||
		    s->said[node] & 1u << SAID_COPIED)
			continue;
		snprintf(text, sizeof(text), "a node skipped step %lu and copied step %lu", (unsigned long)s->id.step,
			 (unsigned long)id.step);
		coord_save_fail(c, s, -ECANCELED, text);
	}
}

/* The same, of which another node has said that before this one was heard of. */
static bool was_skipped(const struct coord *c, const struct coord_save *s)
{
	for (struct list *it = s->link.next; it != &c->saves; it = it->next) {
		const struct coord_save *later = save_of(it);
		coord_each(c, n)
		{
			if (later->id.epoch == s->id.epoch && (later->said[n] & ~s->said[n] & 1u << SAID_COPIED))
				return true;
		}
	}
	return false;
}

void coord_copied(struct coord *c, struct coord_from from, struct step_id id)
{
	struct coord_save *s = coord_save_hear(c, from, id);
	if (!s)
		return;
	if (coord_save_take(c, s, from.node, SAID_COPIED))
		s->copied = true;
	if (s->unwritten) /* it may not have begun it when that was said */
		coord_order_failure(c, from.node, PEER_FAIL, id, true, -ECANCELED, FAILED_ELSEWHERE);
	if (!sound(c, s, from.node) || id.epoch != c->epoch || c->nodes[from.node].ranks == c->world)
		return;
	if (!s->copied && was_skipped(c, s))
		coord_save_fail(c, s, -ECANCELED, "a node skipped it, and copied a later one");
	give_up_skipped(c, from.node, id);
}

void coord_reached(struct coord *c, struct coord_from from, struct step_id id, enum level_shown level)
{
	if (level == LEVEL_REPLICATED) {
		coord_replicated(c, from, id);
		return;
	}
	struct coord_save *s = coord_save_hear(c, from, id);
	if (s && level == LEVEL_VERIFIED)
		s->copied = true; /* what is read back was on storage, perhaps under an earlier coordinator */
	if (!s || !sound(c, s, from.node))
		return;
	if (coord_save_take(c, s, from.node, level) && s->shown < level) {
		if (level == LEVEL_CAPTURED)
			coord_save_decide(c, s);
		else
			coord_save_show(c, s, level);
	} else if (s->shown >= level) { /* a node that has come back */
		coord_order_level(c, from.node, id, s->shown);
	}
}

void coord_save_seal(struct coord *c, struct coord_save *s)
{
	AUTO_WBUF struct wbuf manifest = {0};
	if (s->place != PLACE_MADE || s->ranks[SAID_PREPARED] != c->world)
		return;
	int rc = coord_manifest(c, s->id, s->parts, &manifest);
	if (rc) {
		coord_save_fail_storage(c, s, rc, "no memory for the manifest");
		return;
	}
	s->place = PLACE_SEALING;
	c->orders->seal(c->orders->arg, s->id, &manifest);
}

static struct coord_save *being_written(struct coord *c)
{
	list_for(it, &c->saves)
		if (save_of(it)->place == PLACE_MAKING || save_of(it)->place == PLACE_MADE)
			return save_of(it);
	return NULL;
}

bool coord_saves_written(const struct coord *c)
{
	list_for(it, &c->saves)
		if (save_of(it)->place >= PLACE_MAKING && save_of(it)->place <= PLACE_SEALING)
			return true;
	return false;
}

/* The node that decides what is written has one save written at a time. Another one was ordered before a daemon was restarted: the nodes
 * that have their part of it, and those that write this one, would wait for each other for ever. */
static void keep_newer(struct coord *c, struct coord_save *s)
{
	struct coord_save *other = being_written(c);
	char text[WIRE_TEXT_MAX];
	if (!other)
		return;
	bool newer = step_compare(s->id, other->id) > 0;
	snprintf(text, sizeof(text), "superseded: a daemon was restarted, and step %lu is being written",
		 (unsigned long)(newer ? s : other)->id.step);
	coord_save_fail_storage(c, newer ? other : s, -ECANCELED, text);
}

/* Of a node that came back while what the others had was brought to storage. */
static void refuse_brought(struct coord *c, struct coord_save *s)
{
	char text[WIRE_TEXT_MAX];
	snprintf(text, sizeof(text), "it is on storage, as one of epoch %u", c->brought.as.epoch);
	coord_save_fail_storage(c, s, -EALREADY, text);
}

/* What a spill writes is written once; and what it cannot is, after it, by those who are all there again. */
static void make(struct coord *c, struct coord_save *s)
{
	if (s->place != PLACE_NONE || s->shown >= LEVEL_DURABLE)
		return;
	s->waits = coord_spill_writes(c);
	if (s->waits)
		return;
	if (!step_compare(s->id, c->brought.id)) {
		refuse_brought(c, s);
		return;
	}
	keep_newer(c, s);
	if (s->unwritten)
		return;
	s->place = PLACE_MAKING;
	c->orders->make(c->orders->arg, s->id);
}

static void want(struct coord *c, struct coord_save *s)
{
	if (c->held && c->attending < c->world)
		coord_save_fail(c, s, -ENODEV, "a node that has a part of it is lost");
	else if (c->attending > c->world && s->place == PLACE_NONE)
		coord_save_fail(c, s, -ENODEV, SAVE_MOVES_TEXT);
	else
		make(c, s);
}

void coord_ready(struct coord *c, struct coord_from from, struct step_id id)
{
	struct coord_save *s = coord_save_hear(c, from, id);
	if (s && s->unwritten) {
		refuse_unwritten(c, s, from.node);
	} else if (s && s->shown >= LEVEL_DURABLE) {
		coord_save_take(c, s, from.node, SAID_READY);
		coord_save_compare(c, id);
	} else if (s) {
		want(c, s);
	}
}

void coord_saves_resume(struct coord *c)
{
	list_for_safe(it, &c->saves) {
		struct coord_save *s = save_of(it);
		bool waited = s->waits;
		s->waits = false;
		if (!waited || s->unwritten)
			continue;
		want(c, s);
	}
}

void coord_passed(struct coord *c, struct coord_from from, struct step_id id, int rc, const char *text)
{
	struct coord_save *s = coord_save_hear(c, from, id);
	for (uint32_t n = 0; s && n < c->nnodes; n++)
		if (c->nodes[n].ranks && n != from.node)
			coord_order_failure(c, n, PEER_SKIP, id, true, rc, text);
}

void coord_prepared(struct coord *c, struct coord_from from, struct step_id id, const struct peer_part *part)
{
	struct coord_save *s = coord_save_hear(c, from, id);
	if (s && s->shown >= LEVEL_DURABLE) /* a node that has come back: it waits for this */
		coord_order_level(c, from.node, id, LEVEL_DURABLE);
	if (!s || s->shown >= LEVEL_DURABLE)
		return;
	if (s->unwritten) {
		refuse_unwritten(c, s, from.node);
		return;
	}
	if (!s->parts)
		s->parts = calloc(c->nnodes, sizeof(*s->parts));
	if (!s->parts) {
		coord_save_fail_storage(c, s, -ENOMEM, "no memory for the parts of the manifest");
		return;
	}
	s->parts[from.node] = *part;
	coord_save_take(c, s, from.node, SAID_PREPARED);
	want(c, s); /* by order of an earlier incarnation of the coordinator */
	coord_save_seal(c, s);
}

/* Who is prepared has given its word for good: once all have, none can take it back. */
void coord_failed(struct coord *c, struct coord_from from, struct step_id id, bool storage, int rc, const char *text)
{
	struct list *after;
	struct coord_save *s = coord_current(c, from) ? make_or_refuse(c, id) : find(c, id, &after);
	if (from.epoch != c->epoch && !(s && (s->place == PLACE_MAKING || s->place == PLACE_MADE)))
		return; /* else: it has refused to write it, and may know nothing of it any more */
	if (!s || s->place == PLACE_SEALING)
		return;
	if (storage ? s->unwritten : s->failed) {
		if (s->place != PLACE_DROPPED)
			coord_order_clear(c, from.node, id, true); /* it has not heard of that, or of the failure */
	} else if (storage) {
		coord_save_fail_storage(c, s, rc, text);
	} else {
		coord_save_fail(c, s, rc, text);
	}
}
