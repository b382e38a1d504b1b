/* Whether the store is still where its path leads. What goes on being written through a handle after the store was moved away, or half
 * removed, would be called durable, and no reader would find it. A worker looks: a store that does not answer keeps nobody else. */
#include "checkpoint/directory_private.h"

#include "base/clock.h"
#include "runtime/room.h"
#include "store/read/repo_place.h"

#include <stdlib.h>

/* The directory may be freed meanwhile. */
struct directory_look_at_place {
	struct work work;
	struct directory *directory; /* NULL: it was */
	struct repo_place *place, look;
	void (*then)(struct directory *s);
	bool ran;
	int rc;
	struct err err;
};

static void run(struct work *work)
{
	struct directory_look_at_place *l = list_entry(work, struct directory_look_at_place, work);
	l->ran = true;
	l->rc = repo_place_check(&l->look, &l->err);
}

/* It may have been dropped meanwhile, and another daemon may have taken over the job. */
static void go_on(struct directory *s, void (*then)(struct directory *s))
{
	s->progress_ns = clock_now();
	if (!s->rc && s->stands && !s->stands(s))
		directory_abandon(s);
	if (s->rc)
		directory_advance(s, 0);
	else
		then(s);
}

static void done(struct work *work)
{
	struct directory_look_at_place *l = list_entry(work, struct directory_look_at_place, work);
	struct directory *s = l->directory;
	void (*then)(struct directory * s) = l->then;
	if (l->ran)
		repo_place_found(l->place, &l->look);
	if (s && l->rc && !s->rc) {
		s->rc = l->rc;
		s->err = l->err;
	}
	free(l);
	if (!s)
		return;
	s->placing = NULL;
	go_on(s, then);
}

void directory_if_in_place(struct directory *s, void (*then)(struct directory *s))
{
	if (!s->place || !s->place->path || !s->pool) {
		then(s);
		return;
	}
	struct directory_look_at_place *l = calloc(1, sizeof(*l));
	if (!l) {
		directory_advance(s, -ENOMEM);
		return;
	}
	*l = (struct directory_look_at_place){.work = {.run = run, .done = done},
					      .directory = s,
					      .place = s->place,
					      .look = *s->place,
					      .then = then,
					      .rc = -ECANCELED};
	s->placing = l;
	pool_submit(s->pool, &l->work);
}

void directory_place_forget(struct directory *s)
{
	if (s->placing)
		s->placing->directory = NULL;
	s->placing = NULL;
}
