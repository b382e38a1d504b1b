#include "store/check/repair_private.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPORARY ".tmp-repair-" /* litter.h knows what begins so */

static bool read_memory(const struct mending *m, uint64_t from, uint64_t len, void *buf)
{
	const struct repair_memory *memory = m->r->memory;
	return memory && !memory->read(memory->arg, m->file, from, len, buf);
}

int mend_put(const struct mending *m, uint64_t at, const void *data, uint64_t len)
{
	if (m->out < 0)
		return 0;
	struct disk_op op = {.kind = DISK_WRITE, .file = m->out, .buf = (void *)data, .offset = at, .len = len};
	int rc = disk_do(m->r->repo->disk, &op);
	return rc < 0 ? err_set(m->err, rc, "cannot write a new %s: %s", m->file->name, err_name(rc)) : 0;
}

const void *mend_leaf(struct mending *m, uint64_t at, uint64_t len, uint64_t digest)
{
	const void *p = window_plain(&m->damaged, at, len);
	if (p && digest_leaf(p, len) == digest)
		return p;
	m->foreign++;
	if (read_memory(m, at, len, m->leaf) && digest_leaf(m->leaf, len) == digest)
		return m->leaf;
	for (uint32_t i = 0; i < m->donors->n; i++) {
		p = window_plain(&m->donors->donor[i].window, at, len);
		if (p && digest_leaf(p, len) == digest)
			return p;
	}
	return NULL;
}

