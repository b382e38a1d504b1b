#include "change/import.h"

#include "base/cleanup.h"
#include "format/arena/sized_blob.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An entry of a file, as part of a tensor. */
struct part {
	const char *tensor;
	enum dtype dtype;
	struct shape shape; /* of the tensor: known, or so far as this part reaches */
	bool known, sized;
	struct region region;
	uint32_t file;
	uint64_t at;
};

static bool extend(const struct shape *offset, const struct shape *extent, struct shape *reach)
{
	*reach = *extent;
	for (uint32_t d = 0; d < extent->ndim; d++)
		if (__builtin_add_overflow(offset->dim[d], extent->dim[d], &reach->dim[d]) || reach->dim[d] > INT64_MAX)
			return false;
	return true;
}

static int make_box(const struct import_file *f, const struct safetensors_entry *e, const struct safetensors_view *v,
		    struct part *part, struct err *err)
{
	if (v->offset.ndim != e->shape.ndim)
		return err_set(err, -EBADMSG, "%s: %s has %u dimensions and %u offsets", f->name, e->name,
			       e->shape.ndim, v->offset.ndim);
	if (!v->has_shape && !extend(&v->offset, &e->shape, &part->shape))
		return err_set(err, -EBADMSG, "%s: the offsets of %s overflow", f->name, e->name);
	part->region = region_whole(&e->shape);
	memcpy(part->region.offset, v->offset.dim, sizeof(part->region.offset));
	for (uint32_t d = e->shape.ndim; d < NDIM_MAX; d++)
		part->region.offset[d] = 0;
	return 0;
}

static int make_part(const struct import_files *files, uint32_t file, const struct safetensors_entry *e,
		     struct part *part, struct err *err)
{
	const struct import_file *f = &files->list[file];
	const struct safetensors_view *v = safetensors_view_find(&f->views, e->name);
	int rc = 0;
	*part = (struct part){.tensor = v ? v->tensor : e->name,
			      .dtype = e->dtype,
			      .shape = v && v->has_shape ? v->shape : e->shape,
			      .known = !v || v->has_shape,
			      .sized = v && v->sized,
			      .file = file,
			      .at = e->begin};
	if (name_check_tensor(part->tensor, err) < 0)
		return err_prefix(err, -EBADMSG, "%s", f->name);
	if (!v)
		part->region = region_whole(&e->shape);
	else if (v->flat && (e->shape.ndim != 1 || !v->has_shape))
		rc = err_set(err, -EBADMSG, "%s: %s is called a range, but is no vector", f->name, e->name);
	else if (v->flat)
		part->region = region_flat(v->start, e->shape.dim[0]);
	else
		rc = make_box(f, e, v, part, err);
	return rc;
}

static int by_tensor(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->tensor, y->tensor);
	if (order)
		return order;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int list_parts(const struct import_files *files, enum import_format format, struct part **out, size_t *n,
		      struct err *err)
{
	size_t total = 0;
	int rc = 0;
	for (uint32_t f = 0; f < files->n; f++)
		total += files->list[f].st.nentries;
	*n = 0;
	*out = calloc(total + 1, sizeof(**out));
	if (!*out)
		return err_set(err, -ENOMEM, "no memory for %zu tensors", total);
	for (uint32_t f = 0; f < files->n; f++) {
		const struct import_file *file = &files->list[f];
		if (format == IMPORT_DCP && !file->views.n && file->st.nentries)
			return err_set(err, -EBADMSG, "%s has no DCP_SHARDING_INFO: is it of --format hf?", file->name);
		for (uint32_t e = 0; e < file->st.nentries && !rc; e++)
			rc = make_part(files, f, &file->st.entries[e], &(*out)[(*n)++], err);
	}
	if (!rc && !*n)
		rc = err_set(err, -ENOENT, "the files hold no tensors");
	if (!rc)
		qsort(*out, *n, sizeof(**out), by_tensor);
	return rc;
}

/* ---- tensors */

/* What changes its size is saved as a vector of bytes behind their number. */
static int check_sized(const struct import_files *files, const struct part *parts, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct region whole = region_whole(&parts[i].shape);
		if (!parts[i].sized && !parts[0].sized)
			continue;
		if (n > 1 || parts[i].dtype != DTYPE_U8 || parts[i].shape.ndim != 1 ||
		    parts[i].shape.dim[0] <= SIZED_HEAD || !region_equal(&parts[i].shape, &parts[i].region, &whole))
			return err_set(err, -EBADMSG,
				       "%s: %s is called a blob of changing size, but is no whole vector of "
				       "U8 of more than %d bytes",
				       files->list[parts[i].file].name, parts[i].tensor, SIZED_HEAD);
	}
	return 0;
}

