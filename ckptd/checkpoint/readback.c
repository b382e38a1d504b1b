#include "checkpoint/readback.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/repair_donor.h"
#include "format/files/marks.h"
#include "runtime/room.h"
#include "store/check/verify.h"
#include "store/disk/disk.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOLD_NS CLOCK_NS_PER_S

enum {
	READBACK_NICE = 10,
	READBACK_MEMORY = 24 << 20, /* it has time */
};

struct verify_item {
	struct work work;
	char job[NAME_JOB_MAX];
	struct step_id id;
	const char *store;
	struct meter *meter; /* of the node */
	uint64_t rate, read; /* limit of the job; bytes so far */
	struct bucket bucket;
	readback_fn *done;
	void *arg;
	int rc;
	struct err err;
	char finding[ERR_TEXT_MAX];
	struct donor donor;
	const _Atomic int *gait;
	struct repair *repair; /* NULL: no memory for one */
};

static void keep_first(void *arg, const char *file, const char *tensor, uint64_t from, uint64_t to, const char *text)
{
	struct verify_item *item = arg;
	if (item->repair)
		repair_note(item->repair, file);
	if (item->finding[0])
		return;
	snprintf(item->finding, sizeof(item->finding), "%s%s%s bytes %lu to %lu: %s", file, *tensor ? " tensor " : "",
		 tensor, (unsigned long)from, (unsigned long)to, text);
}

static int pay(void *arg, uint64_t done, uint64_t total)
{
	struct verify_item *item = arg;
	(void)total;
	meter_wait(item->meter, &item->bucket, done - item->read);
	item->read = done;
	if (item->gait && *item->gait == READBACK_HOLD)
		meter_hold(item->meter, item->gait, HOLD_NS);
	return item->gait && *item->gait == READBACK_STOP;
}

static int write_mark(struct verify_item *item, struct repo *repo)
{
	AUTO_WBUF struct wbuf text = {0};
	char name[NAME_DIR_MAX];
	struct health health = {.id = item->id, .verified_at = clock_wall(), .damaged = item->rc == -EBADMSG};
	snprintf(health.job, sizeof(health.job), "%s", item->job);
	snprintf(health.detail, sizeof(health.detail), "%s", item->finding);
	int rc = health_encode(&health, &text);
	if (rc)
		return rc;
	int job = disk_open_at(repo->disk, repo->root, item->job, DISK_DIR);
	if (job < 0)
		return job;
	name_dir(item->id, name);
	int dir = disk_open_at(repo->disk, job, name, DISK_DIR);
	rc = dir < 0 ? dir : disk_put_file(repo->disk, dir, NAME_HEALTH, text.data, text.len, true, &item->err);
	if (dir >= 0)
		disk_close_file(repo->disk, dir);
	disk_close_file(repo->disk, job);
	return rc;
}

static int verify(struct verify_item *item, struct repo *repo)
{
	struct verify_result result;
	struct verify_options options = {.depth = VERIFY_DATA,
					 .share = 1,
					 .finding = keep_first,
					 .progress = pay,
					 .arg = item,
					 .threads = 1,
					 .memory = READBACK_MEMORY};
	item->read = 0;
	item->finding[0] = 0;
	item->err.text[0] = 0;
	return verify_checkpoint(repo, item->job, item->id, &options, &result, &item->err);
}

/* Whatever becomes of it, what counts is what stands there afterwards. */
static void repair(struct verify_item *item, struct repo *repo)
{
	struct repair_memory memory = {.read = donor_read, .arg = &item->donor};
	struct repair_result result;
	struct err why = {0};
	char first[ERR_TEXT_MAX];
	if (!item->repair)
		return;
	snprintf(first, sizeof(first), "%s", item->finding);
	int rc = repair_run(item->repair, false, &memory, &result, &why);
	if (rc)
		log_warn("%s step %lu is damaged and cannot be repaired: %s", item->job, (unsigned long)item->id.step,
			 why.text);
	if (!result.mended)
		return;
	item->rc = verify(item, repo);
	if (!item->rc)
		err_set(&item->err, 0, "repaired %lu damaged files from intact copies: %.300s",
			(unsigned long)result.mended, first);
}

static void run_in_repo(struct verify_item *item, struct repo *repo)
{
	item->rc = failpoint("readback", NULL);
	if (!item->rc)
		item->rc = verify(item, repo);
	if (item->rc == -EBADMSG && checkpoint_gone(repo, item->job, item->id))
		item->rc = err_set(&item->err, -ENOENT, "it was removed meanwhile");
	if (item->rc == -EBADMSG)
		repair(item, repo);
	if (item->rc && item->rc != -EBADMSG)
		return; /* could not be read: that says nothing about the bytes */
	int rc = write_mark(item, repo);
	if (rc)
		log_warn("cannot write the health mark of %s step %lu: %s", item->job, (unsigned long)item->id.step,
			 err_name(rc));
	if (item->rc && item->finding[0])
		err_set(&item->err, item->rc, "%s", item->finding);
}

static void readback_run(struct work *work)
{
	struct verify_item *item = list_entry(work, struct verify_item, work);
	struct repo repo;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), READBACK_NICE); /* a hint: training goes first */
	item->rc = repo_open(item->store, &repo, &item->err);
	if (item->rc)
		return;
	if (repair_new(&repo, item->job, item->id, &item->repair))
		item->repair = NULL;
	run_in_repo(item, &repo);
	repair_free(item->repair);
	repo_close(&repo);
}

static void readback_done(struct work *work)
{
	struct verify_item *item = list_entry(work, struct verify_item, work);
	item->done(item->arg, item->id, item->rc, &item->err);
	donor_drop(&item->donor);
	free(item);
}

int readback_start(const struct readback *what, struct verify_item **out)
{
	struct verify_item *item = calloc(1, sizeof(*item));
	struct donor donor = what->donor;
	if (!item) {
		donor_drop(&donor);
		return -ENOMEM;
	}
	item->donor = donor;
	item->work = (struct work){.run = readback_run, .done = readback_done};
	snprintf(item->job, sizeof(item->job), "%s", what->job);
	item->id = what->id;
	item->store = what->store;
	item->meter = what->meter;
	item->rate = what->rate;
	item->bucket.rate = &item->rate;
	item->gait = what->gait;
	item->done = what->done;
	item->arg = what->arg;
	*out = item;
	pool_submit(what->pool, &item->work);
	return 0;
}

struct step_id readback_id(const struct verify_item *item)
{
	return item->id;
}
