/* make_safetensors FILE: writes a safetensors file as ckptd does, with every type, boxes, flat ranges, blobs, scalars and empty
 * tensors. Byte i of the data section is (i * 131 + 7) mod 256.
 * make_safetensors --parse FILE: prints what our parser makes of a file of any writer, as JSON. */
#include "format/document/json_out.h"
#include "format/files/safetensors.h"
#include "unit/format/one_file.h"

#include <stdio.h>
#include <string.h>

enum { TYPES = DTYPE_END - 1, MORE = 10, ENTRIES = TYPES + MORE };

static const struct shape matrix = {2, {4, 6}}, vector = {1, {1000}}, scalar = {0, {0}}, empty = {3, {4, 0, 6}},
			  blob = {1, {77}}, big = {2, {300, 1000}};

static struct region box(uint64_t o0, uint64_t o1, uint64_t e0, uint64_t e1)
{
	return (struct region){.kind = REGION_BOX, .offset = {o0, o1}, .extent = {e0, e1}};
}

static struct entry entry(const char *name, enum entry_kind kind, enum dtype dtype, struct shape shape,
			  struct region *pieces, uint32_t n)
{
	return (struct entry){.name = (char *)name,
			      .kind = kind,
			      .dtype = dtype,
			      .shape = shape,
			      .group = "all",
			      .npieces = n,
			      .pieces = pieces};
}

/* The layout's order is by element size, descending: so is this table within each part. */
static uint32_t fill(struct entry *e, struct region *type_pieces, char names[TYPES][32])
{
	static struct region many[5], flat[2], slice[1], one[1], none[2], whole_blob[1], large[1];
	uint32_t n = 0;
	for (int d = DTYPE_END - 1; d > 0; d--, n++) {
		snprintf(names[n], sizeof(names[n]), "type.%s", dtype_name((enum dtype)d));
		type_pieces[n] = region_whole(&matrix);
		e[n] = entry(names[n], ENTRY_TENSOR, (enum dtype)d, matrix, &type_pieces[n], 1);
	}
	many[0] = box(0, 0, 2, 6);
	many[1] = box(2, 0, 2, 3);
	many[2] = box(2, 3, 1, 3);
	many[3] = region_flat(21, 2);
	many[4] = region_flat(23, 1);
	flat[0] = region_flat(3, 17);
	flat[1] = region_flat(20, 4);
	slice[0] = region_flat(100, 250);
	one[0] = region_whole(&scalar);
	none[0] = region_whole(&empty);
	none[1] = region_flat(0, 0);
	whole_blob[0] = region_whole(&blob);
	large[0] = region_flat(0, 300000);
	e[n++] = entry("pieces", ENTRY_TENSOR, DTYPE_F32, matrix, many, 5);
	e[n++] = entry("zero/größe \"重み\"", ENTRY_TENSOR, DTYPE_F32, matrix, flat, 2);
	e[n++] = entry("vector", ENTRY_TENSOR, DTYPE_F32, vector, slice, 1);
	e[n++] = entry("scalar", ENTRY_TENSOR, DTYPE_F32, scalar, one, 1);
	e[n++] = entry("large", ENTRY_TENSOR, DTYPE_BF16, big, large, 1);
	e[n++] = entry("empty", ENTRY_TENSOR, DTYPE_BF16, empty, none, 1);
	e[n++] = entry("empty.flat", ENTRY_TENSOR, DTYPE_F8_E4M3, empty, none + 1, 1);
	e[n++] = entry("config", ENTRY_JOB_BLOB, DTYPE_U8, blob, whole_blob, 1);
	e[n++] = entry("rng@00000", ENTRY_RANK_BLOB, DTYPE_U8, blob, whole_blob, 1);
	e[n++] = entry("pieces#1", ENTRY_TENSOR, DTYPE_U8, blob, whole_blob, 1); /* the name of a piece is taken */
	return n;
}

static int write_file(const char *path)
{
	static struct entry entries[ENTRIES];
	static struct region type_pieces[TYPES];
	static char names[TYPES][32];
	struct one_file f;
	struct wbuf out = {0};
	one_file_make(&f, entries, fill(entries, type_pieces, names));
	int rc = safetensors_header(&f.reg, &f.layout, 0, &out);
	for (uint64_t i = 0; i < f.file.data_size; i++)
		wbuf_u8(&out, (uint8_t)(i * 131 + 7));
	one_file_free(&f);
	FILE *file = rc < 0 || out.failed ? NULL : fopen(path, "wb");
	bool good = file && fwrite(out.data, 1, out.len, file) == out.len;
	good = file && fclose(file) == 0 && good;
	wbuf_free(&out);
	if (!good)
		fprintf(stderr, "make_safetensors: cannot write %s\n", path);
	return good ? 0 : 1;
}

static void print(const struct safetensors *st)
{
	struct wbuf out = {0};
	jout_raw(&out, "{\"data_at\":");
	jout_u64(&out, st->data_at);
	jout_raw(&out, ",\"entries\":[");
	for (uint32_t i = 0; i < st->nentries; i++) {
		const struct safetensors_entry *e = &st->entries[i];
		const uint64_t range[] = {e->begin, e->end};
		jout_raw(&out, i ? ",[" : "[");
		jout_string(&out, e->name);
		jout_raw(&out, ",");
		jout_string(&out, dtype_name(e->dtype));
		jout_raw(&out, ",");
		jout_array(&out, e->shape.dim, e->shape.ndim);
		jout_raw(&out, ",");
		jout_array(&out, range, 2);
		jout_raw(&out, "]");
	}
	jout_raw(&out, "]}\n");
	fwrite(out.data, 1, out.len, stdout);
	wbuf_free(&out);
}

static int parse_file(const char *path)
{
	static uint8_t text[16 << 20];
	FILE *file = fopen(path, "rb");
	size_t len = file ? fread(text, 1, sizeof(text), file) : 0;
	struct safetensors st;
	struct err err;
	if (file)
		fclose(file);
	if (safetensors_parse(text, len, len, &st, &err) < 0) {
		fprintf(stderr, "make_safetensors: %s: %s\n", path, err.text);
		return 1;
	}
	print(&st);
	safetensors_free(&st);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--parse"))
		return parse_file(argv[2]);
	if (argc == 2)
		return write_file(argv[1]);
	fprintf(stderr, "usage: make_safetensors FILE | make_safetensors --parse FILE\n");
	return 2;
}
