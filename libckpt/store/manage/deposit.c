#include "store/manage/deposit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/files/manifest_make.h"
#include "format/files/safetensors.h"
#include "format/files/sidecar.h"
#include "store/disk/denied.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct writer {
	struct deposit *d;
	struct disk *disk;
	int job_dir, dir;
	char name[NAME_DIR_MAX];
	uint64_t *leaves;        /* of the layout */
	struct made_file *files; /* of the layout */
	struct wbuf *sidecars;   /* likewise */
	uint8_t *buffer;         /* DISK_CHUNK bytes */
	uint64_t total;
};

/* The file that is being written. */
struct target {
	char name[NAME_FILE_MAX];
	int file;
	uint64_t at;
};

/* ---- single steps */

static int step(struct writer *w, struct disk_op op, const char *what, struct err *err)
{
	int rc = disk_do(w->disk, &op);
	return rc < 0 ? err_set(err, rc, "cannot %s %s: %s", what, op.name ? op.name : w->name, err_name(rc)) : 0;
}

static int sync_dir(struct writer *w, int dir, struct err *err)
{
	return step(w, (struct disk_op){.kind = DISK_FSYNC, .file = dir}, "sync a directory of", err);
}

static int append(struct writer *w, struct target *t, const void *data, uint64_t len, struct err *err)
{
	struct disk_op op = {.kind = DISK_WRITE, .file = t->file, .buf = (void *)data, .offset = t->at, .len = len};
	int rc = len ? disk_do(w->disk, &op) : 0;
	if (rc < 0)
		return err_set(err, rc, "writing %s at byte %" PRIu64 ": %s", t->name, t->at, err_name(rc));
	t->at += len;
	w->d->bytes += len;
	if (w->d->progress && w->d->progress(w->d->arg, w->d->bytes, w->total))
		return err_set(err, -ECANCELED, "cancelled after %" PRIu64 " of %" PRIu64 " bytes", w->d->bytes,
			       w->total);
	return 0;
}

static int create(struct writer *w, struct target *t, struct err *err)
{
	t->at = 0;
	t->file = disk_open_at(w->disk, w->dir, t->name, DISK_CREATE);
	return t->file < 0 ? err_set(err, t->file, "cannot create %s: %s", t->name, err_name(t->file)) : 0;
}

/* fsync and close; an error of what came before stays. */
static int finish(struct writer *w, struct target *t, int rc, struct err *err)
{
	if (!rc)
		rc = step(w, (struct disk_op){.kind = DISK_FSYNC, .file = t->file, .name = t->name}, "sync", err);
	int closed = disk_close_file(w->disk, t->file);
	return rc ? rc : closed < 0 ? err_set(err, closed, "closing %s: %s", t->name, err_name(closed)) : 0;
}

/* A small file, whole. Its bytes are not counted. */
static int put_text(struct writer *w, const char *name, const struct wbuf *text, struct err *err)
{
	struct target t;
	snprintf(t.name, sizeof(t.name), "%s", name);
	int rc = create(w, &t, err);
	if (rc < 0)
		return rc;
	struct disk_op op = {.kind = DISK_WRITE, .file = t.file, .name = t.name, .buf = text->data, .len = text->len};
	return finish(w, &t, step(w, op, "write", err), err);
}

/* ---- data files */

/* Reads the pieces one after another into the buffer, digests their leaves there, and writes it when it is full. Pieces are cut at
 * leaves only. */
static int write_pieces(struct writer *w, struct target *t, const struct layout_file *lf, struct err *err)
{
	uint64_t used = 0;
	int rc = 0;
	for (uint32_t i = lf->first_piece; i < lf->first_piece + lf->npieces && !rc; i++) {
		const struct layout_piece *p = &w->d->layout->pieces[i];
		for (uint64_t from = 0, n; from < p->bytes && !rc; from += n) {
			n = min_u64(p->bytes - from, DISK_CHUNK - used);
			if (n < p->bytes - from)
				n = n / LEAF_SIZE * LEAF_SIZE;
			if (!n) {
				rc = append(w, t, w->buffer, used, err);
				used = 0;
				continue;
			}
			rc = w->d->read(w->d->arg, i, from, w->buffer + used, n, err);
			if (!rc)
				digest_leaves(w->buffer + used, n, w->leaves + p->first_leaf + from / LEAF_SIZE);
			used += n;
		}
	}
	return rc ? rc : append(w, t, w->buffer, used, err);
}

static int write_file(struct writer *w, uint32_t file, struct err *err)
{
	const struct layout_file *lf = &w->d->layout->files[file];
	AUTO_WBUF struct wbuf header = {0};
	struct target t;
	name_data(w->d->reg->rank, w->d->reg->world, lf->group, lf->part, t.name);
	int rc = safetensors_header(w->d->reg, w->d->layout, file, &header);
	if (rc < 0)
		return err_set(err, rc, "cannot make the header of %s: %s", t.name, err_name(rc));
	rc = create(w, &t, err);
	if (rc < 0)
		return rc;
	rc = append(w, &t, header.data, header.len, err);
	if (!rc)
		rc = write_pieces(w, &t, lf, err);
	rc = finish(w, &t, rc, err);
	if (rc < 0)
		return rc;
	w->files[file] = (struct made_file){.reg = w->d->reg,
					    .layout = w->d->layout,
					    .file = file,
					    .data_at = header.len,
					    .sidecar = &w->sidecars[file]};
	rc = sidecar_encode(w->d->layout, file, header.len, digest_bytes(header.data, header.len), w->leaves,
			    &w->sidecars[file]);
	if (rc < 0)
		return err_set(err, rc, "cannot make the sidecar of %s: %s", t.name, err_name(rc));
	name_sidecar(w->d->reg->rank, w->d->reg->world, lf->group, lf->part, t.name);
	return put_text(w, t.name, &w->sidecars[file], err);
}

