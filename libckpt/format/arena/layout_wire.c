#include "format/arena/layout_plan.h"

#include <stdlib.h>
#include <string.h>

enum {
	FILE_BYTES_MIN = 2 + 1 + 4 + 4,
	PIECE_BYTES_MIN = 4 + 4 + 1 + 1, /* of a scalar */
};

/* Dimensions of the box that are worth a place: what lies beyond is zero, as it is in every region. */
static struct shape box_shape(const struct region *r)
{
	struct shape box = {.ndim = r->kind == REGION_BOX ? NDIM_MAX : 0};
	while (box.ndim && !r->extent[box.ndim - 1] && !r->offset[box.ndim - 1])
		box.ndim--;
	return box;
}

int layout_encode(const struct layout *layout, struct wbuf *out)
{
	wbuf_u32(out, layout->rank);
	wbuf_u32(out, layout->world);
	wbuf_u32(out, layout->nfiles);
	wbuf_u32(out, layout->npieces);
	for (uint32_t f = 0; f < layout->nfiles; f++) {
		wbuf_str(out, layout->files[f].group);
		wbuf_u32(out, layout->files[f].part);
		wbuf_u32(out, layout->files[f].npieces);
	}
	for (uint32_t p = 0; p < layout->npieces; p++) {
		const struct layout_piece *piece = &layout->pieces[p];
		struct shape box = box_shape(&piece->region);
		wbuf_u32(out, piece->entry);
		wbuf_u32(out, piece->source);
		wbuf_u8(out, (uint8_t)box.ndim);
		region_put(out, &box, &piece->region);
	}
	return wbuf_finish(out);
}

static int read_head(struct rbuf *in, const struct registration *reg, struct layout *layout, struct err *err)
{
	layout->rank = rbuf_u32(in);
	layout->world = rbuf_u32(in);
	layout->nfiles = rbuf_u32(in);
	layout->npieces = rbuf_u32(in);
	if (in->failed)
		return err_set(err, -EBADMSG, "cut off in its head");
	if (layout->rank != reg->rank || layout->world != reg->world)
		return err_set(err, -EBADMSG, "it is of rank %u of %u, the registration of rank %u of %u", layout->rank,
			       layout->world, reg->rank, reg->world);
	if (layout->nfiles > rbuf_left(in) / FILE_BYTES_MIN || layout->npieces > rbuf_left(in) / PIECE_BYTES_MIN)
		return err_set(err, -EBADMSG, "%u files and %u pieces do not fit", layout->nfiles, layout->npieces);
	layout->files = calloc((size_t)layout->nfiles + 1, sizeof(*layout->files));
	layout->pieces = calloc((size_t)layout->npieces + 1, sizeof(*layout->pieces));
	if (!layout->files || !layout->pieces)
		return err_set(err, -ENOMEM, "no memory for %u files and %u pieces", layout->nfiles, layout->npieces);
	return 0;
}

/* Files stand in order of group and part, parts count from 0, and none is empty: so no file name stands twice. */
static int read_file(struct rbuf *in, struct layout *layout, uint32_t i, struct err *err)
{
	struct layout_file *f = &layout->files[i];
	rbuf_str(in, f->group, sizeof(f->group));
	f->part = rbuf_u32(in);
	f->npieces = rbuf_u32(in);
	if (in->failed || !f->npieces || f->part >= PART_MAX)
		return err_set(err, -EBADMSG, "file %u is cut off or out of bounds", i);
	int order = i ? strcmp(f[-1].group, f->group) : -1;
	if (order > 0 || f->part != (order == 0 ? f[-1].part + 1 : 0))
		return err_set(err, -EBADMSG, "file %u does not follow the file before it", i);
	return 0;
}

static int read_piece(struct rbuf *in, const struct registration *reg, struct layout_piece *p, struct err *err)
{
	p->entry = rbuf_u32(in);
	p->source = rbuf_u32(in);
	struct shape box = {.ndim = rbuf_u8(in)};
	if (in->failed || p->entry >= reg->nentries)
		return err_set(err, -EBADMSG, "cut off, or of an unknown entry");
	const struct entry *e = &reg->entries[p->entry];
	if (p->source >= e->npieces || box.ndim > e->shape.ndim)
		return err_set(err, -EBADMSG, "no such piece of \"%.200s\"", e->name);
	region_get(in, &box, &p->region);
	bool canonical = box.ndim == box_shape(&p->region).ndim; /* one encoding per layout */
	if (in->failed || !canonical || region_check(&e->shape, &p->region, NULL) < 0)
		return err_set(err, -EBADMSG, "cut off, or outside \"%.200s\"", e->name);
	uint64_t volume = region_volume(&e->shape, &p->region);
	if (overlap_volume(&e->shape, &p->region, &e->pieces[p->source]) != volume)
		return err_set(err, -EBADMSG, "not within its piece of \"%.200s\"", e->name);
	return 0;
}

/* The order that layout_make gives: strict, so that no piece stands twice, and aligned to its elements. */
static int check_order(const struct registration *reg, const struct layout *layout, struct err *err)
{
	struct plan_choice before = {0};
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const struct layout_piece *p = &layout->pieces[i];
		const struct entry *e = &reg->entries[p->entry];
		struct plan_choice now = {.entry = e, .first = region_first(&e->shape, &p->region)};
		if (strcmp(layout->files[p->file].group, e->group))
			return err_set(err, -EBADMSG, "piece %u is in the file of another group", i);
		if (i && plan_order(&before, &now) >= 0)
			return err_set(err, -EBADMSG, "piece %u does not follow the piece before it", i);
		before = now;
	}
	return 0;
}

static int read_layout(struct rbuf *in, const struct registration *reg, struct layout *layout, struct err *err)
{
	int rc = read_head(in, reg, layout, err);
	for (uint32_t i = 0; rc == 0 && i < layout->nfiles; i++)
		rc = read_file(in, layout, i, err);
	for (uint32_t i = 0; rc == 0 && i < layout->npieces; i++) {
		rc = read_piece(in, reg, &layout->pieces[i], err);
		if (rc < 0)
			err_prefix(err, rc, "piece %u", i);
	}
	if (rc < 0)
		return rc;
	if (layout_derive(layout, reg) < 0)
		return err_set(err, -EBADMSG, "its files do not hold its pieces, or too many bytes");
	return check_order(reg, layout, err);
}

int layout_decode(struct rbuf *in, const struct registration *reg, struct layout *layout, struct err *err)
{
	*layout = (struct layout){0};
	int rc = read_layout(in, reg, layout, err);
	if (rc < 0) {
		layout_free(layout);
		return err_prefix(err, rc, "layout of rank %u", reg->rank);
	}
	return 0;
}
