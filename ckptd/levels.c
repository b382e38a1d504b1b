#include "levels.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon.h"
#include "memory.h"
#include "store/repo.h"

/* An epoch of a job belongs to one life of its ranks, and a name is used once: what bears this one is this save. */
static bool closed_below_durable(const struct arena_status *s, struct step_id *id)
{
	*id = (struct step_id){.step = atomic_load(&s->step), .epoch = atomic_load(&s->epoch)};
	return id->epoch && id->epoch <= EPOCH_MAX && id->step <= STEP_MAX &&
	       atomic_load(&s->late_phase) == LATE_GONE && atomic_load(&s->level) < LEVEL_DURABLE &&
	       !atomic_load(&s->error);
}

/* The bytes were fsynced before the name was made; whether the name was, the dead have not said. */
static bool stands(struct repo *repo, int job, struct step_id id)
{
	char name[NAME_DIR_MAX];
	struct disk_stat st;
	name_dir(id, name);
	int dir = disk_open_at(repo->disk, job, name, DISK_DIR);
	if (dir < 0)
		return false;
	bool found = !disk_stat_at(repo->disk, dir, NAME_MANIFEST, &st) && !disk_fsync(repo->disk, dir);
	disk_close_file(repo->disk, dir);
	return found;
}

static void confirm_all(struct repo *repo, int job_dir, const char *job, struct memory *mem)
{
	for (uint32_t i = 0; i < ARENA_STATUS; i++) {
		struct step_id id;
		if (!closed_below_durable(&mem->head->status[i], &id) || !stands(repo, job_dir, id))
			continue;
		memory_publish(mem, &(struct level){.id = id, .level = LEVEL_DURABLE, .late_phase = LATE_GONE});
		log_info("job %s: step %lu epoch %u durable (committed before a restart), for rank %u", job,
			 (unsigned long)id.step, id.epoch, mem->table->reg.rank);
	}
}

void levels_confirm(struct daemon *daemon, const char *job, struct memory *mem)
{
	struct err err = {{0}};
	struct repo repo;
	if (!daemon->config.store)
		return;
	if (repo_open(daemon->config.store, &repo, &err)) {
		log_warn("job %s: what of rank %u stands in the store is not known: %s", job, mem->table->reg.rank,
			 err.text);
		return;
	}
	int dir = disk_open_at(repo.disk, repo.root, job, DISK_DIR);
	if (dir >= 0) {
		confirm_all(&repo, dir, job, mem);
		disk_close_file(repo.disk, dir);
	}
	repo_close(&repo);
}
