#include "store/manage/pick.h"

#include "base/quoted.h"
#include "store/manage/tags.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static bool digits(const char *text, size_t min, size_t max)
{
	size_t n = strspn(text, "0123456789");
	return !text[n] && n >= min && n <= max;
}

/* "1000", "1000.e0003". */
static bool parse_step(const char *text, struct pick *pick)
{
	char step[16];
	size_t len = strcspn(text, ".");
	if (len >= sizeof(step))
		return false;
	memcpy(step, text, len);
	step[len] = 0;
	pick->any_epoch = !text[len];
	if (!digits(step, 1, 12) || (text[len] && (strncmp(text + len, ".e", 2) || !digits(text + len + 2, 1, 9))))
		return false;
	pick->id.step = strtoull(step, NULL, 10);
	pick->id.epoch = pick->any_epoch ? 0 : (uint32_t)strtoul(text + len + 2, NULL, 10);
	return true;
}

int pick_parse(const char *text, struct pick *pick, struct err *err)
{
	*pick = (struct pick){.text = text ? text : "latest"};
	pick->latest = !strcmp(pick->text, "latest");
	pick->healthy = !strcmp(pick->text, "healthy");
	if (pick->latest || pick->healthy || parse_step(pick->text, pick))
		return 0;
	if (!strncmp(pick->text, "step-", 5) && !name_parse_dir(pick->text, &pick->id))
		return 0;
	*pick = (struct pick){.text = pick->text, .tag = !name_check_tag(pick->text, NULL)};
	if (pick->tag)
		return 0;
	return err_set(err, -EINVAL,
		       "%s is no checkpoint: say latest, healthy, 1000, 1000.e0003, the directory's name or a tag",
		       quoted(pick->text).text);
}

int pick_resolve(struct repo *repo, const char *job, struct pick *pick, struct err *err)
{
	struct tag tag;
	if (!pick->tag)
		return 0;
	int rc = tag_read(repo, job, pick->text, &tag, err);
	if (!rc)
		pick->id = tag.id;
	return rc;
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

/* The training called it healthy, and nobody has found damage in it. */
static bool is_healthy(struct repo *repo, const struct checkpoint_ref *ref)
{
	struct checkpoint ck;
	struct health_mark mark;
	struct health health;
	if (checkpoint_open_root(repo, ref->job, ref->id, &ck, NULL))
		return false;
	bool healthy = !checkpoint_health_mark(&ck, &mark, NULL) && !mark.unhealthy &&
		       (checkpoint_health(&ck, &health, NULL) || !health.damaged);
	checkpoint_close(&ck);
	return healthy;
}

static bool grants(const struct pick *pick, const struct checkpoint_ref *ref)
{
	return pick->latest || (ref->id.step == pick->id.step && (pick->any_epoch || ref->id.epoch == pick->id.epoch));
}

static int say_missing(const struct repo *repo, const struct pick *pick, const struct checkpoint_ref *refs, size_t n,
		       struct err *err)
{
	const struct checkpoint_ref *below = NULL, *above = NULL;
	char low[NAME_DIR_MAX] = "nothing", high[NAME_DIR_MAX] = "nothing";
	for (size_t i = 0; i < n; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED && grants(pick, &refs[i]))
			return err_set(err, -ENOENT, "%s was never committed: it is no checkpoint", pick->text);
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		if (refs[i].id.step <= pick->id.step && (!below || refs[i].id.step >= below->id.step))
			below = &refs[i];
		if (refs[i].id.step >= pick->id.step && (!above || refs[i].id.step <= above->id.step))
			above = &refs[i];
	}
	if (!below && !above)
		return err_set(err, -ENOENT, "there is no checkpoint %s in %s, and none that was committed", pick->text,
			       repo->path);
	if (below)
		name_dir(below->id, low);
	if (above)
		name_dir(above->id, high);
	return err_set(err, -ENOENT, "there is no checkpoint %s: the nearest are %s below and %s above", pick->text,
		       low, high);
}

static int say_none(const struct repo *repo, const struct pick *pick, const struct checkpoint_ref *refs, size_t n,
		    struct err *err)
{
	char name[NAME_DIR_MAX];
	if (pick->latest)
		return err_set(err, -ENODATA, "there is no committed checkpoint in %s", repo->path);
	if (pick->healthy)
		return err_set(err, -ENODATA, "there is no intact checkpoint in %s that the training called healthy",
			       repo->path);
	if (!pick->tag)
		return say_missing(repo, pick, refs, n, err);
	name_dir(pick->id, name);
	return err_set(err, -ENOENT, "tag %s names %s, which is not there any more", pick->text, name);
}

int pick_among(struct repo *repo, const struct pick *pick, const struct checkpoint_ref *refs, size_t n,
	       struct checkpoint_ref *ref, struct err *err)
{
	for (size_t i = n; i-- > 0;) {
		if (refs[i].state != CHECKPOINT_COMMITTED ||
		    !(pick->healthy ? is_healthy(repo, &refs[i]) : grants(pick, &refs[i])))
			continue;
		*ref = refs[i];
		return 0;
	}
	return say_none(repo, pick, refs, n, err);
}
