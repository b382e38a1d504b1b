/* ckpt diff: what has changed between two checkpoints. */
#include "inspect/diff.h"

#include "base/cleanup.h"
#include "frame/filter.h"
#include "frame/output.h"
#include "frame/progress.h"
#include "frame/target.h"

#include <inttypes.h>
#include <string.h>

struct totals {
	uint64_t same, changed, added, removed, retyped;
};

static struct totals count(const struct diff *d)
{
	struct totals n = {0};
	for (uint32_t i = 0; i < d->ntensors; i++) {
		switch (d->tensors[i].state) {
		case DIFF_SAME:
			n.same++;
			break;
		case DIFF_CHANGED:
			n.changed++;
			break;
		case DIFF_ADDED:
			n.added++;
			break;
		case DIFF_REMOVED:
			n.removed++;
			break;
		case DIFF_RETYPED:
			n.retyped++;
		}
	}
	return n;
}

static bool differ(const struct totals *n)
{
	return n->changed || n->added || n->removed || n->retyped;
}

static const struct manifest_tensor *meta_of(const struct diff_tensor *t)
{
	return t->b ? t->b : t->a;
}

/* Bytes of blobs are no numbers. */
static bool numeric(const struct diff_tensor *t)
{
	return t->state == DIFF_CHANGED && t->a->kind == ENTRY_TENSOR;
}

static void coordinates(const struct shape *shape, uint64_t index, uint64_t at[NDIM_MAX])
{
	for (uint32_t d = shape->ndim; d-- > 0; index /= shape->dim[d])
		at[d] = index % shape->dim[d];
}

/* ---- text */

static const struct column columns[] = {
	{"STATE", ALIGN_LEFT},    {"TENSOR", ALIGN_LEFT},   {"DTYPE", ALIGN_LEFT}, {"SHAPE", ALIGN_LEFT},
	{"CHANGED", ALIGN_RIGHT}, {"MAX ABS", ALIGN_RIGHT}, {"AT", ALIGN_LEFT},    {"MAX REL", ALIGN_RIGHT},
	{"NAN", ALIGN_RIGHT},     {"INF", ALIGN_RIGHT},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static char *place_text(const struct shape *shape, uint64_t index, char *dst, size_t size)
{
	struct shape place = {.ndim = shape->ndim};
	coordinates(shape, index, place.dim);
	return shape_text(&place, dst, size);
}

static void add_extreme(struct table *t, const struct extreme *e)
{
	if (e->known)
		table_cell(t, TONE_PLAIN, "%.6g", e->value);
	else
		table_cell(t, TONE_DIM, "-");
}

static void add_odd(struct table *t, bool known, uint64_t a, uint64_t b)
{
	if (known)
		table_cell(t, b > a ? TONE_BAD : TONE_PLAIN, "%" PRIu64 " > %" PRIu64, a, b);
	else
		table_cell(t, TONE_DIM, "-");
}

static void add_row(struct table *table, const struct diff_tensor *t)
{
	char text[256];
	const struct difference *d = &t->difference;
	const struct manifest_tensor *meta = meta_of(t);
	table_cell(table, t->state == DIFF_CHANGED ? TONE_WARN : TONE_HEAD, "%s", diff_state_name(t->state));
	table_cell(table, TONE_PLAIN, "%s", meta->name);
	table_cell(table, TONE_PLAIN, "%s", dtype_name(meta->dtype));
	table_cell(table, TONE_PLAIN, "%s", shape_text(&meta->shape, text, sizeof(text)));
	if (t->state == DIFF_CHANGED)
		table_cell(table, TONE_PLAIN, "%" PRIu64, d->elements);
	else
		table_cell(table, TONE_DIM, "-");
	struct difference none = {0};
	const struct difference *shown = numeric(t) ? d : &none;
	add_extreme(table, &shown->abs);
	if (t->state == DIFF_CHANGED)
		table_cell(table, TONE_PLAIN, "%s",
			   place_text(&meta->shape, shown->abs.known ? shown->abs.at : d->first, text, sizeof(text)));
	else
		table_cell(table, TONE_DIM, "-");
	add_extreme(table, &shown->rel);
	add_odd(table, shown->nan_a || shown->nan_b, shown->nan_a, shown->nan_b);
	add_odd(table, shown->inf_a || shown->inf_b, shown->inf_a, shown->inf_b);
}

static void print(const struct cli *cli, const struct diff *d, const struct totals *n)
{
	char read[16], all[16];
	if (!cli_flag(cli, "summary") && differ(n)) {
		struct table *table = table_new(columns, COLUMNS);
		for (uint32_t i = 0; i < d->ntensors; i++)
			if (d->tensors[i].state != DIFF_SAME)
				add_row(table, &d->tensors[i]);
		table_print(table);
	}
	out(TONE_PLAIN,
	    "%" PRIu64 " changed, %" PRIu64 " added, %" PRIu64 " removed, %" PRIu64 " retyped, %" PRIu64
	    " unchanged; %s of %s read\n",
	    n->changed, n->added, n->removed, n->retyped, n->same, bytes_human(read, sizeof(read), d->read),
	    bytes_human(all, sizeof(all), 2 * d->total));
}

/* ---- JSON */

static json_t *numbers(const uint64_t *values, uint32_t n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)values[i]));
	return list;
}

static json_t *place_json(const struct shape *shape, uint64_t index)
{
	uint64_t at[NDIM_MAX];
	coordinates(shape, index, at);
	return numbers(at, shape->ndim);
}

static json_t *extreme_json(const struct shape *shape, const struct extreme *e)
{
	if (!e->known)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:o}", "value", e->value, "a", e->a, "b", e->b, "at",
			 place_json(shape, e->at));
}

