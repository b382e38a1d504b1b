/* How far the snapshots of this node have come, as its coordinator is told, and what it says of those of all nodes. */
#include "save/saves_private.h"

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/room.h"
#include "checkpoint/room.h"
#include "participant/room.h"
#include "save/copies.h"
#include "save/replica_digests.h"

#include <stdio.h>
#include <string.h>

/* ---- reports --------------------------------------------------------------------------------------------------- */

void saves_copied(struct saves *saves, const struct snapshot *s)
{
	if (!s->proven || !*saves->of.spread)
		participant_copied(saves->of.job, s->id);
}

static int tell_replica_digests(struct saves *saves, const struct snapshot *s)
{
	AUTO_FREE struct peer_replica_digest *replica_digests = NULL;
	struct peer_report report = {.type = PEER_REPLICA_DIGESTS, .replica_digests.id = s->id};
	uint32_t n = 0;
	int rc = replica_digests_list(s, &replica_digests, &n);
	for (uint32_t at = 0; at < n; at += report.replica_digests.n) {
		report.replica_digests.n = (uint32_t)min_u64(n - at, PEER_REPLICA_DIGESTS_MAX);
		memcpy(report.replica_digests.of, replica_digests + at,
		       report.replica_digests.n * sizeof(*replica_digests));
		participant_say(saves->of.job, &report);
	}
	return rc;
}

/* The coordinator may have been started again since, in the same epoch, and know nothing of it. */
static struct step_id deviated_before(const struct snapshot *s)
{
	struct step_id first = {0};
	for (uint32_t r = 0; r < s->nparts && !first.epoch; r++)
		first = memory_deviated(s->parts[r].mem, s->id);
	return first;
}

/* What the ranks hold alike is told first: where it differs this one is not shown as captured. */
static void tell_captured(struct saves *saves, struct snapshot *s)
{
	struct step_id id = s->id, deviated = deviated_before(s);
	if (deviated.epoch)
		snapshot_fail(s, -EUCLEAN,
			      "it comes after step %lu, in which replicas differed: go back to an earlier one",
			      (unsigned long)deviated.step);
	else if (tell_replica_digests(saves, s))
		snapshot_fail(s, -ENOMEM, "no memory to compare replicas");
	else
		participant_reached(saves->of.job, id, LEVEL_CAPTURED);
}

void saves_compare(struct saves *saves, const struct peer_compare *ask)
{
	const struct snapshot *s = saves_find(saves, ask->id);
	struct peer_report answer = {.type = PEER_COMPARED};
	if (!s || s->state == SNAPSHOT_FAILED) {
		participant_failed(saves->of.job, ask->id, false, -ENODATA, "this node does not have it in memory");
		return;
	}
	if (!s->told)
		return; /* it is still being digested: when that is told, this node is asked anew */
	replica_digests_tell(s, ask, &answer.compared);
	participant_say(saves->of.job, &answer);
}

void saves_digested(struct saves *saves, struct snapshot *s)
{
	if (s->told == *saves->of.epoch || !*saves->of.epoch)
		return;
	s->told = *saves->of.epoch;
	s->told_ns = clock_now();
	if (s->proven && *saves->of.spread) /* the coordinator may have been restarted, too, and know nothing of it */
		snapshot_captured(s);
	else
		tell_captured(saves, s);
}

/* A failure towards storage alone: on other nodes it may not be known that the policies keep it in memory. */
void saves_passed(struct saves *saves, const struct snapshot *s, int rc)
{
	if (saves->reporting)
		return;
	if (*saves->of.spread && saves_decide(saves))
		participant_passed(saves->of.job, s->id, rc, s->err.text);
	else if (*saves->of.spread)
		saves_failed(saves, s, rc);
}

void saves_ready(struct saves *saves, struct snapshot *s)
{
	s->said = *saves->of.epoch;
	participant_ready(saves->of.job, s->id);
}

void saves_prepared(struct saves *saves, struct snapshot *s)
{
	s->said = *saves->of.epoch;
	participant_prepared(saves->of.job, s->id, s->commit->maker, &s->commit->part);
}

