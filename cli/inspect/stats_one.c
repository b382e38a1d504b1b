/* ckpt stats STEP: what one checkpoint holds, by group, type and rank. */
#include "inspect/stats.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A group, a type or a rank. Those of ranks stand by rank, all of them. */
struct line {
	const char *name; /* NULL: of a rank */
	uint32_t rank;
	uint64_t bytes, pieces, files, tensors;
	uint64_t last_tensor; /* counts tensors once: 1 + its index among all names */
};

struct lines {
	struct line *list;
	size_t n, cap;
};

static struct line *line_of(struct lines *lines, const char *name, uint32_t rank)
{
	if (!name)
		return &lines->list[rank];
	for (size_t i = lines->n; i-- > 0;) /* neighbours mostly ask for the same one */
		if (!strcmp(lines->list[i].name, name))
			return &lines->list[i];
	if (lines->n == lines->cap) {
		size_t cap = lines->cap ? lines->cap * 2 : 64;
		struct line *grown = reallocarray(lines->list, cap, sizeof(*grown));
		if (!grown)
			return NULL;
		lines->list = grown;
		lines->cap = cap;
	}
	lines->list[lines->n] = (struct line){.name = name};
	return &lines->list[lines->n++];
}

/* A piece, as it is counted. */
struct part {
	const struct manifest_tensor *tensor;
	const struct manifest_file *file;
	uint64_t bytes;
};

static int by_tensor(const void *a, const void *b)
{
	return strcmp(((const struct part *)a)->tensor->name, ((const struct part *)b)->tensor->name);
}

static size_t gather(const struct checkpoint *ck, struct part *parts)
{
	size_t n = 0;
	for (uint32_t i = 0; i < ck->nnodes; i++) {
		const struct node_manifest *node = &ck->nodes[i];
		for (uint32_t f = 0; f < node->nfiles; f++)
			for (uint32_t p = 0; p < node->files[f].npieces; p++, n++) {
				const struct manifest_piece *piece = &node->files[f].pieces[p];
				if (parts)
					parts[n] = (struct part){&node->tensors[piece->tensor], &node->files[f],
								 piece->bytes};
			}
	}
	return n;
}

struct counts {
	struct lines groups, types, ranks;
	uint64_t tensors, pieces, bytes, blobs;
};

static int add_part(struct lines *lines, const char *name, uint32_t rank, const struct part *part, uint64_t tensor)
{
	struct line *l = line_of(lines, name, rank);
	if (!l)
		return -ENOMEM;
	l->bytes += part->bytes;
	l->pieces++;
	l->tensors += l->last_tensor != tensor;
	l->last_tensor = tensor;
	return 0;
}