/* The parts of one tensor agree about it; an unknown shape is as far as its parts reach. */
static int agree(const struct import_files *files, struct part *parts, size_t n, struct err *err)
{
	struct shape shape = parts[0].shape;
	for (size_t i = 1; i < n; i++) {
		const char *a = files->list[parts[0].file].name, *b = files->list[parts[i].file].name;
		if (parts[i].dtype != parts[0].dtype || parts[i].shape.ndim != shape.ndim ||
		    parts[i].known != parts[0].known || (parts[0].known && !shape_equal(&parts[i].shape, &shape)))
			return err_set(err, -EINVAL, "%s has another type or shape in %s than in %s", parts[0].tensor,
				       a, b);
		for (uint32_t d = 0; d < shape.ndim; d++)
			shape.dim[d] = max_u64(shape.dim[d], parts[i].shape.dim[d]);
	}
	uint64_t volume;
	if (shape_volume(&shape, &volume) < 0)
		return err_set(err, -EBADMSG, "%s: its volume overflows", parts[0].tensor);
	for (size_t i = 0; i < n; i++) {
		parts[i].shape = shape;
		int rc = region_check(&shape, &parts[i].region, err);
		if (rc < 0)
			return err_prefix(err, -EBADMSG, "%s: %s", files->list[parts[i].file].name, parts[i].tensor);
	}
	return check_sized(files, parts, n, err);
}

static int add_entry(const struct import_files *files, const struct part *parts, size_t n, struct import_table *table)
{
	uint32_t index = table->reg.nentries++;
	struct entry *e = &table->reg.entries[index];
	*e = (struct entry){.kind = parts[0].sized ? ENTRY_JOB_BLOB : ENTRY_TENSOR,
			    .sized = parts[0].sized,
			    .dtype = parts[0].dtype,
			    .shape = parts[0].shape};
	e->name = strdup(parts[0].tensor);
	e->pieces = calloc(n, sizeof(*e->pieces));
	table->places[index] = calloc(n, sizeof(**table->places));
	if (!e->name || !e->pieces || !table->places[index])
		return -ENOMEM;
	memcpy(e->group, files->list[parts[0].file].group, sizeof(e->group));
	for (; e->npieces < n; e->npieces++) {
		e->pieces[e->npieces] = parts[e->npieces].region;
		table->places[index][e->npieces] = (struct import_place){parts[e->npieces].file, parts[e->npieces].at};
		table->bytes += region_volume(&e->shape, &parts[e->npieces].region) * dtype_size(e->dtype);
	}
	return 0;
}

/* A vector of bytes called "name@00007" is what rank 7 of a job had for itself: the world must have that rank, or the job would not
 * look for it. */
static uint32_t know_rank_blobs(struct registration *reg)
{
	uint32_t world = 1;
	for (uint32_t i = 0; i < reg->nentries; i++) {
		struct entry *e = &reg->entries[i];
		const char *at = strrchr(e->name, '@');
		struct region whole = region_whole(&e->shape);
		if (!at || at == e->name || strlen(at) != 6 || strspn(at + 1, "0123456789") != 5 ||
		    e->dtype != DTYPE_U8 || e->shape.ndim != 1 || e->npieces != 1 ||
		    !region_equal(&e->shape, &e->pieces[0], &whole))
			continue;
		uint32_t rank = (uint32_t)strtoul(at + 1, NULL, 10);
		if (rank >= RANK_MAX)
			continue;
		e->kind = ENTRY_RANK_BLOB;
		world = rank + 1 > world ? rank + 1 : world;
	}
	return world;
}

static int fill(const struct import_files *files, struct part *parts, size_t n, struct import_table *table,
		struct err *err)
{
	table->reg = (struct registration){.rank = 0, .world = 1};
	table->reg.entries = calloc(n, sizeof(*table->reg.entries));
	table->places = calloc(n, sizeof(*table->places));
	if (!table->reg.entries || !table->places)
		return err_set(err, -ENOMEM, "no memory for %zu tensors", n);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !strcmp(parts[end].tensor, parts[i].tensor);)
			end++;
		int rc = agree(files, parts + i, end - i, err);
		if (rc < 0)
			return rc;
		if (add_entry(files, parts + i, end - i, table) < 0)
			return err_set(err, -ENOMEM, "no memory for %s", parts[i].tensor);
	}
	table->world = know_rank_blobs(&table->reg);
	return registration_index(&table->reg, err);
}

int import_table_make(const struct import_files *files, enum import_format format, struct import_table *table,
		      struct err *err)
{
	AUTO_FREE struct part *parts = NULL;
	size_t n;
	*table = (struct import_table){0};
	int rc = list_parts(files, format, &parts, &n, err);
	if (!rc)
		rc = fill(files, parts, n, table, err);
	if (rc < 0)
		import_table_free(table);
	return rc;
}

void import_table_free(struct import_table *table)
{
	for (uint32_t i = 0; table->places && i < table->reg.nentries; i++)
		free(table->places[i]);
	free(table->places);
	registration_free(&table->reg);
	*table = (struct import_table){0};
}
