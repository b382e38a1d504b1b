#include "store/check/repair_private.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file of the same bytes: equal digests of sidecars vouch for header, places and leaves. */
static const struct manifest_file *same_file(const struct checkpoint *ck, const struct manifest_file *file)
{
	for (uint32_t n = 0; n < ck->nnodes; n++)
		for (uint32_t f = 0; f < ck->nodes[n].nfiles; f++) {
			const struct manifest_file *other = &ck->nodes[n].files[f];
			if (other->size == file->size && other->sidecar_size == file->sidecar_size &&
			    digest_equal(other->sidecar, file->sidecar))
				return other;
		}
	return NULL;
}

static void add_donor(struct repair *r, struct donors *donors, struct checkpoint *ck, const struct manifest_file *same)
{
	struct donor *d = &donors->donor[donors->n];
	snprintf(d->data, sizeof(d->data), "%s", same->name);
	snprintf(d->sidecar, sizeof(d->sidecar), "%s", same->sidecar_name);
	d->dir = ck->dir;
	d->packed = same->packed;
	if (window_open(&d->window, r->repo->disk, d->dir, d->data, same))
		d->window = (struct window){.file = -1}; /* its sidecar may be of use */
	ck->dir = -1;                                    /* taken over */
	donors->n++;
}

static void consider(struct repair *r, const struct manifest_file *file, const struct disk_stat *damaged,
		     struct checkpoint *ck, struct donors *donors)
{
	struct disk_stat st;
	const struct manifest_file *same = same_file(ck, file);
	if (!same)
		return;
	int rc = disk_stat_at(r->repo->disk, ck->dir, same->name, &st);
	bool shared = !rc && damaged->links && st.ino == damaged->ino && st.dev == damaged->dev;
	if (shared && !strcmp(same->name, file->name) && donors->nsiblings < REPAIR_SIBLINGS_MAX)
		donors->siblings[donors->nsiblings++] = ck->ref.id;
	else if (!shared && donors->n < REPAIR_DONORS_MAX)
		add_donor(r, donors, ck, same);
}

int donors_find(struct repair *r, const struct manifest_file *file, struct donors *donors, struct err *err)
{
	AUTO_FREE struct checkpoint_ref *refs = NULL;
	size_t n = 0;
	struct disk_stat damaged = {0};
	donors->n = donors->nsiblings = 0;
	int rc = repo_scan(r->repo, r->job, &refs, &n, err);
	if (rc < 0)
		return rc;
	if (disk_stat_at(r->repo->disk, r->ck.dir, file->name, &damaged))
		damaged.links = 0; /* it is missing: nobody shares it */
	for (size_t i = n; i-- > 0;) {
		struct checkpoint ck;
		struct err ignored = {{0}};
		if (refs[i].state != CHECKPOINT_COMMITTED || !step_compare(refs[i].id, r->id) ||
		    checkpoint_open(r->repo, r->job, refs[i].id, &ck, &ignored))
			continue;
		consider(r, file, &damaged, &ck, donors);
		checkpoint_close(&ck);
	}
	return 0;
}

void donors_close(struct repair *r, struct donors *donors)
{
	for (uint32_t i = 0; i < donors->n; i++) {
		window_close(&donors->donor[i].window);
		disk_close_file(r->repo->disk, donors->donor[i].dir);
	}
	donors->n = 0;
}
