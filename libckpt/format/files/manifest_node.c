/* node-<name>.json, written. */
#include "format/document/doc.h"
#include "format/files/manifest.h"
#include "format/files/manifest_private.h"

#include <stdlib.h>

static void put_key_string(struct wbuf *out, const char *key, const char *value)
{
	jout_raw(out, key);
	jout_string(out, value);
}

static void put_key_u64(struct wbuf *out, const char *key, uint64_t value)
{
	jout_raw(out, key);
	jout_u64(out, value);
}

static void put_tensor(struct wbuf *out, const struct manifest_tensor *t)
{
	put_key_string(out, "{\"name\":", t->name);
	put_key_string(out, ",\"kind\":", manifest_kinds[t->kind]);
	if (t->sized)
		put_key_u64(out, ",\"sized\":", 1);
	put_key_string(out, ",\"dtype\":", dtype_name(t->dtype));
	jout_raw(out, ",\"shape\":");
	jout_array(out, t->shape.dim, t->shape.ndim);
	jout_raw(out, "}");
}

static void put_piece(struct wbuf *out, const struct shape *shape, const struct manifest_piece *p)
{
	put_key_u64(out, "{\"t\":", p->tensor);
	if (p->region.kind == REGION_FLAT) {
		put_key_u64(out, ",\"s\":", p->region.start);
		put_key_u64(out, ",\"n\":", p->region.count);
	} else {
		jout_raw(out, ",\"o\":");
		jout_array(out, p->region.offset, shape->ndim);
		jout_raw(out, ",\"e\":");
		jout_array(out, p->region.extent, shape->ndim);
	}
	jout_raw(out, "}");
}

static void put_packed(struct wbuf *out, const struct manifest_packed *packed)
{
	char hex[DIGEST_TEXT];
	digest_text(packed->index, hex);
	put_key_u64(out, ",\"packed\":{\"size\":", packed->size);
	put_key_u64(out, ",\"index\":", packed->index_size);
	put_key_string(out, ",\"digest\":", hex);
	jout_raw(out, "}");
}

static void put_file(struct wbuf *out, const struct manifest_tensor *tensors, const struct manifest_file *f)
{
	char hex[DIGEST_TEXT];
	digest_text(f->sidecar, hex);
	put_key_string(out, "{\"name\":", f->name);
	put_key_u64(out, ",\"rank\":", f->rank);
	put_key_string(out, ",\"group\":", f->group);
	put_key_u64(out, ",\"part\":", f->part);
	put_key_u64(out, ",\"size\":", f->size);
	put_key_u64(out, ",\"data_at\":", f->data_at);
	if (f->packed.index_size)
		put_packed(out, &f->packed);
	put_key_string(out, ",\"sidecar\":{\"name\":", f->sidecar_name);
	put_key_u64(out, ",\"size\":", f->sidecar_size);
	put_key_string(out, ",\"digest\":", hex);
	jout_raw(out, "},\"pieces\":[");
	for (uint32_t i = 0; i < f->npieces; i++) {
		if (i)
			jout_raw(out, ",");
		put_piece(out, &tensors[f->pieces[i].tensor].shape, &f->pieces[i]);
	}
	jout_raw(out, "]}");
}

int node_manifest_encode(const struct node_manifest *m, struct wbuf *out)
{
	doc_put(out, NODE_FORMAT, MANIFEST_VERSION, m->job, m->id);
	put_key_u64(out, ",\"world\":", m->world);
	put_key_string(out, ",\"node\":", m->node);
	if (m->began)
		put_key_u64(out, ",\"began\":", m->began);
	jout_raw(out, ",\"tensors\":[");
	for (uint32_t i = 0; i < m->ntensors; i++) {
		if (i)
			jout_raw(out, ",");
		put_tensor(out, &m->tensors[i]);
	}
	jout_raw(out, "],\"files\":[");
	for (uint32_t i = 0; i < m->nfiles; i++) {
		if (i)
			jout_raw(out, ",");
		put_file(out, m->tensors, &m->files[i]);
	}
	jout_raw(out, "]");
	seal_append(out);
	if (out->len > NODE_MANIFEST_BYTES_MAX)
		return -E2BIG;
	return wbuf_finish(out);
}

void node_manifest_free(struct node_manifest *m)
{
	for (uint32_t i = 0; i < m->ntensors; i++)
		free(m->tensors[i].name);
	for (uint32_t i = 0; i < m->nfiles; i++)
		free(m->files[i].pieces);
	free(m->tensors);
	free(m->files);
	*m = (struct node_manifest){0};
}