static int mend_leaves(struct mending *m)
{
	for (uint64_t i = 0; i < m->sc->npieces; i++) {
		const struct sidecar_piece *piece = &m->sc->pieces[i];
		for (uint64_t l = 0, at = 0; at < piece->bytes; l++, at += LEAF_SIZE) {
			uint64_t from = m->file->data_at + piece->at + at, len = min_u64(LEAF_SIZE, piece->bytes - at);
			const void *p = mend_leaf(m, from, len, m->sc->leaves[piece->first_leaf + l]);
			if (!p)
				return err_set(m->err, -EBADMSG, "nobody has bytes %" PRIu64 " to %" PRIu64 " of %s",
					       from, from + len, m->file->name);
			int rc = mend_put(m, from, p, len);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* The header has one digest of its own. */
static bool good_header(struct mending *m, uint8_t *head, uint64_t len)
{
	struct digest want = m->sc->header;
	if (m->damaged.data && !window_copy(&m->damaged, 0, len, head) && digest_equal(digest_bytes(head, len), want))
		return true;
	m->foreign++;
	if (read_memory(m, 0, len, head) && digest_equal(digest_bytes(head, len), want))
		return true;
	for (uint32_t i = 0; i < m->donors->n; i++)
		if (!window_copy(&m->donors->donor[i].window, 0, len, head) &&
		    digest_equal(digest_bytes(head, len), want))
			return true;
	return false;
}

static int mend_header(struct mending *m)
{
	uint64_t len = m->file->data_at;
	if (len > SIZE_MAX / 2 || len > 128 << 20)
		return err_set(m->err, -EBADMSG, "the header of %s has %" PRIu64 " bytes", m->file->name, len);
	AUTO_FREE uint8_t *head = malloc(len);
	if (!head)
		return err_set(m->err, -ENOMEM, "no memory for a header of %" PRIu64 " bytes", len);
	if (!good_header(m, head, len))
		return err_set(m->err, -EBADMSG, "nobody has the header of %s", m->file->name);
	return mend_put(m, m->file->packed.index_size, head, len);
}

static int mend_bytes(struct mending *m)
{
	int rc = mend_header(m);
	if (rc)
		return rc;
	return m->file->packed.index_size ? mend_packed(m) : mend_leaves(m);
}

/* ---- the new file takes the place of the damaged one -------------------------------------------------------------- */

static void drop(struct disk *disk, int dir, const char *name)
{
	struct disk_op op = {.kind = DISK_UNLINK, .dir = dir, .name = name};
	disk_do(disk, &op);
}

static int take_place(struct disk *disk, int dir, const char *tmp, const char *name)
{
	int rc = disk_rename_at(disk, dir, tmp, name);
	return rc < 0 ? rc : disk_fsync(disk, dir);
}

/* Links the new file to a temporary name in the sibling's directory, then over the damaged one. Where that fails the sibling stays
 * damaged, and has a donor when it is repaired. */
static void replace_sibling(struct mending *m, const char *tmp, struct step_id id)
{
	struct disk *disk = m->r->repo->disk;
	struct checkpoint ck;
	struct err ignored = {{0}};
	if (checkpoint_open_root(m->r->repo, m->r->job, id, &ck, &ignored))
		return;
	drop(disk, ck.dir, tmp);
	if (!disk_link_at(disk, m->r->ck.dir, m->file->name, ck.dir, tmp)) {
		if (take_place(disk, ck.dir, tmp, m->file->name) < 0)
			drop(disk, ck.dir, tmp);
		else
			m->r->result->siblings++;
	}
	checkpoint_close(&ck);
}

/* A trial that has nothing but the file itself. */
int mend_check(struct repair *r, const struct manifest_file *file, const struct sidecar *sc, const char *name,
	       struct err *err)
{
	struct donors none = {0};
	AUTO_FREE uint8_t *leaf = malloc(LEAF_SIZE);
	struct mending check = {.r = r, .file = file, .sc = sc, .donors = &none, .out = -1, .leaf = leaf, .err = err};
	const struct repair_memory *memory = r->memory;
	int rc = leaf ? window_open(&check.damaged, r->repo->disk, r->ck.dir, name, file) : -ENOMEM;
	if (rc)
		return err_set(err, rc, "cannot read %s: %s", name, err_name(rc));
	r->memory = NULL;
	rc = mend_bytes(&check);
	r->memory = memory;
	window_close(&check.damaged);
	return rc;
}

/* What was written is read from storage and checked before it counts. */
static int check_again(struct mending *m, const char *tmp)
{
	int rc = mend_check(m->r, m->file, m->sc, tmp, m->err);
	return rc ? err_prefix(m->err, rc, "what was written for %s does not read back", m->file->name) : 0;
}

static int write_new(struct mending *m, const char *tmp)
{
	struct disk *disk = m->r->repo->disk;
	drop(disk, m->r->ck.dir, tmp); /* an earlier attempt's */
	m->out = disk_open_at(disk, m->r->ck.dir, tmp, DISK_CREATE);
	if (m->out < 0)
		return err_set(m->err, m->out, "cannot create %s: %s", tmp, err_name(m->out));
	int rc = mend_bytes(m);
	if (!rc)
		rc = disk_fsync(disk, m->out);
	disk_close_file(disk, m->out);
	m->out = -1;
	return rc;
}

static int replace(struct mending *m)
{
	char tmp[NAME_FILE_MAX + sizeof(TEMPORARY)];
	struct disk *disk = m->r->repo->disk;
	snprintf(tmp, sizeof(tmp), TEMPORARY "%s", m->file->name);
	int rc = write_new(m, tmp);
	if (!rc)
		rc = check_again(m, tmp);
	if (!rc) {
		rc = take_place(disk, m->r->ck.dir, tmp, m->file->name);
		if (rc < 0)
			err_set(m->err, rc, "cannot put the new %s in place: %s", m->file->name, err_name(rc));
	}
	if (rc < 0) {
		drop(disk, m->r->ck.dir, tmp);
		return rc;
	}
	for (uint32_t i = 0; i < m->donors->nsiblings; i++)
		replace_sibling(m, tmp, m->donors->siblings[i]);
	return 0;
}

int mend_file(struct repair *r, const struct manifest_file *file, const struct sidecar *sc, struct donors *donors,
	      struct err *err)
{
	struct mending m = {.r = r, .file = file, .sc = sc, .donors = donors, .out = -1, .err = err};
	AUTO_FREE uint8_t *leaf = malloc(LEAF_SIZE);
	m.leaf = leaf;
	if (!leaf)
		return err_set(err, -ENOMEM, "no memory for a leaf");
	int rc = window_open(&m.damaged, r->repo->disk, r->ck.dir, file->name, file);
	if (rc == -ENOMEM)
		return err_set(err, rc, "no memory for a window");
	if (rc)
		m.damaged = (struct window){.file = -1}; /* it is missing, or no file */
	rc = r->trial ? mend_bytes(&m) : replace(&m);
	window_close(&m.damaged);
	if (!rc)
		r->result->leaves += m.foreign;
	return rc;
}
