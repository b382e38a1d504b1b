#include "store/read/listing.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what holds */

static int take_stamp(struct disk *disk, int job_dir, const char *name, struct listing_stamp *stamp)
{
	struct disk_stat st = {0};
	*stamp = (struct listing_stamp){.noted_ns = clock_wall()};
	int rc = disk_stat_at(disk, job_dir, name, &st);
	stamp->dir = st.ino;
	stamp->dir_ns = st.changed_ns;
	return rc;
}

bool listing_holds(const struct listing *l, struct disk *disk, int job_dir, const char *name)
{
	struct listing_stamp now;
	if (l->stamp.noted_ns < LISTING_YOUNG_NS || l->stamp.noted_ns - LISTING_YOUNG_NS < l->stamp.dir_ns)
		return false;
	return !take_stamp(disk, job_dir, name, &now) && now.dir == l->stamp.dir && now.dir_ns == l->stamp.dir_ns;
}

/* Before anything else is read, so that what changes meanwhile has another. */
static void stamp_ref(struct repo *repo, const struct checkpoint_ref *ref, struct listing *l)
{
	char name[NAME_DIR_MAX];
	name_dir(ref->id, name);
	int job_dir = disk_open_at(repo->disk, repo->root, ref->job, DISK_DIR);
	if (job_dir < 0 || take_stamp(repo->disk, job_dir, name, &l->stamp))
		l->stamp = (struct listing_stamp){0};
	if (job_dir >= 0)
		disk_close_file(repo->disk, job_dir);
}

/* ---- reading */

static void read_health_mark(const struct checkpoint *ck, struct listing *l, struct err *why)
{
	struct health_mark mark;
	struct err trouble = {0};
	int rc = checkpoint_health_mark(ck, &mark, &trouble);
	if (!rc)
		l->mark = mark.unhealthy ? LISTING_UNHEALTHY : LISTING_HEALTHY;
	else if (rc != -ENOENT && !why->text[0])
		*why = trouble;
}

static void read_marks(const struct checkpoint *ck, struct listing *l, struct err *why)
{
	struct health health;
	struct pin pin;
	struct err trouble = {0};
	char name[NAME_DIR_MAX];
	int rc = checkpoint_health(ck, &health, &trouble);
	if (!rc && health.damaged) {
		l->state = LISTING_DAMAGED;
		err_set(why, 0, "%s", health.detail);
	} else if (!rc) {
		l->state = LISTING_VERIFIED;
	} else if (rc != -ENOENT) {
		*why = trouble;
	}
	l->verified_ns = rc ? 0 : health.verified_at;
	/* A damaged pin still pins: to keep too much is the safe side. */
	l->pinned = checkpoint_pin(ck, &pin, NULL) != -ENOENT;
	read_health_mark(ck, l, why);
	name_dir(ck->ref.id, name);
	if (why->text[0])
		err_prefix(why, 0, "%s/%s", ck->ref.job, name);
}

bool listing_read(struct repo *repo, const struct checkpoint_ref *ref, struct listing *l, struct err *why)
{
	struct checkpoint ck;
	*l = (struct listing){.id = ref->id, .state = LISTING_COMMITTED, .committed_ns = ref->committed_ns};
	snprintf(l->job, sizeof(l->job), "%s", ref->job);
	stamp_ref(repo, ref, l);
	int rc = checkpoint_open_root(repo, ref->job, ref->id, &ck, why);
	if (rc < 0) { /* no memory, no permission and the like say nothing about the checkpoint */
		l->state = rc == -EBADMSG ? LISTING_DAMAGED : LISTING_UNREADABLE;
		return rc != -ENOENT;
	}
	l->known = true;
	l->bytes = ck.manifest.bytes;
	l->stored = ck.manifest.stored;
	l->files = ck.manifest.files;
	l->ranks = ck.manifest.world;
	l->nodes = ck.manifest.nnodes;
	l->began = ck.manifest.began;
	read_marks(&ck, l, why);
	checkpoint_close(&ck);
	return true;
}

/* ---- several */

static int compare(const void *key, const void *entry)
{
	return step_compare(*(const struct step_id *)key, ((const struct listing *)entry)->id);
}

const struct listing *listings_find(struct listings listings, struct step_id id)
{
	return listings.n ? bsearch(&id, listings.list, listings.n, sizeof(*listings.list), compare) : NULL;
}

struct listings listings_of(const struct listings *all, const char *job)
{
	size_t begin = 0, end;
	if (!all)
		return (struct listings){0};
	while (begin < all->n && strcmp(all->list[begin].job, job) < 0)
		begin++;
	for (end = begin; end < all->n && !strcmp(all->list[end].job, job);)
		end++;
	return (struct listings){all->list + begin, end - begin};
}

void listings_free(struct listings *listings)
{
	free(listings->list);
	*listings = (struct listings){0};
}
