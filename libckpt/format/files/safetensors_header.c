/* The header that we write. See safetensors.h for the conventions. */
#include "format/files/safetensors.h"

#include "format/document/json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How one piece is shown in the file. */
struct view {
	const struct entry *entry;
	struct region region; /* a box whenever the piece is one */
	uint64_t begin, end;
	uint32_t number; /* in its name: 0 is the first of its kind */
};

static const char flat_suffix[] = "#flat";
#define READABLE "{" /* the beginning of DCP_SHARDING_INFO */
#define REFUSED "!"

/* A flat range as a box, when it is one: a range within one line of some dimension, all inner dimensions complete. */
static bool flat_as_box(const struct shape *shape, const struct region *flat, struct region *box)
{
	uint64_t inner = 1;
	*box = region_whole(shape);
	if (!flat->count)
		return region_volume(shape, box) == 0;
	for (uint32_t d = shape->ndim; d-- > 0; inner *= shape->dim[d]) {
		uint64_t line = flat->start / inner, n = flat->count / inner;
		if (flat->start % inner || flat->count % inner)
			return false;
		if (line % shape->dim[d] + n > shape->dim[d])
			continue;
		box->extent[d] = n;
		box->offset[d] = line % shape->dim[d];
		for (line /= shape->dim[d]; d-- > 0; line /= shape->dim[d]) {
			box->offset[d] = line % shape->dim[d];
			box->extent[d] = 1;
		}
		return true;
	}
	return shape->ndim == 0;
}

static void view_name(const struct view *v, char name[SAFETENSORS_NAME_MAX])
{
	bool flat = v->region.kind == REGION_FLAT;
	char number[16] = "";
	if (v->number)
		snprintf(number, sizeof(number), "%s%u", flat ? "" : "#", v->number);
	snprintf(name, SAFETENSORS_NAME_MAX, "%s%s%s", v->entry->name, flat ? flat_suffix : "", number);
}

/* Numbers the view, `first` being the least number that is free among its tensor's views of that kind. */
static uint32_t number_view(const struct registration *reg, struct view *v, uint32_t first)
{
	char name[SAFETENSORS_NAME_MAX];
	for (v->number = first;; v->number++) {
		if (!v->number && v->region.kind == REGION_BOX)
			break;
		view_name(v, name);
		if (!registration_find(reg, name))
			break;
	}
	return v->number + 1;
}

static void make_views(const struct registration *reg, const struct layout_piece *pieces, uint32_t n,
		       struct view *views)
{
	uint32_t next_box = 0, next_flat = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct layout_piece *p = &pieces[i];
		const struct entry *e = &reg->entries[p->entry];
		struct view *v = &views[i];
		struct region box;
		*v = (struct view){.entry = e, .region = p->region, .begin = p->at, .end = p->at + p->bytes};
		if (p->region.kind == REGION_FLAT && flat_as_box(&e->shape, &p->region, &box))
			v->region = box;
		if (!i || views[i - 1].entry != e)
			next_box = next_flat = 0;
		uint32_t *next = v->region.kind == REGION_FLAT ? &next_flat : &next_box;
		*next = number_view(reg, v, *next);
	}
}

static void put_name(struct wbuf *out, const struct view *v)
{
	char name[SAFETENSORS_NAME_MAX];
	view_name(v, name);
	jout_string(out, name);
}

static void put_offsets(struct wbuf *out, const struct view *v)
{
	if (v->region.kind == REGION_FLAT)
		jout_array(out, &v->region.start, 1);
	else
		jout_array(out, v->region.offset, v->entry->shape.ndim);
}

static void put_volume(struct wbuf *out, const struct view *v)
{
	const struct region whole = region_whole(&v->entry->shape);
	const uint64_t volume = region_volume(&v->entry->shape, &whole);
	jout_array(out, &volume, 1);
}

static void put_dcp(struct wbuf *out, const struct view *v)
{
	char fqn[NAME_TENSOR_MAX + sizeof(flat_suffix)];
	snprintf(fqn, sizeof(fqn), "%s%s", v->entry->name, v->region.kind == REGION_FLAT ? flat_suffix : "");
	jout_raw(out, ":{\"logical_fqn\":");
	jout_string(out, fqn);
	jout_raw(out, ",\"saved_offsets\":");
	put_offsets(out, v);
	jout_raw(out, ",\"global_shape\":");
	if (v->region.kind == REGION_FLAT)
		put_volume(out, v);
	else
		jout_array(out, v->entry->shape.dim, v->entry->shape.ndim);
	jout_raw(out, "}");
}

static void put_piece(struct wbuf *out, const struct view *v)
{
	jout_raw(out, ":{\"tensor\":");
	jout_string(out, v->entry->name);
	jout_raw(out, ",\"shape\":");
	jout_array(out, v->entry->shape.dim, v->entry->shape.ndim);
	if (v->region.kind == REGION_FLAT) {
		jout_raw(out, ",\"start\":");
		jout_u64(out, v->region.start);
	} else {
		jout_raw(out, ",\"offset\":");
		put_offsets(out, v);
	}
	if (v->entry->kind == ENTRY_TENSOR && v->entry->sized) /* a blob on its way out of a checkpoint */
		jout_raw(out, ",\"sized\":1");
	jout_raw(out, "}");
}

