/* Each file is filled window by window: a window is a run of bytes of the file's data, at most WINDOW, for which the checkpoint is
 * read through a restore plan and which is then appended. So memory is bounded whatever the size of tensors and files, and what a
 * window wants of a saved piece is nearly contiguous (both are in row-major order), so that little is read twice: at most a leaf
 * at each end. The price: sidecars are read again for every window. Writes go through the page cache and are started at once, so
 * that the disk writes one window while the next is read. */
#include "change/export.h"

#include "base/cleanup.h"
#include "format/document/json_out.h"
#include "format/files/safetensors.h"
#include "store/read/restore.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW (256ull << 20) /* a multiple of LEAF_SIZE */

struct exporter {
	struct checkpoint *ck;
	const struct export_table *table;
	const struct export_options *opts;
	int dir;
	uint64_t done; /* bytes of the files that are written */
	enum export_side side;
	uint8_t *buffer; /* WINDOW bytes */
	struct want *wants;
	size_t nwants, wants_cap;
};

/* The file that is being written. */
struct target {
	char name[NAME_FILE_MAX];
	int fd;
	uint64_t at;
};

static int append(struct exporter *x, struct target *t, const void *data, uint64_t len, struct err *err)
{
	const uint8_t *p = data;
	uint64_t from = t->at;
	x->side = EXPORT_TARGET;
	while (len) {
		ssize_t n = pwrite(t->fd, p, len, (off_t)t->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? -errno : -EIO, "writing %s at byte %" PRIu64 ": %s", t->name, t->at,
				       err_name(n < 0 ? errno : EIO));
		t->at += (uint64_t)n;
		p += n;
		len -= (uint64_t)n;
	}
	/* Only begins the writing; errors come from fsync. */
	sync_file_range(t->fd, (off_t)from, (off_t)(t->at - from), SYNC_FILE_RANGE_WRITE);
	return 0;
}

