/* The parser of headers of any writer. */
#include "format/files/safetensors.h"

#include "format/document/json_in.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_WORD = 8, DTYPE_TEXT_MAX = 16 };

static const char document[] = "safetensors header";

int safetensors_header_size(const uint8_t word[8], uint64_t file_size, uint64_t *size, struct err *err)
{
	struct rbuf in = rbuf_of(word, LENGTH_WORD);
	uint64_t json = rbuf_u64(&in);
	if (file_size < LENGTH_WORD)
		return err_set(err, -EBADMSG, "%s: the file has %" PRIu64 " bytes: truncated?", document, file_size);
	if (json > SAFETENSORS_HEADER_MAX || json > file_size - LENGTH_WORD)
		return err_set(err, -EBADMSG,
			       "%s: of %" PRIu64 " bytes in a file of %" PRIu64 " (at most %d): truncated, or "
			       "not a safetensors file",
			       document, json, file_size, SAFETENSORS_HEADER_MAX);
	*size = LENGTH_WORD + json;
	return 0;
}

/* Any writer's name: not empty, no control characters; UTF-8 and the length were checked by the reader. */
static void check_name(struct jin *in, const char *name)
{
	if (!name[0])
		jin_fail(in, "a tensor without a name");
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			jin_fail(in, "a tensor's name has a control character");
}

static void read_metadata(struct jin *in)
{
	char key[JIN_KEY_MAX];
	jin_object(in);
	while (jin_any_member(in, key))
		jin_skip_string(in);
}

static enum dtype read_dtype(struct jin *in)
{
	char text[DTYPE_TEXT_MAX];
	jin_string(in, text, sizeof(text));
	int dtype = in->rc ? 0 : dtype_parse(text);
	if (dtype == -EOPNOTSUPP)
		jin_fail(in, "type \"%s\" has elements below a byte: not supported", text);
	else if (dtype < 0)
		jin_fail(in, "unknown type \"%s\"", text);
	return in->rc ? 0 : (enum dtype)dtype;
}

static void read_entry(struct jin *in, uint64_t data_size, struct safetensors_entry *e)
{
	enum { DTYPE, SHAPE, OFFSETS };
	static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
	uint64_t offsets[2] = {0}, volume = 0;
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == DTYPE)
			e->dtype = read_dtype(in);
		else if (k == SHAPE)
			e->shape.ndim = jin_u64_array(in, e->shape.dim, NDIM_MAX);
		else if (jin_u64_array(in, offsets, 2) != 2)
			jin_fail(in, "is not [begin, end]");
	jin_require(in, keys, seen, 1u << DTYPE | 1u << SHAPE | 1u << OFFSETS);
	if (in->rc)
		return;
	e->begin = offsets[0];
	e->end = offsets[1];
	if (shape_volume(&e->shape, &volume) < 0)
		jin_fail(in, "the shape's volume overflows");
	else if (e->begin > e->end || e->end > data_size)
		jin_fail(in, "data_offsets [%" PRIu64 ", %" PRIu64 "] outside of %" PRIu64 " bytes of data", e->begin,
			 e->end, data_size);
	else if (e->end - e->begin != volume * dtype_size(e->dtype))
		jin_fail(in, "data_offsets span %" PRIu64 " bytes, type and shape need %" PRIu64, e->end - e->begin,
			 volume * dtype_size(e->dtype));
}

static void add_entry(struct jin *in, const char *name, uint64_t data_size, struct safetensors *st)
{
	check_name(in, name);
	st->entries = jin_grow(in, st->entries, st->nentries, sizeof(*st->entries));
	if (in->rc)
		return;
	struct safetensors_entry *e = &st->entries[st->nentries];
	*e = (struct safetensors_entry){.name = strdup(name)};
	st->nentries++;
	if (!e->name)
		in->rc = err_set(in->err, -ENOMEM, "%s: no memory for a name", document);
	read_entry(in, data_size, e);
}

static void read_entries(struct jin *in, uint64_t data_size, struct safetensors *st)
{
	char key[JIN_KEY_MAX];
	bool metadata = false;
	if (in->len && in->text[0] != '{')
		jin_fail(in, "does not begin with '{'");
	jin_object(in);
	while (jin_any_member(in, key)) {
		if (strcmp(key, "__metadata__") != 0) {
			add_entry(in, key, data_size, st);
			continue;
		}
		if (metadata)
			jin_fail(in, "stands twice");
		metadata = true;
		read_metadata(in);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct safetensors_entry *)a)->name, ((const struct safetensors_entry *)b)->name);
}

static int by_place(const void *a, const void *b)
{
	const struct safetensors_entry *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Unique names; the data section is covered exactly once. */
static int check_entries(struct safetensors *st, uint64_t data_size, struct err *err)
{
	uint64_t at = 0;
	if (st->nentries)
		qsort(st->entries, st->nentries, sizeof(*st->entries), by_name);
	for (uint32_t i = 1; i < st->nentries; i++)
		if (!by_name(&st->entries[i - 1], &st->entries[i]))
			return err_set(err, -EBADMSG, "%s: \"%s\" stands twice", document, st->entries[i].name);
	if (st->nentries)
		qsort(st->entries, st->nentries, sizeof(*st->entries), by_place);
	for (uint32_t i = 0; i < st->nentries; at = st->entries[i++].end)
		if (st->entries[i].begin != at)
			return err_set(err, -EBADMSG,
				       "%s: \"%s\" begins at %" PRIu64 ", its predecessor ends at %" PRIu64 ": %s",
				       document, st->entries[i].name, st->entries[i].begin, at,
				       st->entries[i].begin > at ? "a hole" : "an overlap");
	if (at != data_size)
		return err_set(err, -EBADMSG, "%s: the entries end at %" PRIu64 ", the data at %" PRIu64, document, at,
			       data_size);
	return 0;
}

int safetensors_parse(const void *head, size_t len, uint64_t file_size, struct safetensors *st, struct err *err)
{
	*st = (struct safetensors){0};
	if (len < LENGTH_WORD)
		return err_set(err, -EBADMSG, "%s: %zu bytes: truncated?", document, len);
	uint64_t data_at = 0;
	int rc = safetensors_header_size(head, file_size, &data_at, err);
	if (rc < 0)
		return rc;
	if (data_at > len)
		return err_set(err, -EBADMSG, "%s: of %" PRIu64 " bytes, only %zu are here", document, data_at, len);
	struct jin in;
	jin_open(&in, (const char *)head + LENGTH_WORD, data_at - LENGTH_WORD, document, err);
	read_entries(&in, file_size - data_at, st);
	rc = jin_close(&in);
	if (!rc)
		rc = check_entries(st, file_size - data_at, err);
	if (rc < 0)
		safetensors_free(st);
	else
		st->data_at = data_at;
	return rc;
}

void safetensors_free(struct safetensors *st)
{
	for (uint32_t i = 0; i < st->nentries; i++)
		free(st->entries[i].name);
	free(st->entries);
	*st = (struct safetensors){0};
}