void saves_failed(struct saves *saves, const struct snapshot *s, int rc)
{
	if (saves->reporting)
		return; /* it is the coordinator who has said so */
	participant_failed(saves->of.job, s->id, !s->rc, rc, s->err.text);
}

void saves_cleared(struct saves *saves, struct step_id id)
{
	participant_cleared(saves->of.job, id);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void tell_durable(const struct saves *saves, const struct snapshot *s, const struct node_part *c)
{
	char linked[80] = "", packed[40] = "";
	if (c->linked_files)
		snprintf(linked, sizeof(linked), ", %lu of %lu files linked", (unsigned long)c->linked_files,
			 (unsigned long)c->files);
	if (c->stored != c->bytes)
		snprintf(packed, sizeof(packed), ", packed to %.0f%%", 100.0 * (double)c->stored / (double)c->bytes);
	log_info("job %s: step %lu epoch %u durable, %.0f ms after begin%s%s%s", saves->of.name,
		 (unsigned long)s->id.step, s->id.epoch, (double)(s->durable_ns - s->opened_ns) / 1e6, linked, packed,
		 c->already ? " (committed before a restart)" : "");
}

/* Nothing older than what is written is ordered any more (save/save_policy.c). Who decides has said so of what it still had. */
static void pass_older(struct saves *saves, const struct snapshot *durable)
{
	if (saves_decide(saves))
		return;
	saves->reporting++;
	for (struct list *node = durable->link.prev; node != &saves->snapshots; node = node->prev)
		if (snapshot_of(node)->state == SNAPSHOT_CAPTURED && saves_wants_commit(snapshot_of(node)) &&
		    step_compare(snapshot_of(node)->id, saves->ordered.id) != 0)
			snapshot_stay(snapshot_of(node), -ECANCELED, "superseded: step %lu is on storage",
				      (unsigned long)durable->id.step);
	saves->reporting--;
}

static void set_durable(struct saves *saves, struct snapshot *s)
{
	const struct node_part *c = s->commit;
	if (s->state >= SNAPSHOT_DURABLE && s->verify == VERIFY_AWAITED)
		participant_reached(saves->of.job, s->id, LEVEL_VERIFIED); /* to a coordinator that was restarted */
	if (s->state != SNAPSHOT_CAPTURED || !c)
		return;
	saves->committed++;
	s->durable_ns = clock_now();
	snapshot_set_state(s, SNAPSHOT_DURABLE);
	copies_durable(saves->of.copies, s->id);
	pass_older(saves, s);
	if (saves->of.policy->verify)
		s->verify = saves_decide(saves) ? VERIFY_QUEUED : VERIFY_AWAITED;
	tell_durable(saves, s, c);
	catalog_committed(saves->of.storage->catalog, saves->of.name, s->id, c->bytes, (uint32_t)c->files,
			  *saves->of.world);
	snapshot_publish(s);
	saves->of.durable(saves->of.job, s->id);
	node_part_end(s->commit);
	if (s->verify == VERIFY_AWAITED) /* one node reads all of it, for all */
		participant_reached(saves->of.job, s->id, LEVEL_VERIFIED);
}

static void set_verified(struct saves *saves, struct snapshot *s)
{
	if (s->state != SNAPSHOT_DURABLE)
		return;
	saves->verified++;
	s->verified_ns = clock_now();
	snapshot_set_state(s, SNAPSHOT_VERIFIED);
	snapshot_publish(s);
}

bool saves_are_copied(const struct saves *saves)
{
	return copies_wanted(saves->of.copies) != 0;
}

static void set_replicated(struct saves *saves, struct step_id id, struct snapshot *s)
{
	copies_replicated(saves->of.copies, id);
	if (!s || s->replicated_ns || !snapshot_is_captured(s))
		return;
	s->replicated_ns = clock_now();
	log_info("job %s: step %lu epoch %u replicated, %.0f ms after begin", saves->of.name, (unsigned long)s->id.step,
		 s->id.epoch, (double)(s->replicated_ns - s->opened_ns) / 1e6);
	snapshot_publish(s);
}

void saves_level(struct saves *saves, struct step_id id, enum level_shown level)
{
	struct snapshot *s = saves_find(saves, id);
	if (s && level == LEVEL_CAPTURED)
		snapshot_captured(s);
	else if (level == LEVEL_REPLICATED)
		set_replicated(saves, id, s);
	else if (s && level == LEVEL_DURABLE)
		set_durable(saves, s);
	else if (s && level == LEVEL_VERIFIED)
		set_verified(saves, s);
}

void saves_fail(struct saves *saves, struct step_id id, bool storage, int rc, const char *text)
{
	struct snapshot *s = saves_find(saves, id);
	if (!step_compare(saves->ordered.id, id))
		saves->ordered.id = (struct step_id){0};
	if (s && snapshot_is_stored(s))
		return; /* ranks have been told: nobody takes that back */
	saves->reporting++;
	if (s && storage)
		snapshot_fail_storage(s, rc, "%s", text);
	else if (s)
		snapshot_fail(s, rc, "%s", text);
	else
		participant_forgot(saves->of.job, id);
	saves->reporting--;
}

void saves_pass(struct saves *saves, struct step_id id, int rc, const char *text)
{
	struct snapshot *s = saves_find(saves, id);
	if (!s || s->commit || s->state != SNAPSHOT_CAPTURED)
		return;
	saves->reporting++; /* the coordinator knows */
	s->passed_over = rc == -EOPNOTSUPP;
	snapshot_stay(s, rc, "%s", text);
	saves->reporting--;
}

/* It may not have been begun here; but what is over, or older than what was begun, never will be. */
static bool never_comes(const struct saves *saves, struct step_id id)
{
	if (id.epoch != *saves->of.epoch)
		return true;
	return !list_empty(&saves->snapshots) && step_compare(snapshot_of(saves->snapshots.prev)->id, id) > 0;
}

/* What is good in memory, or may be begun yet, is refused towards storage alone. */
static void refuse_order(struct saves *saves, struct step_id id)
{
	const struct snapshot *s = saves_find(saves, id);
	bool storage = s ? !s->rc && !s->damaged : !never_comes(saves, id);
	if (!step_compare(saves->ordered.id, id))
		saves->ordered.id = (struct step_id){0};
	participant_failed(saves->of.job, id, storage, -ENODATA,
			   storage ? "this node does not write it" : "this node does not have it in memory");
}

static int keep_order(struct saves *saves, const struct peer_save *order)
{
	struct share_parts parts;
	int rc = share_parts_copy(&parts, &order->parts);
	if (rc)
		return rc;
	share_parts_free(&saves->ordered.parts);
	saves->ordered = *order;
	saves->ordered.parts = parts;
	return 0;
}

/* The directory in which it is written is that of a coordinator that is gone. */
static void begin_anew(struct saves *saves, struct snapshot *s, const struct peer_save *order)
{
	if (s->damaged || !snapshot_has_slots(s)) {
		snapshot_fail_storage(s, -ENODATA, "another node coordinates the job, and its slots are given back");
		return;
	}
	if (keep_order(saves, order)) {
		snapshot_fail_storage(s, -ENOMEM, "no memory to write it for another coordinator");
		return;
	}
	if (s->anew)
		return;
	log_info("job %s: step %lu epoch %u is written anew, for another coordinator", saves->of.name,
		 (unsigned long)s->id.step, s->id.epoch);
	saves_begin_anew(s, "another coordinator has it written anew");
}

/* What is being written already is prepared in its own time, and told so. True: nothing else is to be done. */
static bool continues(struct saves *saves, struct snapshot *s, const struct peer_save *order)
{
	struct node_part *c = s ? s->commit : NULL;
	if (!c || (c->rc && !s->anew))
		return false;
	bool prepared = !c->rc && c->state >= NODE_PART_PREPARED, here = c->maker == order->maker;
	if (c->state == NODE_PART_ASK) {
		node_part_write(c, order->flag, order->maker, &order->parts);
	} else if (prepared && (order->flag || here)) {
		c->maker = order->maker;  /* the directory has become a checkpoint, as this one has found */
		saves_prepared(saves, s); /* its coordinator may have died before it could say what became of it */
	} else if (s->anew || !here) {
		if (c->state > NODE_PART_PREPARED && !s->anew)
			return false;
		begin_anew(saves, s, order);
	}
	return true;
}

void saves_write(struct saves *saves, const struct peer_save *order)
{
	struct step_id id = order->id;
	struct snapshot *s = saves_find(saves, id);
	bool another = saves->ordered.id.epoch && step_compare(saves->ordered.id, id) != 0;
	if (continues(saves, s, order))
		return;
	/* A second order is of an earlier incarnation of the coordinator: it must not take the place of the first. */
	if (another || (s ? s->commit != NULL : never_comes(saves, id))) {
		refuse_order(saves, id);
		return;
	}
	if (keep_order(saves, order))
		refuse_order(saves, id);
	else
		saves_pump(saves);
}

struct snapshot *saves_ordered(struct saves *saves)
{
	struct snapshot *s = saves->ordered.id.epoch ? saves_find(saves, saves->ordered.id) : NULL;
	if (!s && saves->ordered.id.epoch && never_comes(saves, saves->ordered.id))
		refuse_order(saves, saves->ordered.id);
	if (!s || saves->committing || (!snapshot_is_writable(s) && !s->rc))
		return NULL;
	if (s->rc || s->damaged || (s->storage_rc && !s->stays)) {
		refuse_order(saves, s->id);
		return NULL;
	}
	saves->ordered.id = (struct step_id){0};
	s->promoted |= !s->to_storage || s->passed_over;
	s->to_storage = s->due = true;
	s->stays = false;
	s->storage_rc = 0;
	return s;
}

void saves_clear(struct saves *saves, const struct peer_save *order)
{
	struct snapshot *s = saves_find(saves, order->id);
	if (s && s->commit && s->commit->state != NODE_PART_DONE)
		node_part_clear(s->commit, order->flag ? 0 : order->maker);
	else
		saves_cleared(saves, order->id);
}

/* ---- what still holds ------------------------------------------------------------------------------------------ */

/* What is of an earlier epoch, and being written still, is told when it is followed, as after each new epoch. */
static void report_anew(struct saves *saves, struct snapshot *s)
{
	s->said = s->told = 0;
	if (s->id.epoch != *saves->of.epoch)
		return;
	if (s->state == SNAPSHOT_VERIFIED || (s->state == SNAPSHOT_DURABLE && s->verify == VERIFY_AWAITED))
		participant_reached(saves->of.job, s->id, LEVEL_VERIFIED);
	if (s->state == SNAPSHOT_FAILED)
		saves_failed(saves, s, s->rc);
	if (s->state == SNAPSHOT_COPIED || s->state == SNAPSHOT_CAPTURED)
		saves_copied(saves, s);
	if (s->state != SNAPSHOT_CAPTURED)
		return; /* what is digested is told when it is followed */
	s->told = *saves->of.epoch;
	tell_captured(saves, s);
}

void saves_report_anew(struct saves *saves)
{
	saves->ordered.id = (struct step_id){0};
	list_for(node, &saves->snapshots)
		report_anew(saves, snapshot_of(node));
	saves_follow(saves);
}

uint32_t saves_list_copied(const struct saves *saves, struct peer_copied *list, uint32_t max)
{
	uint32_t n = 0;
	for (struct list *node = saves->snapshots.prev; node != &saves->snapshots && n < max; node = node->prev) {
		const struct snapshot *s = snapshot_of(node);
		bool captured = snapshot_is_captured(s);
		if (s->id.epoch == *saves->of.epoch && (captured || s->state == SNAPSHOT_COPIED))
			list[n++] = (struct peer_copied){.step = s->id.step, .captured = captured};
	}
	return n;
}

/* What was said in an epoch that was over was not heard. What is being written for a coordinator that is gone, the next one has written anew. */
void saves_say_again(struct saves *saves, struct snapshot *s)
{
	const struct node_part *c = s->commit;
	if (!c || s->said == *saves->of.epoch || !*saves->of.epoch)
		return;
	s->said = *saves->of.epoch;
	if (c->state == NODE_PART_PREPARED)
		saves_prepared(saves, s);
	else if (c->state == NODE_PART_STOPPED)
		saves_failed(saves, s, c->rc);
	else if (c->state < NODE_PART_PREPARED && !c->rc)
		saves_ready(saves, s);
}