static void put_entry(struct wbuf *out, const struct view *v)
{
	const uint64_t offsets[] = {v->begin, v->end};
	jout_raw(out, ":{\"dtype\":");
	jout_string(out, dtype_name(v->entry->dtype));
	jout_raw(out, ",\"shape\":");
	if (v->region.kind == REGION_FLAT)
		jout_array(out, &v->region.count, 1);
	else
		jout_array(out, v->region.extent, v->entry->shape.ndim);
	jout_raw(out, ",\"data_offsets\":");
	jout_array(out, offsets, 2);
	jout_raw(out, "}");
}

/* {"name":…,"name":…} as a JSON string: values of __metadata__ are strings. */
static void put_metadata_map(struct wbuf *out, const char *open, const struct view *views, uint32_t n,
			     void (*put)(struct wbuf *, const struct view *))
{
	AUTO_WBUF struct wbuf text = {0};
	jout_raw(&text, open);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			jout_raw(&text, ",");
		put_name(&text, &views[i]);
		put(&text, &views[i]);
	}
	jout_raw(&text, "}");
	out->failed |= text.failed;
	jout_bytes(out, text.data, text.len);
}

/* Whether DCP's reader, which takes an entry's name for the tensor's, makes of these all that they are. It would pass over the rest
 * without a word. What is empty leaves no hole. */
static bool stand_alone(const struct view *views, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (views[i].begin < views[i].end && (views[i].number || views[i].region.kind == REGION_FLAT))
			return false;
	return true;
}

static void put_json(struct wbuf *out, const struct view *views, uint32_t n)
{
	jout_raw(out, "{\"__metadata__\":{\"format\":\"pt\",\"DCP_VERSION\":\"1.0\",\"DCP_SHARDING_INFO\":");
	put_metadata_map(out, stand_alone(views, n) ? READABLE : REFUSED, views, n, put_dcp);
	jout_raw(out, ",\"ckpt.version\":\"1\",\"ckpt.pieces\":");
	put_metadata_map(out, "{", views, n, put_piece);
	jout_raw(out, "}");
	for (uint32_t i = 0; i < n; i++) {
		jout_raw(out, ",");
		put_name(out, &views[i]);
		put_entry(out, &views[i]);
	}
	jout_raw(out, "}");
}

/* Spaces up to the next multiple of LAYOUT_ALIGN after `start`, then the length word there. */
static int pad(struct wbuf *out, size_t start)
{
	char spaces[LAYOUT_ALIGN];
	memset(spaces, ' ', sizeof(spaces));
	size_t len = out->len - start;
	wbuf_put(out, spaces, align_up(len, LAYOUT_ALIGN) - len);
	if (out->failed)
		return -ENOMEM;
	uint64_t json = out->len - start - sizeof(uint64_t);
	if (json > SAFETENSORS_HEADER_MAX)
		return -E2BIG;
	for (size_t i = 0; i < sizeof(json); i++)
		out->data[start + i] = (uint8_t)(json >> 8 * i);
	return 0;
}

/* A name stands once in an entry and four times in the metadata, which is escaped twice; a dimension at most five times. The rest
 * is punctuation, keys, suffixes of names and data_offsets. */
uint64_t safetensors_piece_max(const struct entry *entry)
{
	enum { FIXED = 400, NUMBER = 21 /* with its comma */ };
	uint64_t once = 0, twice = 0;
	for (const char *p = entry->name; *p; p++) {
		bool escaped = *p == '"' || *p == '\\';
		once += escaped ? 2 : 1;
		twice += escaped ? 4 : 1;
	}
	return FIXED + once + 4 * twice + 5 * NUMBER * (uint64_t)entry->shape.ndim;
}

int safetensors_header(const struct registration *reg, const struct layout *layout, uint32_t file, struct wbuf *out)
{
	const struct layout_file *f = &layout->files[file];
	struct view *views = calloc(f->npieces ? f->npieces : 1, sizeof(*views));
	if (!views)
		return -ENOMEM;
	size_t start = out->len;
	make_views(reg, layout->pieces + f->first_piece, f->npieces, views);
	wbuf_u64(out, 0);
	put_json(out, views, f->npieces);
	free(views);
	return pad(out, start);
}

int safetensors_notice(struct wbuf *out)
{
	size_t start = out->len;
	wbuf_u64(out, 0);
	jout_raw(out, "{\"__metadata__\":{\"format\":\"pt\",\"DCP_VERSION\":\"1.0\",\"DCP_SHARDING_INFO\":");
	jout_string(out,
		    REFUSED " Some files of this checkpoint are packed (.ckptz). Use: ckpt export --format dcp-hf");
	jout_raw(out, ",\"ckpt.version\":\"1\"}}");
	return pad(out, start);
}