static int count_parts(const struct part *parts, size_t n, struct counts *c)
{
	for (size_t i = 0; i < n; i++) {
		const struct part *p = &parts[i];
		bool fresh = !i || by_tensor(&parts[i - 1], p);
		c->tensors += fresh;
		c->blobs += fresh && p->tensor->kind != ENTRY_TENSOR;
		c->pieces++;
		c->bytes += p->bytes;
		if (add_part(&c->groups, p->file->group, 0, p, c->tensors) < 0 ||
		    add_part(&c->types, dtype_name(p->tensor->dtype), 0, p, c->tensors) < 0 ||
		    add_part(&c->ranks, NULL, p->file->rank, p, c->tensors) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int count_files(const struct checkpoint *ck, struct counts *c)
{
	for (uint32_t i = 0; i < ck->nnodes; i++)
		for (uint32_t f = 0; f < ck->nodes[i].nfiles; f++) {
			const struct manifest_file *file = &ck->nodes[i].files[f];
			struct line *group = line_of(&c->groups, file->group, 0);
			struct line *rank = line_of(&c->ranks, NULL, file->rank);
			if (!group || !rank)
				return -ENOMEM;
			group->files++;
			rank->files++;
		}
	return 0;
}

/* ---- text */

static int by_bytes(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void print_lines(const char *what, struct lines *lines)
{
	const struct column columns[] = {{what, ALIGN_LEFT},       {"BYTES", ALIGN_RIGHT},  {"SIZE", ALIGN_RIGHT},
					 {"TENSORS", ALIGN_RIGHT}, {"PIECES", ALIGN_RIGHT}, {"FILES", ALIGN_RIGHT}};
	struct table *t = table_new(columns, 6);
	char size[16];
	for (size_t i = 0; i < lines->n; i++) {
		const struct line *l = &lines->list[i];
		if (l->name)
			table_cell(t, TONE_PLAIN, "%s", l->name);
		else
			table_cell(t, TONE_PLAIN, "%u", l->rank);
		table_cell(t, TONE_PLAIN, "%" PRIu64, l->bytes);
		table_cell(t, TONE_PLAIN, "%s", bytes_human(size, sizeof(size), l->bytes));
		table_cell(t, TONE_PLAIN, "%" PRIu64, l->tensors);
		table_cell(t, TONE_PLAIN, "%" PRIu64, l->pieces);
		if (l->files)
			table_cell(t, TONE_PLAIN, "%" PRIu64, l->files);
		else
			table_cell(t, TONE_DIM, "-");
	}
	table_print(t);
	out(TONE_PLAIN, "\n");
}

static void print(const struct checkpoint *ck, struct counts *c, const struct usage *u)
{
	char name[NAME_DIR_MAX + NAME_JOB_MAX], size[16], text[256];
	out(TONE_HEAD, "%s\n", text_checkpoint(&ck->ref, name, sizeof(name)));
	out(TONE_PLAIN, "%" PRIu64 " tensors and %" PRIu64 " blobs in %" PRIu64 " pieces, %s of data\n",
	    c->tensors - c->blobs, c->blobs, c->pieces, bytes_human(size, sizeof(size), c->bytes));
	out(TONE_PLAIN, "%s\n\n", stats_usage_text(u, text, sizeof(text)));
	print_lines("GROUP", &c->groups);
	print_lines("DTYPE", &c->types);
	print_lines("RANK", &c->ranks);
}

/* ---- JSON */

static json_t *lines_json(const struct lines *lines)
{
	json_t *list = json_array();
	for (size_t i = 0; i < lines->n; i++) {
		const struct line *l = &lines->list[i];
		json_t *o = json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)l->bytes, "tensors",
				      (json_int_t)l->tensors, "pieces", (json_int_t)l->pieces);
		if (l->name)
			json_object_set_new(o, "name", json_text(l->name));
		else
			json_object_set_new(o, "rank", json_integer(l->rank));
		if (l->files)
			json_object_set_new(o, "files", json_integer((json_int_t)l->files));
		json_array_append_new(list, o);
	}
	return list;
}

static void emit(const struct cli *cli, const struct checkpoint *ck, const struct counts *c, const struct usage *u)
{
	json_t *doc = json_checkpoint(cli, &ck->ref);
	json_object_set_new(doc, "tensors", json_integer((json_int_t)(c->tensors - c->blobs)));
	json_object_set_new(doc, "blobs", json_integer((json_int_t)c->blobs));
	json_object_set_new(doc, "pieces", json_integer((json_int_t)c->pieces));
	json_object_set_new(doc, "bytes", json_integer((json_int_t)c->bytes));
	json_object_set_new(doc, "usage", stats_usage_json(u));
	json_object_set_new(doc, "groups", lines_json(&c->groups));
	json_object_set_new(doc, "dtypes", lines_json(&c->types));
	json_object_set_new(doc, "ranks", lines_json(&c->ranks));
	json_emit(doc);
}

/* ---- */

static void sort_lines(struct lines *lines)
{
	if (lines->n)
		qsort(lines->list, lines->n, sizeof(*lines->list), by_bytes);
}

static int make_ranks(struct lines *ranks, uint32_t world)
{
	ranks->list = calloc(world, sizeof(*ranks->list));
	if (!ranks->list)
		return -ENOMEM;
	for (; ranks->n < world; ranks->n++)
		ranks->list[ranks->n].rank = (uint32_t)ranks->n;
	return 0;
}

static int count_all(const struct checkpoint *ck, struct counts *c)
{
	size_t n = gather(ck, NULL);
	AUTO_FREE struct part *parts = calloc(n + 1, sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	gather(ck, parts);
	if (n)
		qsort(parts, n, sizeof(*parts), by_tensor);
	int rc = make_ranks(&c->ranks, ck->manifest.world);
	if (!rc)
		rc = count_parts(parts, n, c);
	if (!rc)
		rc = count_files(ck, c);
	sort_lines(&c->groups);
	sort_lines(&c->types);
	return rc;
}

int stats_one(struct cli *cli)
{
	struct checkpoint ck;
	struct counts c = {0};
	struct usage_seen seen = {0};
	struct usage u = {0};
	struct err err = {0};
	char name[NAME_DIR_MAX];
	int code = cli_open(cli, &ck);
	if (code)
		return code;
	name_dir(ck.ref.id, name);
	int rc = count_all(&ck, &c);
	if (rc < 0)
		err_set(&err, rc, "out of memory");
	else
		rc = stats_count(cli->repo, ck.ref.job, name, &seen, &u, &err);
	if (rc < 0)
		code = cli_fail(cli, exit_code_of(rc), "%s", err.text);
	else if (cli->json)
		emit(cli, &ck, &c, &u);
	else
		print(&ck, &c, &u);
	usage_free(&seen);
	free(c.groups.list);
	free(c.types.list);
	free(c.ranks.list);
	checkpoint_close(&ck);
	return code;
}
