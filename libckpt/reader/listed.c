#include "reader/reader.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

struct ckpt_reader_list {
	size_t n;
	struct listed all[];
};

_Static_assert((int)CKPT_READER_COMMITTED == (int)LISTING_COMMITTED &&
		       (int)CKPT_READER_VERIFIED == (int)LISTING_VERIFIED &&
		       (int)CKPT_READER_DAMAGED == (int)LISTING_DAMAGED &&
		       (int)CKPT_READER_UNREADABLE == (int)LISTING_UNREADABLE,
	       "states agree");
_Static_assert((int)CKPT_HEALTHY == (int)LISTING_HEALTHY && (int)CKPT_UNHEALTHY == (int)LISTING_UNHEALTHY,
	       "marks agree");

int reader_store(const char *given, const char **store, struct err *err)
{
	*store = given ? given : getenv("CKPT_REPO");
	if (*store && **store)
		return 0;
	return err_set(err, -EINVAL,
		       given ? "the store is \"\": name its directory"
			     : "no store was named: give its directory or set CKPT_REPO");
}

bool reader_describe(struct repo *repo, const struct checkpoint_ref *ref, struct listed *out)
{
	struct listing l;
	struct err why = {0};
	if (!listing_read(repo, ref, &l, &why))
		return false;
	memcpy(out->job, l.job, sizeof(out->job));
	name_dir(l.id, out->name);
	out->face = (ckpt_reader_checkpoint){.size = sizeof(out->face),
					     .step = l.id.step,
					     .epoch = l.id.epoch,
					     .state = (ckpt_reader_state)l.state,
					     .health = (ckpt_health)l.mark,
					     .pinned = l.pinned,
					     .committed_ns = l.committed_ns,
					     .world = (int)l.ranks,
					     .nodes = (int)l.nodes,
					     .bytes = l.bytes,
					     .stored = l.stored};
	return true;
}

/* When all stand where they stay. */
static void point(ckpt_reader_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		list->all[i].face.job = list->all[i].job;
		list->all[i].face.name = list->all[i].name;
	}
}

static int fill(struct repo *repo, const char *job, ckpt_reader_list **out, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	int rc = repo_scan(repo, job, &refs, &n, err);
	if (rc)
		return rc;
	ckpt_reader_list *list = calloc(1, sizeof(*list) + n * sizeof(list->all[0]));
	if (!list)
		return err_set(err, -ENOMEM, "no memory for a list of %zu checkpoints", n);
	for (size_t i = 0; i < n; i++)
		if (refs[i].state == CHECKPOINT_COMMITTED && reader_describe(repo, &refs[i], &list->all[list->n]))
			list->n++;
	point(list);
	*out = list;
	return 0;
}

int ckpt_reader_list_make(const char *store, const char *job, ckpt_reader_list **out)
{
	struct err err = {0};
	struct repo repo;
	int rc = out ? 0 : err_set(&err, -EINVAL, "`out` is NULL: there is nowhere to put the list");
	if (out)
		*out = NULL;
	if (!rc)
		rc = reader_store(store, &store, &err);
	if (!rc && job)
		rc = name_check("job", job, NAME_JOB_MAX, &err);
	if (!rc)
		rc = repo_open(store, &repo, &err);
	if (rc)
		return reader_fail(rc, &err);
	rc = fill(&repo, job, out, &err);
	repo_close(&repo);
	return rc ? reader_fail(rc, &err) : 0;
}

size_t ckpt_reader_list_count(const ckpt_reader_list *list)
{
	return list ? list->n : 0;
}

const ckpt_reader_checkpoint *ckpt_reader_list_at(const ckpt_reader_list *list, size_t index)
{
	return list && index < list->n ? &list->all[index].face : NULL;
}

void ckpt_reader_list_free(ckpt_reader_list *list)
{
	free(list);
}
