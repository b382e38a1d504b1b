#include "change/export.h"

#include "format/files/safetensors.h"
#include "frame/filter.h"
#include "store/read/contents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the checkpoint, and the group of a file that holds a piece of it. */
struct tensor {
	const struct manifest_tensor *meta;
	const char *group;
};

static bool one_model(const struct export_wish *wish)
{
	return wish->form == EXPORT_HF || wish->form == EXPORT_DCP;
}

/* The tensors that are wished for and have a piece, in order of their names. */
static size_t choose(const struct contents *contents, const struct export_wish *wish, struct tensor *list)
{
	size_t n = 0;
	for (size_t i = 0; i < contents->n; i++) {
		const struct content *c = &contents->list[i];
		if (c->group && filter_names(wish->groups, c->group) && filter_matches(wish->globs, c->meta->name))
			list[n++] = (struct tensor){c->meta, c->group};
	}
	return n;
}

/* How many groups the tensors are of, for a remark: 0, 1, or 2 for several. */
static void count_groups(const struct tensor *list, size_t n, struct export_table *table)
{
	const char *first = NULL;
	for (size_t i = 0; i < n && table->groups < 2; i++) {
		if (list[i].meta->kind != ENTRY_TENSOR || (first && !strcmp(first, list[i].group)))
			continue;
		table->groups++;
		first = list[i].group;
	}
}

/* Everything is of one group; blobs have no place. */
static size_t make_model(struct tensor *list, size_t n, struct export_table *table)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (list[i].meta->kind == ENTRY_TENSOR)
			list[kept++] = (struct tensor){list[i].meta, "model"};
	table->blobs = n - kept;
	return kept;
}

static int list_tensors(const struct checkpoint *ck, struct export_table *table, struct tensor **list, size_t *n,
			struct err *err)
{
	struct contents contents;
	int rc = contents_make(ck, &contents, err);
	if (rc < 0)
		return rc;
	*list = calloc(contents.n + 1, sizeof(**list));
	if (*list)
		*n = choose(&contents, table->wish, *list);
	contents_free(&contents);
	if (!*list)
		return err_set(err, -ENOMEM, "no memory for a list of tensors");
	count_groups(*list, *n, table);
	if (one_model(table->wish))
		*n = make_model(*list, *n, table);
	return *n ? 0 : err_set(err, -ENOENT, "no tensor of the checkpoint is meant by --group and --tensor");
}

/* The rank of a rank blob "name@00007". */
static uint32_t blob_rank(const char *name)
{
	const char *at = strrchr(name, '@');
	return at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
}

/* What rank r of n holds: rows, balanced, of what has rows; else all on one rank. false: nothing. */
static bool share(const struct tensor *t, uint32_t r, uint32_t n, struct region *region)
{
	const struct shape *shape = &t->meta->shape;
	*region = region_whole(shape);
	if (t->meta->kind == ENTRY_RANK_BLOB)
		return blob_rank(t->meta->name) % n == r;
	if (t->meta->kind == ENTRY_JOB_BLOB || !shape->ndim || !region_volume(shape, region))
		return r == 0;
	unsigned __int128 rows = shape->dim[0];
	region->offset[0] = (uint64_t)(rows * r / n);
	region->extent[0] = (uint64_t)(rows * (r + 1) / n) - region->offset[0];
	return region->extent[0] > 0;
}

static int add_entry(struct registration *reg, const struct tensor *t, const struct region *region)
{
	struct entry *e = &reg->entries[reg->nentries];
	*e = (struct entry){.kind = ENTRY_TENSOR, .dtype = t->meta->dtype, .shape = t->meta->shape, .npieces = 1};
	e->sized = t->meta->sized;
	memcpy(e->group, t->group, strnlen(t->group, sizeof(e->group) - 1));
	e->name = strdup(t->meta->name);
	e->pieces = malloc(sizeof(*e->pieces));
	reg->nentries++;
	if (!e->name || !e->pieces)
		return -ENOMEM;
	e->pieces[0] = *region;
	return 0;
}

