#include "reader/reader.h"

#include "base/cleanup.h"

#include <stdlib.h>

static struct lane *take_idle(ckpt_reader *r)
{
	LOCK_SCOPE(&r->lock);
	struct lane *lane = r->idle;
	if (lane) {
		r->idle = lane->next;
		r->nidle--;
	}
	return lane;
}

static void lane_free(struct lane *lane)
{
	checkpoint_unshare(&lane->ck);
	repo_close(&lane->repo);
	free(lane);
}

int lane_take(ckpt_reader *r, struct lane **out, struct err *err)
{
	*out = take_idle(r);
	if (*out)
		return 0;
	struct lane *lane = calloc(1, sizeof(*lane));
	if (!lane)
		return err_set(err, -ENOMEM, "no memory for a way to the files");
	int rc = repo_open(r->repo.path, &lane->repo, err);
	if (!rc) {
		rc = checkpoint_share(&r->ck, &lane->repo, &lane->ck, err);
		if (rc)
			repo_close(&lane->repo);
	}
	if (rc)
		free(lane);
	else
		*out = lane;
	return rc;
}

void lane_put(ckpt_reader *r, struct lane *lane)
{
	pthread_mutex_lock(&r->lock);
	bool keep = r->nidle < LANES_IDLE;
	if (keep) {
		lane->next = r->idle;
		r->idle = lane;
		r->nidle++;
	}
	pthread_mutex_unlock(&r->lock);
	if (!keep)
		lane_free(lane);
}

void lanes_free(ckpt_reader *r)
{
	for (struct lane *lane; (lane = take_idle(r));)
		lane_free(lane);
}
