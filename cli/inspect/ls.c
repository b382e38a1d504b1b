/* ckpt ls: the tensors of one checkpoint, over all its nodes. */
#include "frame/output.h"
#include "frame/target.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One piece, or (file NULL) that a node knows the tensor. */
struct part {
	const struct manifest_tensor *tensor;
	const struct manifest_piece *piece;
	const struct manifest_file *file;
};

static int by_tensor(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = strcmp(x->tensor->name, y->tensor->name);
	if (order)
		return order;
	if (!x->file || !y->file)
		return (x->file != NULL) - (y->file != NULL);
	if (x->file->rank != y->file->rank)
		return x->file->rank < y->file->rank ? -1 : 1;
	return x->piece->at < y->piece->at ? -1 : x->piece->at > y->piece->at;
}

static size_t gather(const struct checkpoint *ck, struct part *parts)
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		const struct node_manifest *node = &ck->nodes[i];
		for (uint32_t t = 0; t < node->ntensors; t++, n++) {
			if (parts)
				parts[n] = (struct part){.tensor = &node->tensors[t]};
		}
		for (uint32_t f = 0; f < node->nfiles; f++) {
			const struct manifest_file *file = &node->files[f];
			for (uint32_t p = 0; p < file->npieces; p++, n++) {
				if (parts)
					parts[n] = (struct part){&node->tensors[file->pieces[p].tensor],
								 &file->pieces[p], file};
			}
		}
	}
	return n;
}

static const char *kind_name(enum entry_kind kind)
{
	return kind == ENTRY_TENSOR ? "tensor" : kind == ENTRY_JOB_BLOB ? "job-blob" : "rank-blob";
}

static uint64_t tensor_bytes(const struct manifest_tensor *t)
{
	uint64_t volume = 0;
	shape_volume(&t->shape, &volume);
	return volume * dtype_size(t->dtype);
}

/* ---- text */

static const struct column columns[] = {
	{"NAME", ALIGN_LEFT},  {"KIND", ALIGN_LEFT},   {"DTYPE", ALIGN_LEFT},
	{"SHAPE", ALIGN_LEFT}, {"BYTES", ALIGN_RIGHT}, {"PIECES", ALIGN_RIGHT},
};

static const struct column piece_columns[] = {
	{"NAME", ALIGN_LEFT}, {"REGION", ALIGN_LEFT}, {"BYTES", ALIGN_RIGHT}, {"FILE", ALIGN_LEFT}, {"AT", ALIGN_RIGHT},
};

static void add_tensor(struct table *table, const struct manifest_tensor *t, size_t pieces)
{
	char shape[256];
	table_cell(table, TONE_PLAIN, "%s", t->name);
	table_cell(table, TONE_DIM, "%s", kind_name(t->kind));
	table_cell(table, TONE_PLAIN, "%s", dtype_name(t->dtype));
	table_cell(table, TONE_PLAIN, "%s", shape_text(&t->shape, shape, sizeof(shape)));
	table_cell(table, TONE_PLAIN, "%" PRIu64, tensor_bytes(t));
	table_cell(table, TONE_PLAIN, "%zu", pieces);
}

static void add_piece(struct table *table, const struct part *part)
{
	char region[512];
	table_cell(table, TONE_PLAIN, "%s", part->tensor->name);
	table_cell(table, TONE_PLAIN, "%s",
		   region_text(&part->tensor->shape, &part->piece->region, region, sizeof(region)));
	table_cell(table, TONE_PLAIN, "%" PRIu64, part->piece->bytes);
	table_cell(table, TONE_PLAIN, "%s", part->file->name);
	table_cell(table, TONE_PLAIN, "%" PRIu64, part->file->data_at + part->piece->at);
}

/* ---- JSON */

static json_t *numbers(const uint64_t *values, uint32_t n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)values[i]));
	return list;
}

static json_t *piece_json(const struct part *part)
{
	const struct region *r = &part->piece->region;
	uint64_t from = part->file->data_at + part->piece->at;
	json_t *o =
		json_pack("{s:o, s:i, s:I, s:I}", "file", json_text(part->file->name), "rank", (int)part->file->rank,
			  "from", (json_int_t)from, "to", (json_int_t)(from + part->piece->bytes));
	if (r->kind == REGION_BOX) {
		json_object_set_new(o, "offset", numbers(r->offset, part->tensor->shape.ndim));
		json_object_set_new(o, "extent", numbers(r->extent, part->tensor->shape.ndim));
	} else {
		json_object_set_new(o, "start", json_integer((json_int_t)r->start));
		json_object_set_new(o, "count", json_integer((json_int_t)r->count));
	}
	return o;
}

static json_t *tensor_json(const struct part *parts, size_t n)
{
	const struct manifest_tensor *t = parts[0].tensor;
	json_t *pieces = json_array();
	for (size_t i = 0; i < n; i++) {
		if (parts[i].file)
			json_array_append_new(pieces, piece_json(&parts[i]));
	}
	return json_pack("{s:o, s:s, s:s, s:o, s:I, s:o}", "name", json_text(t->name), "kind", kind_name(t->kind),
			 "dtype", dtype_name(t->dtype), "shape", numbers(t->shape.dim, t->shape.ndim), "bytes",
			 (json_int_t)tensor_bytes(t), "pieces", pieces);
}

/* ---- */

static void print_one(struct table *table, const struct part *parts, size_t n, bool pieces)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (!parts[i].file)
			continue;
		count++;
		if (pieces)
			add_piece(table, &parts[i]);
	}
	if (!pieces)
		add_tensor(table, parts[0].tensor, count);
}

static void print(const struct cli *cli, const struct checkpoint *ck, const struct part *parts, size_t n)
{
	bool pieces = cli_flag(cli, "pieces");
	json_t *list = cli->json ? json_array() : NULL;
	struct table *table = cli->json ? NULL : pieces ? table_new(piece_columns, 5) : table_new(columns, 6);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !strcmp(parts[end].tensor->name, parts[i].tensor->name);)
			end++;
		if (list)
			json_array_append_new(list, tensor_json(parts + i, end - i));
		else
			print_one(table, parts + i, end - i, pieces);
	}
	if (!list) {
		table_print(table);
		return;
	}
	char name[NAME_DIR_MAX];
	json_t *doc = json_document(cli);
	name_dir(ck->ref.id, name);
	json_object_set_new(doc, "job", json_text(ck->ref.job));
	json_object_set_new(doc, "name", json_text(name));
	json_object_set_new(doc, "tensors", list);
	json_emit(doc);
}

static int run(struct cli *cli)
{
	struct checkpoint ck;
	int code = cli_open(cli, &ck);
	if (code)
		return code;
	size_t n = gather(&ck, NULL);
	AUTO_FREE struct part *parts = calloc(n + 1, sizeof(*parts));
	if (parts) {
		gather(&ck, parts);
		qsort(parts, n, sizeof(*parts), by_tensor);
		print(cli, &ck, parts, n);
	}
	checkpoint_close(&ck);
	return parts ? EXIT_OK : cli_fail(cli, EXIT_FAILED, "no memory for %zu pieces", n);
}

static const struct option_spec options[] = {
	{"pieces", OPTION_FLAG, NULL, "one line per piece: its region, file and place there (JSON always has them)"},
	{NULL},
};

const struct command command_ls = {
	.name = "ls",
	.summary = "list the tensors of one checkpoint",
	.detail = "STEP is a number (its newest epoch), \"1000.e0003\", or the directory's name. Without one: latest.",
	.args = "[STEP|latest]",
	.max_args = 1,
	.options = options,
	.run = run,
};
