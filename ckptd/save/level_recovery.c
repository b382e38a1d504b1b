#include "save/level_recovery.h"

#include "arena/room.h"
#include "base/log.h"
#include "store/read/repo.h"

struct lookup {
	struct repo repo;
	int job_dir;
	const char *job;
	uint32_t rank;
};

/* What it holds was fsynced before it was named; whether the name was, which stands in the job's directory, the dead have not said. */
static bool is_there(struct repo *repo, int job, struct step_id id)
{
	char name[NAME_DIR_MAX];
	struct disk_stat st;
	name_dir(id, name);
	int dir = disk_open_at(repo->disk, job, name, DISK_DIR);
	if (dir < 0)
		return false;
	bool found = !disk_stat_at(repo->disk, dir, NAME_MANIFEST, &st) && !disk_fsync(repo->disk, job);
	disk_close_file(repo->disk, dir);
	return found;
}

/* An epoch of a job belongs to one life of its ranks, and a name is used once: what bears this one is this save. */
static bool stands(void *arg, struct step_id id)
{
	struct lookup *l = arg;
	if (!id.epoch || id.epoch > EPOCH_MAX || id.step > STEP_MAX || !is_there(&l->repo, l->job_dir, id))
		return false;
	log_info("job %s: step %lu epoch %u durable (committed before a restart), for rank %u", l->job,
		 (unsigned long)id.step, id.epoch, l->rank);
	return true;
}

/* False: nothing of the job is known to stand there. */
static bool open_job(const char *store, struct lookup *l)
{
	struct err err = {{0}};
	if (!store)
		return false;
	if (repo_open(store, &l->repo, &err)) {
		log_warn("job %s: what of rank %u stands in the store is not known: %s", l->job, l->rank, err.text);
		return false;
	}
	l->job_dir = disk_open_at(l->repo.disk, l->repo.root, l->job, DISK_DIR);
	if (l->job_dir < 0)
		repo_close(&l->repo);
	return l->job_dir >= 0;
}

void levels_close(const char *store, const char *job, struct memory *mem)
{
	struct lookup l = {.job = job, .rank = mem->table->reg.rank};
	bool open = open_job(store, &l);
	memory_close_levels(mem, open ? stands : NULL, &l);
	if (!open)
		return;
	disk_close_file(l.repo.disk, l.job_dir);
	repo_close(&l.repo);
}