static int write_documents(struct writer *w, struct err *err)
{
	AUTO_WBUF struct wbuf node = {0}, root = {0};
	struct made_node made = {.job = w->d->job,
				 .node = w->d->node,
				 .id = w->d->id,
				 .world = w->d->reg->world,
				 .nfiles = w->d->layout->nfiles,
				 .files = w->files};
	char name[NAME_FILE_MAX];
	name_node(w->d->node, name);
	int rc = manifest_make(&made, &node, &root, err);
	if (!rc)
		rc = put_text(w, name, &node, err);
	if (!rc)
		rc = sync_dir(w, w->dir, err);
	if (!rc)
		rc = sync_dir(w, w->job_dir, err);
	if (!rc)
		rc = sync_dir(w, w->d->repo->root, err);
	return rc ? rc : disk_put_file(w->disk, w->dir, NAME_MANIFEST, root.data, root.len, false, err);
}

/* ---- directories */

static int any(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 1;
}

/* An empty directory is as good as a new one: what a server says of the one that it has just made, when its answer was lost, is that it
 * exists. Nobody else writes here (REPO_LOCK). */
static int make_dir(struct writer *w, int parent, const char *name, bool fresh, int *dir, struct err *err)
{
	struct disk_op op = {.kind = DISK_MKDIR, .dir = parent, .name = name};
	int rc = disk_do(w->disk, &op);
	if (rc < 0 && rc != -EEXIST) {
		err_set(err, rc, "cannot make %s: %s", name, err_name(rc));
		return denied_dir(w->disk, parent, rc, err);
	}
	*dir = disk_open_at(w->disk, parent, name, DISK_DIR);
	if (*dir < 0)
		return err_set(err, *dir, "cannot open %s: %s", name, err_name(*dir));
	if (!rc || !fresh || !disk_list(w->disk, *dir, any, NULL))
		return 0;
	disk_close_file(w->disk, *dir);
	return err_set(err, rc, "%s/%s is there already: choose another step or epoch", w->d->job, name);
}

static int unlink_one(void *arg, const char *name)
{
	struct writer *w = arg;
	struct disk_op op = {.kind = DISK_UNLINK, .dir = w->dir, .name = name};
	disk_do(w->disk, &op);
	return 0;
}

/* First out of the way, and that is synced: at no instant is there a manifest without its files. */
static void give_up(struct writer *w)
{
	char aside[NAME_DIR_MAX + 48];
	snprintf(aside, sizeof(aside), "%s%s.%lx", REPO_ABANDONED, w->name, (unsigned long)clock_wall());
	if (disk_rename_at(w->disk, w->job_dir, w->name, aside) < 0 || disk_fsync(w->disk, w->job_dir) < 0)
		return;
	disk_list(w->disk, w->dir, unlink_one, w);
	struct disk_op remove = {.kind = DISK_RMDIR, .dir = w->job_dir, .name = aside};
	disk_do(w->disk, &remove);
}

static int check_space(struct writer *w, struct err *err)
{
	uint64_t free_bytes = 0, total = 0;
	char need[16], have[16];
	int rc = disk_space(w->disk, w->d->repo->root, &free_bytes, &total);
	if (rc < 0 || w->total <= free_bytes)
		return 0; /* not known: the writes will tell */
	return err_set(err, -ENOSPC, "%s are to be written, but only %s are free",
		       bytes_human(need, sizeof(need), w->total), bytes_human(have, sizeof(have), free_bytes));
}

static int write_all(struct writer *w, struct err *err)
{
	int rc = make_dir(w, w->job_dir, w->name, true, &w->dir, err);
	if (rc < 0)
		return rc;
	for (uint32_t f = 0; f < w->d->layout->nfiles && !rc; f++)
		rc = write_file(w, f, err);
	if (!rc)
		rc = write_documents(w, err);
	if (rc < 0)
		give_up(w);
	disk_close_file(w->disk, w->dir);
	return rc;
}

int deposit_write(struct deposit *d, struct err *err)
{
	const struct layout *l = d->layout;
	AUTO_FREE uint64_t *leaves = calloc(l->nleaves + 1, sizeof(*leaves));
	AUTO_FREE struct made_file *files = calloc(l->nfiles + 1ull, sizeof(*files));
	AUTO_FREE struct wbuf *sidecars = calloc(l->nfiles + 1ull, sizeof(*sidecars));
	AUTO_FREE uint8_t *buffer = malloc(DISK_CHUNK);
	struct writer w = {.d = d,
			   .disk = d->repo->disk,
			   .leaves = leaves,
			   .files = files,
			   .sidecars = sidecars,
			   .buffer = buffer};
	d->bytes = 0;
	d->files = l->nfiles;
	w.total = l->data_bytes;
	name_dir(d->id, w.name);
	if (!leaves || !files || !sidecars || !buffer)
		return err_set(err, -ENOMEM, "no memory to write %u files", l->nfiles);
	int rc = check_space(&w, err);
	if (!rc)
		rc = make_dir(&w, d->repo->root, d->job, false, &w.job_dir, err);
	if (rc < 0)
		return rc;
	rc = write_all(&w, err);
	disk_close_file(w.disk, w.job_dir);
	for (uint32_t f = 0; f < l->nfiles; f++)
		wbuf_free(&sidecars[f]);
	return rc;
}
