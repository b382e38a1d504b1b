#include "checkpoint/node_part_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "checkpoint/file_span.h"
#include "format/files/sidecar.h"

#include <stdio.h>
#include <string.h>

static void start_files(struct node_part *c);

static const char *data_name(const struct node_part *c, const struct node_part_file *f, char dst[NAME_FILE_MAX])
{
	const struct layout_file *lf = node_part_layout_file(f);
	name_data(f->rank->mem->table->reg.rank, c->world, lf->group, lf->part, dst);
	return dst;
}

static const struct previous_file *previous_of(const struct node_part *c, const struct node_part_file *f)
{
	char name[NAME_FILE_MAX];
	return c->full_every > 1 ? previous_find(c->previous, (uint32_t)(f - c->cfiles), data_name(c, f, name)) : NULL;
}

void node_part_file_ended(struct node_part *c, int rc, const char *name)
{
	c->in_flight--;
	c->progress_ns = clock_now();
	if (rc)
		node_part_fail(c, rc, name);
	start_files(c);
}

static void file_done(struct writer *w)
{
	node_part_file_ended(w->arg, w->rc, w->name);
}

/* A file under a limit may take longer than a commit may stall. */
static void file_moved(struct writer *w)
{
	struct node_part *c = w->arg;
	c->progress_ns = clock_now();
}

/* Bytes of the slot, from its start, that nothing writes to any more. */
static uint64_t arrived(const struct node_part_rank *rank)
{
	return rank->arriving ? rank->arrived : UINT64_MAX;
}

static uint64_t file_ready(const struct writer *w, const struct writer_extent *e)
{
	const struct node_part_file *f = list_entry(w, struct node_part_file, writer);
	if (e == &w->extents[0]) /* its head */
		return e->len;
	uint64_t at = (uint64_t)((const uint8_t *)e->buf - memory_slot(f->rank->mem, f->rank->slot));
	uint64_t have = arrived(f->rank);
	return have > at ? min_u64(have - at, e->len) : 0;
}

/* The first span of its data is an extent of the writer itself. */
static void place_data(struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	const uint8_t *slot = memory_slot(f->rank->mem, f->rank->slot);
	uint64_t data_at = node_part_head(f)->len;
	struct writer *w = &f->writer;
	struct file_span span = {0};
	uint32_t piece = 0;
	file_span_next(f->rank->layout, lf, &piece, &span);
	w->extents[1] = (struct writer_extent){slot + span.slot_at, data_at, span.bytes};
	while (w->nmore < f->nspans && file_span_next(f->rank->layout, lf, &piece, &span))
		f->spans[w->nmore++] = (struct writer_extent){slot + span.slot_at, data_at + span.at, span.bytes};
	w->more = f->spans;
}

void node_part_write_plain(struct node_part *c, struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	const struct head_block *head = node_part_head(f);
	struct writer *w = &f->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .done = file_done, .arg = c};
	w->throttle = c->throttle;
	w->bucket = c->bucket;
	w->moved = file_moved;
	w->ready = f->rank->arriving ? file_ready : NULL;
	data_name(c, f, w->name);
	w->extents[0] = (struct writer_extent){head->data, 0, head->len};
	w->size = head->len + lf->data_size;
	place_data(f);
	if (!w->nmore && lf->slot_at % DISK_ALIGN == 0) { /* a part of what others have may begin anywhere */
		w->flags = DISK_DIRECT;
		w->extents[1].len = align_up(lf->data_size, DISK_ALIGN);
	}
	writer_start(w);
}

static void write_data(struct node_part *c, struct node_part_file *f)
{
	f->age = 0;
	f->packed = (struct manifest_packed){0};
	if (!c->packing || f->nspans || node_part_write_packed(c, f) < 0)
		node_part_write_plain(c, f);
}

static int encode_sidecar(struct node_part *c, struct node_part_file *f)
{
	const struct head_block *head = node_part_head(f);
	if (f->sidecar.len)
		return 0;
	int rc = sidecar_encode(f->rank->layout, f->file, head->len, head->digest, f->rank->leaves, &f->sidecar);
	if (rc)
		return rc;
	f->digest = digest_bytes(f->sidecar.data, f->sidecar.len);
	const struct previous_file *p = previous_of(c, f);
	f->same = p && digest_equal(p->sidecar, f->digest);
	return 0;
}

/* ---- files of the previous checkpoint -------------------------------------------------------------------------------  */

static void file_linked(struct hard_link *l)
{
	struct node_part_file *f = l->arg;
	struct node_part *c = f->commit;
	if (l->rc == -ENOLINK && !c->rc) {
		write_data(c, f);
		return;
	}
	if (!l->rc) {
		f->linked = true;
		c->linked_files++;
		c->linked_bytes += l->size;
	} else if (c->previous) {
		previous_forget(c->previous); /* whatever it is: the next checkpoint does without */
	}
	node_part_file_ended(c, l->rc, f->writer.name);
}

