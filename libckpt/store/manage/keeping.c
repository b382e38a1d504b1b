#include "store/manage/keeping.h"

#include "base/cleanup.h"
#include "store/manage/tags.h"
#include "store/read/epoch_file.h"

#include <stdlib.h>
#include <string.h>

static int open_checkpoint(struct repo *repo, const char *job, struct step_id id)
{
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	int job_dir = disk_open_at(repo->disk, repo->root, job, DISK_DIR);
	if (job_dir < 0)
		return job_dir;
	int dir = disk_open_at(repo->disk, job_dir, name, DISK_DIR);
	disk_close_file(repo->disk, job_dir);
	return dir;
}

static void read_health(const struct checkpoint *ck, struct retention_item *item)
{
	struct health health;
	if (checkpoint_health(ck, &health, NULL) < 0)
		return;
	item->damaged = health.damaged;
	/* A mark that came along with a copy says nothing about the copy. */
	item->verified = !health.damaged && health.verified_at >= item->committed_ns;
}

static void read_health_mark(const struct checkpoint *ck, struct retention_item *item)
{
	struct health_mark mark;
	item->healthy = !checkpoint_health_mark(ck, &mark, NULL) && !mark.unhealthy;
}

/* -ENOENT: it has been removed since it was listed. */
static int read_item(struct repo *repo, const struct checkpoint_ref *ref, struct retention_item *item)
{
	struct checkpoint ck;
	struct disk_stat st;
	*item = (struct retention_item){.id = ref->id, .committed_ns = ref->committed_ns};
	int dir = open_checkpoint(repo, ref->job, ref->id);
	if (dir < 0)
		return dir;
	item->pinned = disk_stat_at(repo->disk, dir, NAME_PINNED, &st) != -ENOENT;
	disk_close_file(repo->disk, dir);
	int rc = checkpoint_open_root(repo, ref->job, ref->id, &ck, NULL);
	if (rc == -ENOENT)
		return rc;
	if (rc < 0) {
		item->damaged = item->unreadable = true;
		item->in_use = rc != -EBADMSG; /* nobody knows what it is: it stays, and takes nobody's place */
		return 0;
	}
	item->began = ck.manifest.began;
	read_health(&ck, item);
	read_health_mark(&ck, item);
	checkpoint_close(&ck);
	return 0;
}

static int read_tags(struct repo *repo, const char *job, struct keeping *k, struct err *err)
{
	AUTO_FREE struct tag_found *tags = NULL;
	size_t n;
	int rc = tags_list(repo, job, &tags, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		k->blind += tags[i].rc < 0;
	for (size_t i = 0; !rc && i < k->n; i++)
		k->items[i].tagged = k->blind || tags_next(tags, n, 0, k->items[i].id) < n;
	return rc;
}

static int read_rollbacks(struct repo *repo, const char *job, struct keeping *k, struct err *err)
{
	struct begun begun;
	int rc = epoch_file_read(repo, job, &begun, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < k->n; i++)
		k->items[i].given_up = rollbacks_give_up(&begun.back, k->items[i].id);
	begun_free(&begun);
	return 0;
}

int keeping_load(struct repo *repo, const char *job, struct keeping *k, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n;
	*k = (struct keeping){0};
	int rc = repo_scan(repo, job, &refs, &n, err);
	if (rc < 0)
		return rc;
	k->items = calloc(n ? n : 1, sizeof(*k->items));
	if (!k->items)
		return err_set(err, -ENOMEM, "no memory for %zu checkpoints", n);
	for (size_t i = 0; !rc && i < n; i++) {
		if (refs[i].state != CHECKPOINT_COMMITTED)
			continue;
		rc = read_item(repo, &refs[i], &k->items[k->n]);
		if (rc < 0 && rc != -ENOENT)
			err_set(err, rc, "cannot look into a checkpoint of %s/%s: %s", repo->path, job, err_name(rc));
		k->n += !rc;
		rc = rc == -ENOENT ? 0 : rc;
	}
	if (!rc)
		rc = read_tags(repo, job, k, err);
	if (!rc)
		rc = read_rollbacks(repo, job, k, err);
	if (rc < 0)
		keeping_free(k);
	return rc;
}

void keeping_free(struct keeping *k)
{
	free(k->items);
	*k = (struct keeping){0};
}

/* Of a handle that was just opened, or the error of that. */
static int sync_and_close(struct disk *disk, int handle)
{
	if (handle < 0)
		return handle;
	int rc = disk_fsync(disk, handle);
	disk_close_file(disk, handle);
	return rc;
}

/* The newest that stays for one of these reasons. NULL: none does. */
static const struct retention_item *newest_kept(const struct keeping *k, unsigned reasons)
{
	for (size_t i = k->n; i-- > 0;)
		if (k->items[i].keep & reasons)
			return &k->items[i];
	return NULL;
}

int keeping_settle(struct repo *repo, const char *job, const struct keeping *k, struct err *err)
{
	const struct retention_item *newest = newest_kept(k, ~0u), *healthy = newest_kept(k, RETENTION_HEALTHY);
	if (!newest)
		return 0;
	int rc = sync_and_close(repo->disk, open_checkpoint(repo, job, newest->id));
	if (!rc && healthy && healthy != newest)
		rc = sync_and_close(repo->disk, open_checkpoint(repo, job, healthy->id));
	if (!rc)
		rc = sync_and_close(repo->disk, disk_open_at(repo->disk, repo->root, job, DISK_DIR));
	return rc < 0 ? err_set(err, rc, "cannot make the newest checkpoint of %s/%s durable: %s", repo->path, job,
				err_name(rc))
		      : 0;
}
