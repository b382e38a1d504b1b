#include "format/files/safetensors_view.h"

#include "base/cleanup.h"
#include "format/document/json_in.h"

#include <string.h>

enum { LENGTH_WORD = 8 };

/* The value of one key of __metadata__, unescaped, into dst, which has room for the whole header. */
static bool read_metadata(struct jin *in, const char *wanted, char *dst, size_t size)
{
	char key[JIN_KEY_MAX];
	bool found = false;
	jin_object(in);
	while (jin_any_member(in, key)) {
		if (strcmp(key, "__metadata__") != 0) {
			jin_skip(in);
			continue;
		}
		jin_object(in);
		while (jin_any_member(in, key)) {
			if (strcmp(key, wanted) != 0) {
				jin_skip_string(in);
				continue;
			}
			jin_string(in, dst, size);
			found = true;
		}
	}
	return found;
}

static char *read_name(struct jin *in)
{
	char text[NAME_TENSOR_MAX];
	jin_string(in, text, sizeof(text));
	char *copy = in->rc ? NULL : strdup(text);
	if (!copy && !in->rc)
		in->rc = err_set(in->err, -ENOMEM, "no memory for a name");
	return copy;
}

static void read_piece(struct jin *in, struct safetensors_view *v)
{
	enum { TENSOR, SHAPE, OFFSET, START, SIZED };
	static const char *const keys[] = {"tensor", "shape", "offset", "start", "sized", NULL};
	uint32_t seen = 0;
	uint64_t volume;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;) {
		if (k == TENSOR)
			v->tensor = read_name(in);
		else if (k == SHAPE)
			v->shape.ndim = jin_u64_array(in, v->shape.dim, NDIM_MAX);
		else if (k == OFFSET)
			v->offset.ndim = jin_u64_array(in, v->offset.dim, NDIM_MAX);
		else if (k == START)
			v->start = jin_u64(in, INT64_MAX);
		else
			v->sized = jin_u64(in, 1);
	}
	jin_require(in, keys, seen, 1u << TENSOR | 1u << SHAPE);
	v->has_shape = true;
	v->flat = seen & 1u << START;
	if (!in->rc && v->flat == !!(seen & 1u << OFFSET))
		jin_fail(in, "either \"offset\" or \"start\" is wanted");
	if (!in->rc && shape_volume(&v->shape, &volume) < 0)
		jin_fail(in, "the shape's volume overflows");
}

static void read_sharding(struct jin *in, struct safetensors_view *v)
{
	enum { OFFSETS, FQN, SHAPE };
	static const char *const keys[] = {"saved_offsets", "logical_fqn", "global_shape", NULL};
	uint32_t seen = 0;
	uint64_t volume;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;) {
		if (k == OFFSETS)
			v->offset.ndim = jin_u64_array(in, v->offset.dim, NDIM_MAX);
		else if (k == SHAPE)
			v->shape.ndim = jin_u64_array(in, v->shape.dim, NDIM_MAX);
		else
			v->tensor = read_name(in);
	}
	jin_require(in, keys, seen, 1u << OFFSETS);
	v->has_shape = seen & 1u << SHAPE;
	if (!in->rc && v->has_shape && shape_volume(&v->shape, &volume) < 0)
		jin_fail(in, "the shape's volume overflows");
	if (!in->rc && !v->tensor)
		v->tensor = strdup(v->name);
	if (!in->rc && !v->tensor)
		in->rc = err_set(in->err, -ENOMEM, "no memory for a name");
}

static void read_views(struct jin *in, bool ours, struct safetensors_views *views)
{
	char key[JIN_KEY_MAX];
	jin_object(in);
	while (jin_any_member(in, key)) {
		views->list = jin_grow(in, views->list, views->n, sizeof(*views->list));
		if (in->rc)
			return;
		struct safetensors_view *v = &views->list[views->n++];
		*v = (struct safetensors_view){.name = strdup(key)};
		if (!v->name)
			in->rc = err_set(in->err, -ENOMEM, "no memory for a name");
		else if (ours)
			read_piece(in, v);
		else
			read_sharding(in, v);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct safetensors_view *)a)->name, ((const struct safetensors_view *)b)->name);
}

static int check_unique(struct safetensors_views *views, const char *document, struct err *err)
{
	if (views->n)
		qsort(views->list, views->n, sizeof(*views->list), by_name);
	for (uint32_t i = 1; i < views->n; i++)
		if (!by_name(&views->list[i - 1], &views->list[i]))
			return err_set(err, -EBADMSG, "%s: \"%s\" stands twice", document, views->list[i].name);
	return 0;
}

int safetensors_views_read(const void *head, size_t len, struct safetensors_views *views, struct err *err)
{
	static const char *const documents[] = {"ckpt.pieces", "DCP_SHARDING_INFO"};
	AUTO_FREE char *text = malloc(len + 1);
	*views = (struct safetensors_views){0};
	if (!text)
		return err_set(err, -ENOMEM, "no memory for metadata of %zu bytes", len);
	for (int i = 0; i < 2 && len > LENGTH_WORD; i++) {
		struct jin in;
		jin_open(&in, (const char *)head + LENGTH_WORD, len - LENGTH_WORD, "safetensors header", err);
		bool found = read_metadata(&in, documents[i], text, len);
		if (in.rc)
			return in.rc;
		if (!found)
			continue;
		jin_open(&in, text, strlen(text), documents[i], err);
		read_views(&in, i == 0, views);
		int rc = jin_close(&in);
		if (!rc)
			rc = check_unique(views, documents[i], err);
		if (rc < 0)
			safetensors_views_free(views);
		return rc;
	}
	return 0;
}

void safetensors_views_free(struct safetensors_views *views)
{
	for (uint32_t i = 0; i < views->n; i++) {
		free(views->list[i].name);
		free(views->list[i].tensor);
	}
	free(views->list);
	*views = (struct safetensors_views){0};
}

const struct safetensors_view *safetensors_view_find(const struct safetensors_views *views, const char *name)
{
	struct safetensors_view key = {.name = (char *)name};
	return views->n ? bsearch(&key, views->list, views->n, sizeof(key), by_name) : NULL;
}