static void link_data(struct node_part *c, struct node_part_file *f, const struct previous_file *p)
{
	const struct layout_file *lf = node_part_layout_file(f);
	f->age = p->age + 1;
	f->packed = p->packed;
	(p->packed.index_size ? name_packed : name_data)(f->rank->mem->table->reg.rank, c->world, lf->group, lf->part,
							 f->writer.name);
	f->hard_link = (struct hard_link){.disk = c->disk,
					  .from = c->previous_dir,
					  .dir = c->dir,
					  .name = f->writer.name,
					  .size = p->packed.index_size ? p->packed.size
								       : node_part_head(f)->len + lf->data_size,
					  .done = file_linked,
					  .arg = f};
	hard_link_start(&f->hard_link);
}

/* Whether the file of the previous checkpoint would be linked if nothing has changed. */
static bool may_link(const struct node_part *c, const struct previous_file *p)
{
	return p && c->previous_usable && p->age + 1 < c->full_every;
}

/* Negative: nothing was started. */
static int start_data(struct node_part *c, struct node_part_file *f)
{
	const struct previous_file *p = previous_of(c, f);
	bool known = c->digests_ready && may_link(c, p);
	int rc = known ? encode_sidecar(c, f) : 0;
	if (rc)
		return rc;
	if (known && f->same)
		link_data(c, f, p);
	else
		write_data(c, f);
	return 0;
}

static int start_sidecar(struct node_part *c, struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	struct writer *w = &f->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .done = file_done, .arg = c};
	name_sidecar(f->rank->mem->table->reg.rank, c->world, lf->group, lf->part, w->name);
	w->extents[0] = (struct writer_extent){f->sidecar.data, 0, f->sidecar.len};
	w->size = f->sidecar.len;
	writer_start(w);
	return 0;
}

/* ---- the order ------------------------------------------------------------------------------------------------------ */

/* Its turn has come, and it cannot begin: it may be linked, once the digests tell; or it is packed as a whole. */
static bool stands_back(const struct node_part *c, const struct node_part_file *f)
{
	const struct layout_file *lf = node_part_layout_file(f);
	if (c->state != NODE_PART_DATA)
		return false;
	return f->late ? !c->digests_ready : c->packing && arrived(f->rank) < lf->slot_at + lf->data_size;
}

/* In DATA the late ones come last. NULL: there are no more, or the next stands back. */
static struct node_part_file *next_file(struct node_part *c, bool *waits)
{
	uint32_t end = c->state == NODE_PART_DATA ? 2 * c->nfiles : c->nfiles;
	for (; c->started < end; c->started++) {
		struct node_part_file *f = &c->cfiles[c->started % c->nfiles];
		if (c->state == NODE_PART_DATA && f->late != (c->started >= c->nfiles))
			continue;
		*waits = stands_back(c, f);
		if (*waits)
			return NULL;
		c->started++;
		return f;
	}
	return NULL;
}

/* Keeps NODE_PART_WRITERS files in flight; when all are done, or after an error when none is left, goes on. */
static void start_files(struct node_part *c)
{
	struct node_part_file *f;
	bool waits = false;
	while (!c->rc && c->in_flight < NODE_PART_WRITERS && (f = next_file(c, &waits))) {
		c->in_flight++;
		int rc = c->state == NODE_PART_DATA ? start_data(c, f) : start_sidecar(c, f);
		if (rc) {
			c->in_flight--;
			node_part_fail(c, rc, f->writer.name);
		}
	}
	if (c->in_flight || (!c->rc && waits))
		return;
	node_part_advance(c, c->rc);
}

void node_part_resume_files(struct node_part *c)
{
	for (uint32_t i = 0; i < c->nfiles; i++)
		writer_more(&c->cfiles[i].writer);
	start_files(c);
}

bool node_part_files_wait(const struct node_part *c)
{
	uint32_t starved = 0;
	for (uint32_t i = 0; i < c->nfiles; i++)
		starved += writer_starved(&c->cfiles[i].writer);
	return starved == c->in_flight;
}

static void stop_file(struct node_part_file *f, int rc)
{
	writer_cancel(&f->writer, rc);
	packer_cancel(&f->packer, rc);
}

bool node_part_stop_files(struct node_part *c)
{
	for (uint32_t i = 0; c->state == NODE_PART_DATA && i < c->nfiles; i++)
		stop_file(&c->cfiles[i], c->rc);
	return c->state == NODE_PART_DATA && !c->in_flight;
}

void node_part_write_files(struct node_part *c)
{
	c->started = 0;
	for (uint32_t i = 0; c->state == NODE_PART_DATA && i < c->nfiles; i++) {
		struct node_part_file *f = &c->cfiles[i];
		data_name(c, f, f->writer.name);
		const struct previous_file *p = previous_of(c, f);
		f->late = may_link(c, p) && p->steady;
	}
	start_files(c);
}

