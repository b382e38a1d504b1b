/* ckpt ls: the tensors of one checkpoint, over all its nodes. */
#include "frame/output.h"
#include "frame/target.h"

#include "store/read/contents.h"

#include <inttypes.h>

static const char *kind_name(enum entry_kind kind)
{
	return kind == ENTRY_TENSOR ? "tensor" : kind == ENTRY_JOB_BLOB ? "job-blob" : "rank-blob";
}

/* ---- text */

static const struct column columns[] = {
	{"NAME", ALIGN_LEFT},  {"KIND", ALIGN_LEFT},   {"DTYPE", ALIGN_LEFT},
	{"SHAPE", ALIGN_LEFT}, {"BYTES", ALIGN_RIGHT}, {"PIECES", ALIGN_RIGHT},
};

static const struct column piece_columns[] = {
	{"NAME", ALIGN_LEFT}, {"REGION", ALIGN_LEFT}, {"BYTES", ALIGN_RIGHT}, {"FILE", ALIGN_LEFT}, {"AT", ALIGN_RIGHT},
};

static void add_tensor(struct table *table, const struct content *c)
{
	char shape[256];
	table_cell(table, TONE_PLAIN, "%s", c->meta->name);
	table_cell(table, TONE_DIM, "%s", kind_name(c->meta->kind));
	table_cell(table, TONE_PLAIN, "%s", dtype_name(c->meta->dtype));
	table_cell(table, TONE_PLAIN, "%s", shape_text(&c->meta->shape, shape, sizeof(shape)));
	table_cell(table, TONE_PLAIN, "%" PRIu64, content_bytes(c));
	table_cell(table, TONE_PLAIN, "%zu", c->npieces);
}

static void add_piece(struct table *table, const struct content *c, const struct content_piece *p)
{
	char region[512];
	table_cell(table, TONE_PLAIN, "%s", c->meta->name);
	table_cell(table, TONE_PLAIN, "%s", region_text(&c->meta->shape, &p->piece->region, region, sizeof(region)));
	table_cell(table, TONE_PLAIN, "%" PRIu64, p->piece->bytes);
	table_cell(table, TONE_PLAIN, "%s", p->file->name);
	table_cell(table, TONE_PLAIN, "%" PRIu64, p->file->data_at + p->piece->at);
}

/* ---- JSON */

static json_t *numbers(const uint64_t *values, uint32_t n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)values[i]));
	return list;
}

static json_t *piece_json(const struct content *c, const struct content_piece *p)
{
	const struct region *r = &p->piece->region;
	uint64_t from = p->file->data_at + p->piece->at;
	json_t *o = json_pack("{s:o, s:i, s:I, s:I}", "file", json_text(p->file->name), "rank", (int)p->file->rank,
			      "from", (json_int_t)from, "to", (json_int_t)(from + p->piece->bytes));
	if (r->kind == REGION_BOX) {
		json_object_set_new(o, "offset", numbers(r->offset, c->meta->shape.ndim));
		json_object_set_new(o, "extent", numbers(r->extent, c->meta->shape.ndim));
	} else {
		json_object_set_new(o, "start", json_integer((json_int_t)r->start));
		json_object_set_new(o, "count", json_integer((json_int_t)r->count));
	}
	return o;
}

static json_t *tensor_json(const struct content *c)
{
	json_t *pieces = json_array();
	for (size_t i = 0; i < c->npieces; i++)
		json_array_append_new(pieces, piece_json(c, &c->pieces[i]));
	return json_pack("{s:o, s:s, s:b, s:s, s:o, s:I, s:o}", "name", json_text(c->meta->name), "kind",
			 kind_name(c->meta->kind), "sized", (int)c->meta->sized, "dtype", dtype_name(c->meta->dtype),
			 "shape", numbers(c->meta->shape.dim, c->meta->shape.ndim), "bytes",
			 (json_int_t)content_bytes(c), "pieces", pieces);
}

static void print_json(const struct cli *cli, const struct checkpoint *ck, const struct contents *contents)
{
	char name[NAME_DIR_MAX];
	json_t *doc = json_document(cli), *list = json_array();
	for (size_t i = 0; i < contents->n; i++)
		json_array_append_new(list, tensor_json(&contents->list[i]));
	name_dir(ck->ref.id, name);
	json_object_set_new(doc, "job", json_text(ck->ref.job));
	json_object_set_new(doc, "name", json_text(name));
	json_object_set_new(doc, "tensors", list);
	json_emit(doc);
}

/* ---- */

static void print(const struct cli *cli, const struct contents *contents)
{
	bool pieces = cli_flag(cli, "pieces");
	struct table *table = pieces ? table_new(piece_columns, 5) : table_new(columns, 6);
	for (size_t i = 0; i < contents->n; i++) {
		const struct content *c = &contents->list[i];
		if (!pieces)
			add_tensor(table, c);
		for (size_t p = 0; pieces && p < c->npieces; p++)
			add_piece(table, c, &c->pieces[p]);
	}
	table_print(table);
}

static int run(struct cli *cli)
{
	struct checkpoint ck;
	struct contents contents;
	struct err err = {0};
	int code = cli_open(cli, &ck);
	if (code)
		return code;
	int rc = contents_make(&ck, &contents, &err);
	if (!rc && cli->json)
		print_json(cli, &ck, &contents);
	else if (!rc)
		print(cli, &contents);
	contents_free(&contents);
	checkpoint_close(&ck);
	return rc ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : EXIT_OK;
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
