#include "commit_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/sidecar.h"

#include <stdio.h>
#include <string.h>

static void start_files(struct commit *c);

static void file_done(struct writer *w)
{
	struct commit *c = w->arg;
	c->in_flight--;
	c->progress_ns = clock_now();
	if (w->rc)
		commit_fail(c, w->rc, w->name);
	start_files(c);
}

/* A file under a limit may take longer than a commit may stall. */
static void file_moved(struct writer *w)
{
	struct commit *c = w->arg;
	c->progress_ns = clock_now();
}

static void start_data(struct commit *c, struct commit_file *f)
{
	const struct memory *mem = f->rank->mem;
	const struct layout_file *lf = &mem->layout.files[f->file];
	const struct head_block *head = &mem->heads[f->file];
	struct writer *w = &f->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .flags = DISK_DIRECT, .done = file_done, .arg = c};
	w->throttle = c->throttle;
	w->bucket = c->bucket;
	w->moved = file_moved;
	name_data(mem->reg.rank, c->world, lf->group, lf->part, w->name);
	w->extents[0] = (struct writer_extent){head->data, 0, head->len};
	w->extents[1] = (struct writer_extent){memory_slot(mem, f->rank->slot) + lf->slot_at, head->len,
					       align_up(lf->data_size, DISK_ALIGN)};
	w->size = head->len + lf->data_size;
	writer_start(w);
}

static void start_sidecar(struct commit *c, struct commit_file *f)
{
	const struct memory *mem = f->rank->mem;
	const struct layout_file *lf = &mem->layout.files[f->file];
	struct writer *w = &f->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .done = file_done, .arg = c};
	name_sidecar(mem->reg.rank, c->world, lf->group, lf->part, w->name);
	w->extents[0] = (struct writer_extent){f->sidecar.data, 0, f->sidecar.len};
	w->size = f->sidecar.len;
	writer_start(w);
}

/* Keeps COMMIT_WRITERS files in flight; when all are done, or after an error when none is left, goes on. */
static void start_files(struct commit *c)
{
	while (!c->rc && c->started < c->nfiles && c->in_flight < COMMIT_WRITERS) {
		struct commit_file *f = &c->cfiles[c->started++];
		c->in_flight++;
		if (c->state == COMMIT_DATA)
			start_data(c, f);
		else
			start_sidecar(c, f);
	}
	if (!c->in_flight)
		commit_advance(c, c->rc);
}

void commit_stop_files(struct commit *c)
{
	for (uint32_t i = 0; c->state == COMMIT_DATA && i < c->started; i++)
		writer_cancel(&c->cfiles[i].writer, c->rc);
}

void commit_write_files(struct commit *c)
{
	c->started = 0;
	start_files(c);
}

int commit_encode_sidecars(struct commit *c)
{
	for (uint32_t i = 0; i < c->nfiles; i++) {
		struct commit_file *f = &c->cfiles[i];
		const struct memory *mem = f->rank->mem;
		const struct head_block *head = &mem->heads[f->file];
		int rc = sidecar_encode(&mem->layout, f->file, head->len, head->digest, f->rank->leaves, &f->sidecar);
		if (rc)
			return rc;
	}
	return 0;
}

static void text_done(struct writer *w)
{
	commit_advance(w->arg, w->rc);
}

void commit_write_text(struct commit *c, const char *name, const struct wbuf *text)
{
	struct writer *w = &c->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .done = text_done, .arg = c, .size = text->len};
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->extents[0] = (struct writer_extent){text->data, 0, text->len};
	writer_start(w);
}

const char *commit_made_name(struct commit *c, uint32_t i, char dst[NAME_FILE_MAX])
{
	if (i < 2 * c->nfiles) {
		const struct commit_file *f = &c->cfiles[i / 2];
		const struct layout_file *lf = &f->rank->mem->layout.files[f->file];
		(i % 2 ? name_sidecar : name_data)(f->rank->mem->reg.rank, c->world, lf->group, lf->part, dst);
		return dst;
	}
	i -= 2 * c->nfiles;
	if (i == 0) {
		name_node(c->node, dst);
		return dst;
	}
	return i == 1 ? MANIFEST_TMP : i == 2 ? NAME_MANIFEST : NULL;
}

int commit_collect_files(struct commit *c)
{
	for (uint32_t r = 0; r < c->nranks; r++)
		c->nfiles += c->ranks[r].mem->layout.nfiles;
	c->cfiles = calloc(c->nfiles ? c->nfiles : 1, sizeof(*c->cfiles));
	if (!c->cfiles)
		return -ENOMEM;
	uint32_t at = 0;
	for (uint32_t r = 0; r < c->nranks; r++) {
		const struct layout *layout = &c->ranks[r].mem->layout;
		for (uint32_t f = 0; f < layout->nfiles; f++) {
			c->cfiles[at++] = (struct commit_file){.rank = &c->ranks[r], .file = f};
			c->bytes += c->ranks[r].mem->heads[f].len + layout->files[f].data_size;
		}
	}
	c->files = c->nfiles;
	return 0;
}
