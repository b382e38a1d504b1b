#include "store/check/verify_private.h"

#include "base/cleanup.h"
#include "format/files/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "<tensor>" or "<tensor>#…": the conventions of safetensors.h. */
static bool is_name_of(const char *name, const char *tensor)
{
	size_t n = strlen(tensor);
	return !strncmp(name, tensor, n) && (!name[n] || name[n] == '#');
}

static bool is_shape_of(const struct safetensors_entry *e, const struct manifest_tensor *t,
			const struct manifest_piece *p)
{
	uint64_t volume;
	if (shape_volume(&e->shape, &volume) < 0 || volume != region_volume(&t->shape, &p->region))
		return false;
	struct shape extent = {.ndim = t->shape.ndim};
	memcpy(extent.dim, p->region.extent, sizeof(extent.dim));
	/* A flat range is a vector, or a box of the tensor's number of dimensions. */
	if (p->region.kind == REGION_FLAT)
		return e->shape.ndim == 1 || e->shape.ndim == t->shape.ndim;
	return shape_equal(&e->shape, &extent);
}

static void match_entry(struct verify_file *vf, const struct safetensors_entry *e, const struct manifest_piece *p)
{
	const struct manifest_tensor *t = &vf->node->tensors[p->tensor];
	const char *what = NULL;
	if (e->begin != p->at || e->end != p->at + p->bytes)
		what = "place";
	else if (!is_name_of(e->name, t->name))
		what = "name";
	else if (e->dtype != t->dtype)
		what = "type";
	else if (!is_shape_of(e, t, p))
		what = "shape";
	if (what)
		verify_find(vf->run, vf->file->name, t->name, vf->file->data_at + p->at,
			    vf->file->data_at + p->at + p->bytes,
			    "its header has another %s than the node manifest: \"%s\" %s at [%" PRIu64 ", %" PRIu64 ")",
			    what, e->name, dtype_name(e->dtype), e->begin, e->end);
}

static uint32_t next_entry(const struct safetensors *st, uint32_t i)
{
	while (i < st->nentries && st->entries[i].begin == st->entries[i].end)
		i++;
	return i;
}

/* Entries and pieces stand in the order of their bytes. Empty ones have no place of their own: only their number is compared. */
static void match_entries(struct verify_file *vf, const struct safetensors *st)
{
	const struct manifest_file *f = vf->file;
	if (st->data_at != f->data_at || st->nentries != f->npieces) {
		verify_find(vf->run, f->name, "", 0, f->data_at,
			    "its header has %u tensors and data at %" PRIu64 ", the node manifest %u and %" PRIu64,
			    st->nentries, st->data_at, f->npieces, f->data_at);
		return;
	}
	uint32_t e = next_entry(st, 0);
	for (uint32_t i = 0; i < f->npieces; i++) {
		if (!f->pieces[i].bytes)
			continue;
		if (e == st->nentries) {
			verify_find(vf->run, f->name, vf->node->tensors[f->pieces[i].tensor].name, 0, f->data_at,
				    "its header has fewer tensors with data than the node manifest");
			return;
		}
		match_entry(vf, &st->entries[e], &f->pieces[i]);
		e = next_entry(st, e + 1);
	}
}

static int read_head(struct verify_file *vf, void *head, bool *good)
{
	const struct manifest_file *f = vf->file;
	struct disk_op op = {
		.kind = DISK_READ, .file = vf->handle, .buf = head, .offset = f->packed.index_size, .len = f->data_at};
	int rc = disk_do(vf->run->ck.repo->disk, &op);
	if (rc < 0 || op.result != (int64_t)f->data_at) {
		verify_find(vf->run, f->name, "", 0, f->data_at, "its header cannot be read: %s",
			    rc < 0 ? err_name(rc) : "the file ends before");
		if (rc < 0 && !vf->run->trouble)
			vf->run->trouble = rc;
		return 0;
	}
	*good = digest_equal(digest_bytes(head, f->data_at), vf->sidecar.header);
	if (!*good)
		verify_find(vf->run, f->name, "", 0, f->data_at,
			    "its header is damaged: its digest is not the one in %s", f->sidecar_name);
	return verify_advance(vf->run, f->data_at);
}

int verify_header(struct verify_file *vf, bool *good)
{
	const struct manifest_file *f = vf->file;
	*good = false;
	if (f->data_at > SAFETENSORS_HEADER_MAX + 2 * LAYOUT_ALIGN) {
		verify_find(vf->run, f->name, "", 0, f->data_at,
			    "its header of %" PRIu64 " bytes is above the format's bound", f->data_at);
		return 0;
	}
	AUTO_FREE void *head = aligned_alloc(LAYOUT_ALIGN, align_up(f->data_at, LAYOUT_ALIGN));
	if (!head)
		return err_set(vf->run->err, -ENOMEM, "no memory for a header of %" PRIu64 " bytes", f->data_at);
	int rc = read_head(vf, head, good);
	if (rc < 0 || !*good)
		return rc;
	struct safetensors st;
	struct err why = {0};
	rc = safetensors_parse(head, f->data_at, f->size, &st, &why);
	if (rc == -ENOMEM)
		return err_set(vf->run->err, rc, "%s: %s", f->name, why.text);
	if (rc < 0) {
		verify_find(vf->run, f->name, "", 0, f->data_at, "%s", why.text);
		return 0;
	}
	match_entries(vf, &st);
	safetensors_free(&st);
	return 0;
}
