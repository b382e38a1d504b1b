/* Saves that do not come to an end by themselves: deadlines, new epochs, a job that has gone on without this node. */
#include "save/saves_private.h"

#include "base/bytes.h"
#include "base/clock.h"

static const char *phase_text(uint32_t phase)
{
	static const char *const texts[] = {[LATE_BEGIN] = "has not begun this step",
					    [LATE_CAPTURE] = "is still copying",
					    [LATE_FENCE] = "has not called fence",
					    [LATE_DIGEST] = "is still being digested"};
	return phase && phase < sizeof(texts) / sizeof(texts[0]) ? texts[phase] : "is late";
}

/* Who is prepared waits for the others, as long as it takes; for what is still captured there is a limit of its own. */
static bool may_stall(const struct node_part *c)
{
	return c->state != NODE_PART_DONE && c->state != NODE_PART_PREPARED && !node_part_waits(c);
}

/* What is complete here waits for the coordinator's word alone, which has time from when there is one. */
static bool is_late(const struct saves *saves, const struct snapshot *s, uint64_t now)
{
	uint64_t since = s->opened_ns;
	if (s->state != SNAPSHOT_OPEN && s->state != SNAPSHOT_COPIED)
		return false;
	if (snapshot_is_digested(s))
		since = saves->apart ? now : max_u64(since, saves->linked_ns);
	return now - since > saves->of.policy->save_timeout_ms * CLOCK_NS_PER_MS;
}

static void expire(struct saves *saves, struct snapshot *s, uint64_t now)
{
	const struct policy *policy = saves->of.policy;
	uint64_t stall_ns = policy->stall_timeout_ms * CLOCK_NS_PER_MS;
	if (is_late(saves, s, now))
		snapshot_fail(s, -ETIMEDOUT, "not captured within %lu ms: rank %u %s",
			      (unsigned long)policy->save_timeout_ms, s->late_rank, phase_text(s->late_phase));
	else if (s->commit && may_stall(s->commit) && now - s->commit->progress_ns > stall_ns)
		snapshot_fail_storage(s, -ETIMEDOUT, "storage made no progress for %lu ms (commit state %s)",
				      (unsigned long)policy->stall_timeout_ms, node_part_state_name(s->commit->state));
	if (s->commit && s->commit->state == NODE_PART_STOPPED && now - s->commit->progress_ns > 2 * stall_ns)
		node_part_clear(s->commit, 0); /* nobody says what is to become of it */
}

void saves_expire(struct saves *saves)
{
	uint64_t now = clock_now();
	saves->walking++;
	list_for(node, &saves->snapshots)
		expire(saves, snapshot_of(node), now);
	saves->walking--;
	saves_pump(saves);
}

static bool complete_copy(const struct snapshot *s)
{
	return s->state >= SNAPSHOT_COPIED && s->state != SNAPSHOT_FAILED;
}

/* An arena that has come back may hold a part that is missing. */
static bool may_be_complete(const struct saves *saves, const struct snapshot *s)
{
	bool unseen = false;
	for (uint32_t r = 0; r < s->nparts; r++)
		unseen |= s->parts[r].state == PART_ABSENT && saves_unseen(saves, r);
	return unseen;
}

void saves_poison(struct saves *saves, uint32_t epoch)
{
	saves->lent = (struct step_id){0};
	saves->walking++;
	list_for(node, &saves->snapshots) {
		struct snapshot *s = snapshot_of(node);
		if (!complete_copy(s) && s->state != SNAPSHOT_FAILED && !may_be_complete(saves, s))
			snapshot_fail(s, -ESTALE, "epoch %u began before every rank was captured", epoch);
	}
	saves->walking--;
	for (uint32_t r = 0; r < *saves->of.nlocal; r++)
		if (saved_rank(saves, r).mem && !saves_unseen(saves, r))
			saved_rank(saves, r).mem->adopted = false;
	saves_pump(saves);
}

static void abandon(struct snapshot *s, const char *why)
{
	struct node_part *c = s->commit;
	if (s->verify == VERIFY_QUEUED || s->verify == VERIFY_AWAITED)
		s->verify = VERIFY_LEFT;
	if (c && c->state == NODE_PART_PREPARED) {
		node_part_end(c);
		return;
	}
	if (c && c->state > NODE_PART_STOPPED)
		return; /* it ends already */
	if (!complete_copy(s) || saves_wants_commit(s) || c)
		snapshot_fail(s, -ESTALE, "%s", why);
	if (c)
		node_part_clear(c, 0);
}

void saves_abandon(struct saves *saves, const char *why)
{
	saves->walking++;
	list_for(node, &saves->snapshots)
		abandon(snapshot_of(node), why);
	saves->walking--;
	saves_pump(saves);
}