int node_part_encode_sidecars(struct node_part *c)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < c->nfiles; i++)
		rc = encode_sidecar(c, &c->cfiles[i]);
	return rc;
}

static void text_done(struct writer *w)
{
	node_part_advance(w->arg, w->rc);
}

void node_part_write_text(struct node_part *c, const char *name, const struct wbuf *text)
{
	struct writer *w = &c->writer;
	*w = (struct writer){.disk = c->disk, .dir = c->dir, .done = text_done, .arg = c, .size = text->len};
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->extents[0] = (struct writer_extent){text->data, 0, text->len};
	writer_start(w);
}

/* The names that it may have made, one by one; NULL after the last. */
static const char *made_name(const struct node_part *c, uint32_t i, char dst[NAME_FILE_MAX])
{
	static void (*const names[])(uint32_t, uint32_t, const char *, uint32_t, char *) = {name_data, name_packed,
											    name_sidecar};
	enum { NAMES = sizeof(names) / sizeof(names[0]) };
	if (i >= NAMES * c->nfiles) {
		static void (*const of_node[])(const char *, char *) = {name_node, name_notice};
		uint32_t which = i - NAMES * c->nfiles;
		if (which >= sizeof(of_node) / sizeof(of_node[0]))
			return NULL;
		of_node[which](c->node, dst);
		return dst;
	}
	const struct node_part_file *f = &c->cfiles[i / NAMES];
	const struct layout_file *lf = node_part_layout_file(f);
	names[i % NAMES](f->rank->mem->table->reg.rank, c->world, lf->group, lf->part, dst);
	return dst;
}

bool node_part_remove_next(struct node_part *c)
{
	const char *name = made_name(c, c->remove_at++, c->writer.name);
	if (name)
		node_part_submit(c, (struct disk_op){.kind = DISK_UNLINK, .dir = c->dir, .name = name});
	return name != NULL;
}

static uint32_t count_files(const struct node_part *c)
{
	uint32_t n = 0;
	for (uint32_t r = 0; r < c->nranks; r++)
		n += c->ranks[r].layout->nfiles;
	return n;
}

static void list_files(struct node_part *c)
{
	c->nfiles = 0;
	for (uint32_t r = 0; r < c->nranks; r++)
		for (uint32_t f = 0; f < c->ranks[r].layout->nfiles; f++)
			c->cfiles[c->nfiles++] = (struct node_part_file){.commit = c, .rank = &c->ranks[r], .file = f};
}

int node_part_collect_files(struct node_part *c)
{
	for (uint32_t r = 0; r < c->nranks; r++) {
		c->ranks[r].layout = &c->ranks[r].mem->layout;
		c->ranks[r].heads = c->ranks[r].mem->heads;
	}
	c->cfiles = calloc(count_files(c) + 1ull, sizeof(*c->cfiles));
	if (!c->cfiles)
		return -ENOMEM;
	list_files(c);
	return 0;
}

/* None has more files than there were. */
static int take_part(struct node_part *c, const struct share_parts *parts)
{
	struct part_layout *own = NULL, **kept = c->layouts ? c->layouts : &own;
	int rc = part_layout_make(c->ranks, c->nranks, parts, kept, &c->err);
	if (rc)
		return rc;
	c->layout = c->layouts ? part_layout_get(*kept) : own;
	for (uint32_t r = 0; r < c->nranks; r++) {
		c->ranks[r].layout = &c->layout->ranks[r].layout;
		c->ranks[r].heads = c->layout->ranks[r].heads;
	}
	list_files(c);
	return 0;
}

static int make_spans(struct node_part_file *f)
{
	uint32_t n = file_span_count(f->rank->layout, node_part_layout_file(f));
	if (n < 2)
		return 0;
	f->spans = calloc(n - 1, sizeof(*f->spans));
	f->nspans = f->spans ? n - 1 : 0;
	return f->spans ? 0 : -ENOMEM;
}

int node_part_choose_files(struct node_part *c, const struct share_parts *parts)
{
	int rc = parts->n ? take_part(c, parts) : 0;
	for (uint32_t i = 0; !rc && i < c->nfiles; i++)
		rc = make_spans(&c->cfiles[i]);
	if (rc)
		return c->err.text[0] ? rc : err_set(&c->err, rc, "the files of this node's part: %s", err_name(rc));
	for (uint32_t i = 0; i < c->nfiles; i++)
		c->bytes += node_part_head(&c->cfiles[i])->len + node_part_layout_file(&c->cfiles[i])->data_size;
	c->files = c->nfiles;
	return 0;
}

void node_part_free_file(struct node_part_file *f)
{
	wbuf_free(&f->sidecar);
	free(f->spans);
	packer_free(&f->packer);
}