static int create(struct exporter *x, struct target *t, struct err *err)
{
	x->side = EXPORT_TARGET;
	t->fd = openat(x->dir, t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return t->fd < 0 ? err_set(err, -errno, "cannot create %s: %s", t->name, err_name(errno)) : 0;
}

static int finish(struct exporter *x, struct target *t, struct err *err)
{
	x->side = EXPORT_TARGET;
	return fsync(t->fd) < 0 ? err_set(err, -errno, "syncing %s: %s", t->name, err_name(errno)) : 0;
}

static int add_want(struct exporter *x, struct want want)
{
	if (x->nwants == x->wants_cap) {
		size_t cap = x->wants_cap ? x->wants_cap * 2 : 64;
		struct want *grown = realloc(x->wants, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		x->wants = grown;
		x->wants_cap = cap;
	}
	x->wants[x->nwants++] = want;
	return 0;
}

static int window_step(void *arg, uint64_t done, uint64_t total)
{
	(void)total;
	const struct exporter *x = arg;
	return x->opts->progress ? x->opts->progress(x->opts->arg, x->done + done, x->table->bytes) : 0;
}

/* Fills the buffer with what the wants say. */
static int fill_window(struct exporter *x, struct err *err)
{
	struct restore_plan *plan;
	struct restore_options opts = {.progress = window_step, .arg = x};
	x->side = EXPORT_CHECKPOINT;
	int rc = restore_plan_make(x->ck, x->wants, x->nwants, &plan, err);
	if (rc < 0)
		return rc;
	rc = restore_execute(plan, &opts, err);
	restore_plan_free(plan);
	return rc;
}

static int flush_window(struct exporter *x, struct target *t, uint64_t bytes, struct err *err)
{
	int rc = x->nwants ? fill_window(x, err) : 0;
	x->nwants = 0;
	if (rc == 0)
		rc = append(x, t, x->buffer, bytes, err);
	x->done += rc == 0 ? bytes : 0;
	return rc;
}

/* The part of a piece that begins `from` bytes after its start. Its region is contiguous in its tensor: rows, or all. */
static struct want part_want(const struct entry *e, const struct layout_piece *p, uint32_t rank, uint64_t from,
			     uint64_t bytes, void *data)
{
	uint64_t start, count, size = dtype_size(e->dtype);
	region_contiguous(&e->shape, &p->region, &start, &count);
	return (struct want){.tensor = e->name,
			     .dtype = e->dtype,
			     .shape = e->shape,
			     .region = region_flat(start + from / size, bytes / size),
			     .data = data,
			     .owner = rank};
}

static int write_data(struct exporter *x, struct target *t, uint32_t rank, uint32_t file, struct err *err)
{
	const struct registration *reg = &x->table->regs[rank];
	const struct layout *l = &x->table->layouts[rank];
	const struct layout_file *f = &l->files[file];
	uint64_t used = 0;
	int rc = 0;
	for (uint32_t i = f->first_piece; rc == 0 && i < f->first_piece + f->npieces; i++) {
		const struct layout_piece *p = &l->pieces[i];
		for (uint64_t from = 0, n; rc == 0 && from < p->bytes; from += n) {
			/* A cut inside a piece is at a multiple of LEAF_SIZE of it: elements stay whole. */
			uint64_t room = WINDOW - used;
			n = min_u64(p->bytes - from, room);
			if (n < p->bytes - from)
				n = n / LEAF_SIZE * LEAF_SIZE;
			if (n &&
			    add_want(x, part_want(&reg->entries[p->entry], p, rank, from, n, x->buffer + used)) < 0)
				return err_set(err, -ENOMEM, "no memory for a list of tensors");
			used += n;
			if (from + n == p->bytes)
				continue;
			rc = flush_window(x, t, used, err);
			used = 0;
		}
	}
	return rc == 0 ? flush_window(x, t, used, err) : rc;
}

static int write_file(struct exporter *x, uint32_t rank, uint32_t file, struct err *err)
{
	struct target t = {.fd = -1};
	AUTO_WBUF struct wbuf header = {0};
	export_file_name(x->table, rank, file, t.name);
	int rc = safetensors_header(&x->table->regs[rank], &x->table->layouts[rank], file, &header);
	if (rc < 0)
		return err_set(err, rc, "cannot make the header of %s: %s", t.name, err_name(rc));
	rc = create(x, &t, err);
	if (rc < 0)
		return rc;
	rc = append(x, &t, header.data, header.len, err);
	x->done += header.len;
	if (rc == 0)
		rc = write_data(x, &t, rank, file, err);
	if (rc == 0)
		rc = finish(x, &t, err);
	close(t.fd);
	return rc;
}

/* {"metadata":{"total_size":N},"weight_map":{tensor:file}} of the parts of a group, files [first, end), as Hugging Face's
 * libraries read it. */
static void index_text(const struct export_table *table, uint32_t first, uint32_t end, struct wbuf *out)
{
	const struct layout *l = &table->layouts[0];
	uint64_t total = 0;
	for (uint32_t f = first; f < end; f++)
		total += l->files[f].data_size;
	jout_raw(out, "{\"metadata\":{\"total_size\":");
	jout_u64(out, total);
	jout_raw(out, "},\"weight_map\":{");
	for (uint32_t f = first; f < end; f++) {
		char name[NAME_FILE_MAX];
		export_file_name(table, 0, f, name);
		for (uint32_t p = 0; p < l->files[f].npieces; p++) {
			const struct layout_piece *piece = &l->pieces[l->files[f].first_piece + p];
			jout_raw(out, f > first || p ? "," : "");
			jout_string(out, table->regs[0].entries[piece->entry].name);
			jout_raw(out, ":");
			jout_string(out, name);
		}
	}
	jout_raw(out, "}}\n");
}

static int write_index(struct exporter *x, uint32_t first, uint32_t end, struct err *err)
{
	struct target t = {.fd = -1};
	AUTO_WBUF struct wbuf text = {0};
	snprintf(t.name, sizeof(t.name), "%s.safetensors.index.json", x->table->layouts[0].files[first].group);
	index_text(x->table, first, end, &text);
	if (wbuf_finish(&text) < 0)
		return err_set(err, -ENOMEM, "no memory for %s", t.name);
	int rc = create(x, &t, err);
	if (rc < 0)
		return rc;
	rc = append(x, &t, text.data, text.len, err);
	if (rc == 0)
		rc = finish(x, &t, err);
	close(t.fd);
	return rc;
}

/* An index for each group that takes several files. Files of a group stand next to each other. */
static int write_indices(struct exporter *x, struct err *err)
{
	const struct layout *l = &x->table->layouts[0];
	int rc = 0;
	for (uint32_t first = 0, end; rc == 0 && first < l->nfiles; first = end) {
		for (end = first + 1; end < l->nfiles && !strcmp(l->files[end].group, l->files[first].group);)
			end++;
		if (end - first > 1)
			rc = write_index(x, first, end, err);
	}
	return rc;
}

static int write_all(struct exporter *x, struct err *err)
{
	int rc = 0;
	for (uint32_t r = 0; rc == 0 && r < x->table->nranks; r++)
		for (uint32_t f = 0; rc == 0 && f < x->table->layouts[r].nfiles; f++)
			rc = write_file(x, r, f, err);
	return rc == 0 && !x->table->split ? write_indices(x, err) : rc;
}

int export_write(struct checkpoint *ck, const struct export_table *table, int dir, const struct export_options *opts,
		 enum export_side *side, struct err *err)
{
	struct exporter x = {.ck = ck, .table = table, .opts = opts, .dir = dir};
	*side = EXPORT_TARGET;
	x.buffer = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (x.buffer == MAP_FAILED)
		return err_set(err, -ENOMEM, "no memory for a window of %llu MiB", WINDOW >> 20);
	madvise(x.buffer, WINDOW, MADV_HUGEPAGE);
	int rc = write_all(&x, err);
	*side = x.side;
	munmap(x.buffer, WINDOW);
	free(x.wants);
	return rc;
}