static json_t *tensor_json(const struct diff_tensor *t)
{
	const struct manifest_tensor *meta = meta_of(t);
	const struct difference *d = &t->difference;
	json_t *o = json_pack("{s:o, s:s, s:s, s:o}", "name", json_text(meta->name), "state", diff_state_name(t->state),
			      "dtype", dtype_name(meta->dtype), "shape", numbers(meta->shape.dim, meta->shape.ndim));
	if (t->state != DIFF_CHANGED)
		return o;
	json_object_set_new(o, "elements", json_integer((json_int_t)d->elements));
	json_object_set_new(o, "first", place_json(&meta->shape, d->first));
	if (!numeric(t))
		return o;
	json_object_set_new(o, "max_abs", extreme_json(&meta->shape, &d->abs));
	json_object_set_new(o, "max_rel", extreme_json(&meta->shape, &d->rel));
	json_object_set_new(o, "nan", json_pack("{s:I, s:I}", "a", (json_int_t)d->nan_a, "b", (json_int_t)d->nan_b));
	json_object_set_new(o, "inf", json_pack("{s:I, s:I}", "a", (json_int_t)d->inf_a, "b", (json_int_t)d->inf_b));
	json_object_set_new(o, "first_odd", d->odd ? place_json(&meta->shape, d->odd_at) : json_null());
	return o;
}

static json_t *side_json(const struct checkpoint *ck)
{
	char name[NAME_DIR_MAX];
	name_dir(ck->ref.id, name);
	return json_pack("{s:I, s:I, s:s}", "step", (json_int_t)ck->ref.id.step, "epoch", (json_int_t)ck->ref.id.epoch,
			 "name", name);
}

static void emit(const struct cli *cli, const struct diff *d, const struct totals *n)
{
	json_t *doc = json_document(cli), *list = json_array();
	for (uint32_t i = 0; i < d->ntensors && !cli_flag(cli, "summary"); i++)
		if (d->tensors[i].state != DIFF_SAME)
			json_array_append_new(list, tensor_json(&d->tensors[i]));
	json_object_set_new(doc, "job", json_text(d->a->ref.job));
	json_object_set_new(doc, "a", side_json(d->a));
	json_object_set_new(doc, "b", side_json(d->b));
	json_object_set_new(doc, "different", json_boolean(differ(n)));
	json_object_set_new(doc, "changed", json_integer((json_int_t)n->changed));
	json_object_set_new(doc, "added", json_integer((json_int_t)n->added));
	json_object_set_new(doc, "removed", json_integer((json_int_t)n->removed));
	json_object_set_new(doc, "retyped", json_integer((json_int_t)n->retyped));
	json_object_set_new(doc, "unchanged", json_integer((json_int_t)n->same));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)(2 * d->total)));
	json_object_set_new(doc, "bytes_read", json_integer((json_int_t)d->read));
	json_object_set_new(doc, "tensors", list);
	json_emit(doc);
}

/* ---- */

static int compare(struct cli *cli, struct checkpoint *a, struct checkpoint *b, const char *const *globs)
{
	struct diff d;
	struct err err = {0};
	struct progress progress;
	int rc = diff_match(a, b, globs, &d, &err);
	if (rc < 0)
		return cli_fail(cli, exit_code_of(rc), "%s", err.text);
	if (!d.ntensors) {
		diff_free(&d);
		return cli_fail(cli, EXIT_FAILED, "no tensor of either checkpoint is meant by --tensor");
	}
	progress_start(&progress, cli, "compared");
	d.progress = progress_step;
	d.arg = &progress;
	rc = diff_leaves(&d, &err);
	if (!rc)
		rc = diff_whole(&d, &err);
	progress_end(&progress);
	struct totals n = count(&d);
	int code = rc ? cli_fail(cli, exit_code_of(rc), "%s", err.text) : differ(&n) ? EXIT_DIFFERENT : EXIT_OK;
	if (!rc && cli->json)
		emit(cli, &d, &n);
	else if (!rc)
		print(cli, &d, &n);
	diff_free(&d);
	return code;
}

static int run(struct cli *cli)
{
	const char *globs[FILTERS_MAX + 1];
	struct checkpoint a, b;
	int code = filter_read(cli, "tensor", globs);
	if (!code)
		code = cli_open_named(cli, cli->args[0], &a);
	if (code)
		return code;
	code = cli_open_named(cli, cli->args[1], &b);
	if (!code) {
		cli_catch_interrupt();
		code = compare(cli, &a, &b, globs);
		checkpoint_close(&b);
	}
	checkpoint_close(&a);
	return code;
}

static const struct option_spec options[] = {
	{"tensor", OPTION_REPEAT, "GLOB", "only tensors whose name matches (may be repeated)"},
	{"summary", OPTION_FLAG, NULL, "only how many tensors differ, not which"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_diff = {
	.name = "diff",
	.summary = "compare two checkpoints, tensor by tensor",
	.detail =
		"Exit code 0: the same tensors with the same bytes. 4: they differ.\n"
		"If both cut a tensor alike, digests of its 64 KiB leaves tell what is equal, and only the rest is\n"
		"read. Otherwise (another number of ranks) both are read and compared by content. What is read is\n"
		"checked against its digests.\n"
		"MAX ABS is the largest |a-b|, found at AT. MAX REL is the largest |a-b| / max(|a|,|b|). NAN and INF\n"
		"count the changed elements that were and are not finite. Without numbers AT is the first difference.",
	.args = "A B",
	.min_args = 2,
	.max_args = 2,
	.options = options,
	.run = run,
};
