#include "checkpoint/store_space.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "checkpoint/store_lock.h"
#include "runtime/room.h"
#include "store/read/repo.h"
#include "store/read/repo_place.h"

struct space {
	struct work work;
	struct pool *pool;
	struct repo_place *place;
	struct store_lock *lock;
	struct space_view view;
	bool busy;
	uint64_t next_ns;
	/* the worker's */
	struct repo_place look;
	struct store_lock held;
	int locked; /* store_lock_look() */
	int rc;
	uint64_t free_bytes, total_bytes;
};

static void run(struct work *work)
{
	struct space *space = list_entry(work, struct space, work);
	struct repo repo;
	bool is_there = !repo_place_check(&space->look, NULL);
	space->rc = repo_open(space->look.path, &repo, NULL);
	if (space->rc)
		return;
	space->rc = disk_space(repo.disk, repo.root, &space->free_bytes, &space->total_bytes);
	if (is_there)
		space->locked = store_lock_look(&space->held, repo.disk, repo.root);
	repo_close(&repo);
}

static void done(struct work *work)
{
	struct space *space = list_entry(work, struct space, work);
	space->busy = false;
	repo_place_found(space->place, &space->look);
	store_lock_found(space->lock, space->locked, space->look.path);
	if (space->rc)
		return; /* what was known stays, with its age */
	space->view = (struct space_view){.known = true,
					  .free_bytes = space->free_bytes,
					  .total_bytes = space->total_bytes,
					  .asked_ns = clock_now()};
}

int space_new(struct repo_place *place, struct store_lock *lock, struct pool *pool, struct space **out)
{
	*out = NULL;
	if (!place->path)
		return 0;
	struct space *space = calloc(1, sizeof(*space));
	if (!space)
		return -ENOMEM;
	space->work = (struct work){.run = run, .done = done};
	space->pool = pool;
	space->place = place;
	space->lock = lock;
	*out = space;
	return 0;
}

void space_tick(struct space *space, uint64_t now)
{
	if (!space || space->busy || now < space->next_ns)
		return;
	space->busy = true;
	space->look = *space->place;
	space->held = *space->lock;
	space->rc = -ECANCELED; /* unless it is run */
	space->locked = STORE_LOCK_NONE;
	space->next_ns = now + SPACE_EVERY_MS * CLOCK_NS_PER_MS;
	pool_submit(space->pool, &space->work);
}

struct space_view space_get(const struct space *space)
{
	return space ? space->view : (struct space_view){0};
}

bool space_busy(const struct space *space)
{
	return space && space->busy;
}

void space_free(struct space *space)
{
	free(space);
}
