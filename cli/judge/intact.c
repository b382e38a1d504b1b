/* A checkpoint that was damaged on purpose must read as damaged, or have been mended. One whose bits flipped before it was committed (in memory, or
 * on their way) is whole, or was mended, or reads as damaged; and its read-back must not have called it whole. */
#include "judge/intact.h"

#include "base/cleanup.h"
#include "store/check/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum moot { NOT_COMMITTED, OF_MARK, UNDONE, MOOTS };

/* Of one checkpoint. */
struct look {
	struct repo *repo;
	const struct checkpoint_ref *ref;
	const struct damages *all;
	bool unexplained; /* damage that nothing explains */
	bool stored;      /* damage that was done to what was committed */
	bool *seen;       /* by damage: of what was done here */
};

static void explain(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	struct look *l = arg;
	bool explained = false;
	(void)tensor, (void)from, (void)to, (void)text;
	for (size_t i = 0; i < l->all->n; i++) {
		const struct damage *d = &l->all->at[i];
		bool is = damage_explains(d, l->repo, l->ref, file);
		explained |= is;
		l->stored |= is && damage_is_stored(d);
		l->seen[i] |= is && !step_compare(d->id, l->ref->id);
	}
	l->unexplained |= !explained;
}

/* Nobody has read it back, or what was read cannot be known: false. */
static bool was_called_whole(struct look *l)
{
	struct checkpoint ck;
	struct health health;
	struct err ignored = {""};
	if (checkpoint_open_root(l->repo, l->ref->job, l->ref->id, &ck, &ignored))
		return false;
	bool whole = !checkpoint_health(&ck, &health, &ignored) && !health.damaged;
	checkpoint_close(&ck);
	return whole;
}

/* Of the checkpoint, in a file of it. */
static bool is_here(const struct look *l, const struct damage *d)
{
	return !step_compare(d->id, l->ref->id) && *d->file;
}

/* What is seen of a document keeps the rest from being looked at. */
static bool is_unreadable(const struct look *l)
{
	for (size_t i = 0; i < l->all->n; i++)
		if (is_here(l, &l->all->at[i]) && l->seen[i] && damage_is_of_document(&l->all->at[i]))
			return true;
	return false;
}

/* Each must be seen by itself. */
static void judge_damages(const struct look *l, struct invariant *out, size_t moot[MOOTS])
{
	for (size_t i = 0; i < l->all->n; i++) {
		const struct damage *d = &l->all->at[i];
		if (!is_here(l, d) || l->seen[i])
			continue;
		if (damage_is_undone(l->all, i))
			moot[UNDONE]++;
		else if (damage_is_of_mark(d))
			moot[OF_MARK]++;
		else if (!damage_is_mended(d, l->repo, l->ref->job))
			invariant_broken(
				out,
				"bit %u of byte %lu of %s of step %lu of epoch %u was flipped, and nothing finds that",
				d->bit, d->byte, d->file, (unsigned long)d->id.step, d->id.epoch);
	}
}

static void judge_damaged(struct look *l, struct invariant *out)
{
	unsigned long step = (unsigned long)l->ref->id.step;
	if (l->unexplained)
		invariant_broken(out, "step %lu of epoch %u is damaged, and nobody has damaged it", step,
				 l->ref->id.epoch);
	else if (!l->stored && was_called_whole(l))
		invariant_broken(
			out,
			"step %lu of epoch %u was damaged when it was committed, and its read-back called it whole",
			step, l->ref->id.epoch);
}

static int judge_one(struct look *l, struct invariant *out, size_t moot[MOOTS], struct err *err)
{
	const struct verify_options options = {.depth = VERIFY_DATA, .share = 1, .finding = explain, .arg = l};
	struct verify_result result;
	int rc = verify_checkpoint(l->repo, l->ref->job, l->ref->id, &options, &result, err);
	if (rc && rc != -EBADMSG)
		return rc;
	out->looked_at++;
	if (rc)
		judge_damaged(l, out);
	if (!is_unreadable(l))
		judge_damages(l, out, moot);
	return 0;
}

static bool is_committed(const struct checkpoint_ref *refs, size_t n, struct step_id id)
{
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED && !step_compare(refs[i].id, id))
			return true;
	return false;
}

static void tell_moot(const size_t moot[MOOTS], struct invariant *out)
{
	static const char *const whys[MOOTS] = {[NOT_COMMITTED] = "flipped in what is not in the store",
						[OF_MARK] = "flipped in a mark",
						[UNDONE] = "flipped twice"};
	size_t used = 0;
	for (int why = 0; why < MOOTS; why++) {
		out->not_due += moot[why];
		if (moot[why] && used < sizeof(out->why))
			used += (size_t)snprintf(out->why + used, sizeof(out->why) - used, "%s%zu %s", used ? "; " : "",
						 moot[why], whys[why]);
	}
}

int campaign_intact(struct repo *repo, const struct checkpoint_ref *refs, size_t n, const struct damages *all,
		    struct invariant *out, struct err *err)
{
	AUTO_FREE bool *seen = calloc(all->n + 1, sizeof(*seen));
	size_t moot[MOOTS] = {0};
	if (!seen)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < all->n; i++)
		moot[NOT_COMMITTED] += !is_committed(refs, n, all->at[i].id);
	for (size_t i = 0; i < n; i++) {
		struct look look = {.repo = repo, .ref = &refs[i], .all = all, .seen = seen};
		int rc = refs[i].state == CHECKPOINT_COMMITTED ? judge_one(&look, out, moot, err) : 0;
		if (rc)
			return rc;
	}
	tell_moot(moot, out);
	return 0;
}