static int fill_rank(struct registration *reg, const struct tensor *list, size_t n, struct err *err)
{
	reg->entries = calloc(n + 1, sizeof(*reg->entries));
	int rc = reg->entries ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct region region;
		if (share(&list[i], reg->rank, reg->world, &region))
			rc = add_entry(reg, &list[i], &region);
	}
	if (rc < 0)
		return err_set(err, rc, "no memory for a table of %zu tensors", n);
	return registration_index(reg, err);
}

static int lay_out(struct export_table *table, struct err *err)
{
	const struct registration **regs = calloc(table->nranks, sizeof(*regs));
	table->layouts = calloc(table->nranks, sizeof(*table->layouts));
	int rc = regs && table->layouts ? 0 : err_set(err, -ENOMEM, "no memory to lay out %u ranks", table->nranks);
	for (uint32_t r = 0; rc == 0 && r < table->nranks; r++)
		regs[r] = &table->regs[r];
	if (rc == 0)
		rc = layout_make(regs, table->nranks, true, table->wish->file_max, table->layouts, err);
	free(regs);
	return rc;
}

static int count(struct export_table *table, struct err *err)
{
	for (uint32_t r = 0; r < table->nranks; r++)
		for (uint32_t f = 0; f < table->layouts[r].nfiles; f++) {
			AUTO_WBUF struct wbuf header = {0};
			int rc = safetensors_header(&table->regs[r], &table->layouts[r], f, &header);
			if (rc < 0)
				return err_set(err, rc, "cannot make the header of a file of %u tensors: %s",
					       table->layouts[r].files[f].npieces, err_name(rc));
			table->bytes += header.len + table->layouts[r].files[f].data_size;
			table->files++;
		}
	return 0;
}

int export_table_make(const struct checkpoint *ck, const struct export_wish *wish, struct export_table *table,
		      struct err *err)
{
	uint32_t world = wish->form == EXPORT_DCP && !wish->world ? ck->manifest.world : wish->world;
	*table = (struct export_table){.wish = wish, .nranks = world ? world : 1, .split = world > 0};
	struct tensor *list = NULL;
	size_t n = 0;
	int rc = list_tensors(ck, table, &list, &n, err);
	table->tensors = n;
	table->regs = calloc(table->nranks, sizeof(*table->regs));
	if (rc == 0 && !table->regs)
		rc = err_set(err, -ENOMEM, "no memory for %u ranks", table->nranks);
	for (uint32_t r = 0; rc == 0 && r < table->nranks; r++) {
		table->regs[r] = (struct registration){.rank = r, .world = table->nranks};
		rc = fill_rank(&table->regs[r], list, n, err);
	}
	free(list);
	if (rc == 0)
		rc = lay_out(table, err);
	if (rc == 0)
		rc = count(table, err);
	if (rc < 0)
		export_table_free(table);
	return rc;
}

void export_table_free(struct export_table *table)
{
	for (uint32_t r = 0; r < table->nranks; r++) {
		if (table->layouts)
			layout_free(&table->layouts[r]);
		if (table->regs)
			registration_free(&table->regs[r]);
	}
	free(table->layouts);
	free(table->regs);
	*table = (struct export_table){0};
}

void export_file_name(const struct export_table *table, uint32_t rank, uint32_t file, char dst[NAME_FILE_MAX])
{
	const struct layout *l = &table->layouts[rank];
	const struct layout_file *f = &l->files[file];
	uint32_t parts = 0;
	for (uint32_t i = 0; i < l->nfiles; i++)
		parts += !strcmp(l->files[i].group, f->group);
	if (table->wish->form == EXPORT_DCP)
		snprintf(dst, NAME_FILE_MAX, "shard-%05u-%s-%05u-of-%05u.safetensors", rank + 1, f->group, f->part + 1,
			 parts);
	else if (table->split)
		name_data(rank, table->nranks, f->group, f->part, dst);
	else if (parts == 1)
		snprintf(dst, NAME_FILE_MAX, "%s.safetensors", f->group);
	else
		snprintf(dst, NAME_FILE_MAX, "%s-%05u-of-%05u.safetensors", f->group, f->part + 1, parts);
}
