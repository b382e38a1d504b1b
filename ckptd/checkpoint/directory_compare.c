/* The first checkpoint of an epoch in which several nodes take part is read before it is named, as a reader would: that the nodes know each tensor
 * alike, and that their pieces make it whole. On one node that is seen when the job has its arenas; between nodes nobody else compares it, and
 * what contradicts itself would be committed, again and again, and could never be restored. */
#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/room.h"
#include "store/check/cover.h"

#include <stdio.h>
#include <stdlib.h>

/* What a worker needs: the directory may be freed meanwhile. */
struct directory_compare {
	struct work work;
	struct directory *directory; /* NULL: it was */
	const char *store;
	char job[NAME_JOB_MAX], name[NAME_WORK_MAX];
	struct step_id id;
	struct wbuf text;
	int rc;
	struct err err;
};

static void contradicts(void *arg, const char *tensor, const char *text)
{
	struct directory_compare *c = arg;
	(void)tensor; /* the text names it */
	if (!c->rc)
		c->rc = err_set(&c->err, -EINVAL, "%.400s", text);
}

static int compare_nodes(struct directory_compare *c, struct repo *repo)
{
	struct checkpoint ck;
	int rc = checkpoint_open_unnamed(repo, c->job, c->name, c->id, &c->text, &ck, &c->err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < ck.nnodes && !rc; i++)
		rc = checkpoint_load_node(&ck, i, &c->err);
	if (!rc)
		rc = cover_check(&ck, &(struct cover_tell){contradicts, c}, &c->err);
	checkpoint_close(&ck);
	return rc ? rc : c->rc;
}

static void run(struct work *work)
{
	struct directory_compare *c = list_entry(work, struct directory_compare, work);
	struct repo repo;
	int rc = repo_open(c->store, &repo, &c->err);
	if (!rc) {
		rc = compare_nodes(c, &repo);
		repo_close(&repo);
	}
	c->rc = rc;
}

static void compare_free(struct directory_compare *c)
{
	wbuf_free(&c->text);
	free(c);
}

static void done(struct work *work)
{
	struct directory_compare *c = list_entry(work, struct directory_compare, work);
	struct directory *s = c->directory;
	int rc = c->rc;
	if (s) {
		s->comparing = NULL;
		s->progress_ns = clock_now();
		s->compared = !rc;
		if (rc && !s->rc) {
			s->rc = rc;
			s->err = c->err;
		}
	}
	compare_free(c);
	if (s)
		directory_advance(s, s->rc);
}

void directory_compare(struct directory *s)
{
	bool wanted = s->compares && s->pool && s->expected.nnodes > 1;
	struct directory_compare *c = wanted ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		directory_advance(s, wanted ? -ENOMEM : 0);
		return;
	}
	*c = (struct directory_compare){
		.work = {.run = run, .done = done}, .directory = s, .store = s->store, .id = s->id};
	snprintf(c->job, sizeof(c->job), "%s", s->job);
	snprintf(c->name, sizeof(c->name), "%s", s->work);
	wbuf_put(&c->text, s->text.data, s->text.len);
	if (wbuf_finish(&c->text)) {
		compare_free(c);
		directory_advance(s, -ENOMEM);
		return;
	}
	s->comparing = c;
	log_debug("directory %s/%s: its nodes are compared", s->job, s->name);
	pool_submit(s->pool, &c->work);
}

void directory_compare_forget(struct directory *s)
{
	if (s->comparing)
		s->comparing->directory = NULL;
	s->comparing = NULL;
}
