#include "job_maker.h"

#include "base/cleanup.h"
#include "checkpoint/directory.h"
#include "checkpoint/node_part.h"
#include "format/make_registration.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>

static void build(uint32_t rank, struct registration *reg)
{
	struct shape rows = shape1(2 * MAKER_ROWS), shared = shape2(30, 500);
	*reg = (struct registration){.rank = rank, .world = MAKER_WORLD};
	add_tensor(reg, "w", DTYPE_U64, rows, "", region_flat((uint64_t)rank * MAKER_ROWS, MAKER_ROWS));
	add_tensor(reg, "shared", DTYPE_F32, shared, "dp", region_whole(&shared));
	add_blob(reg, "config", ENTRY_JOB_BLOB, 100);
	add_blob(reg, "rng", ENTRY_RANK_BLOB, 32);
}

struct table *maker_table(struct registration *reg)
{
	AUTO_WBUF struct wbuf out = {0};
	struct table *table = NULL;
	struct err err = {{0}};
	cr_assert_eq(registration_encode(reg, &out), 0);
	cr_assert_eq(table_decode(out.data, out.len, &table, &err), 0, "%s", err.text);
	registration_free(reg);
	return table;
}

void maker_tables(uint32_t rank, struct table **table, struct layout *layout)
{
	struct table *tables[MAKER_WORLD];
	const struct registration *list[MAKER_WORLD];
	struct layout layouts[MAKER_WORLD];
	struct err err = {{0}};
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		struct registration reg;
		build(r, &reg);
		tables[r] = maker_table(&reg);
		list[r] = &tables[r]->reg;
	}
	cr_assert_eq(layout_make(list, MAKER_WORLD, true, LAYOUT_FILE_MAX, layouts, &err), 0, "%s", err.text);
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		if (r == rank) {
			*table = tables[r];
			*layout = layouts[r];
			continue;
		}
		table_put(tables[r]);
		layout_free(&layouts[r]);
	}
}

static void fill(struct memory *mem, uint64_t *leaves)
{
	uint8_t *data = memory_slot(mem, 0);
	for (uint64_t i = 0; i < mem->slot_size; i++)
		data[i] = (uint8_t)((i * 2654435761u) >> 13) ^ (uint8_t)mem->table->reg.rank;
	memory_digest(mem, 0, 0, mem->layout.nleaves, leaves);
	memcpy(memory_leaves(mem, 0), leaves, mem->layout.nleaves * sizeof(*leaves));
}

void maker_new(struct maker *m, struct step_id id)
{
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		struct table *table;
		struct layout layout;
		struct err err = {{0}};
		maker_tables(r, &table, &layout);
		cr_assert_eq(memory_create("main", table, &layout, ARENA_SLOTS_MIN, HUGE_PAGES_NEVER, &m->mem[r], &err),
			     0, "%s", err.text);
		table_put(table);
		m->leaves[r] = calloc(m->mem[r]->layout.nleaves, sizeof(uint64_t));
		cr_assert_eq(memory_claim(m->mem[r], id), 0);
		fill(m->mem[r], m->leaves[r]);
		memory_complete(m->mem[r], 0, id);
	}
}

void maker_free(struct maker *m)
{
	for (uint32_t r = 0; r < MAKER_WORLD; r++) {
		memory_put(m->mem[r]);
		free(m->leaves[r]);
	}
}

unsigned open_descriptors(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;
	cr_assert(dir);
	while (readdir(dir))
		n++;
	return n;
}

/* ---- a node that is alone ------------------------------------------------------------------------------------- */

struct alone {
	struct node_part *commit, *last; /* NULL: it is done */
	struct directory *directory;     /* the same */
	void (*done)(struct node_part *c);
};

static void seal(struct node_part *c)
{
	const struct alone *alone = c->arg;
	struct manifest m = {.id = c->id,
			     .world = c->world,
			     .bytes = c->part.bytes,
			     .stored = c->part.stored,
			     .files = c->part.files,
			     .nnodes = 1};
	AUTO_WBUF struct wbuf text = {0};
	m.nodes = &c->part.node;
	memcpy(m.job, c->job, sizeof(m.job));
	cr_assert_eq(manifest_encode(&m, &text), 0);
	directory_seal(alone->directory, &text);
}

static void commit_failed(struct node_part *c)
{
	const struct alone *alone = c->arg;
	directory_drop(alone->directory, c->rc, c->err.text);
}

static void commit_over(struct node_part *c)
{
	struct alone *alone = c->arg;
	alone->commit = NULL;
	if (alone->directory) {
		directory_remove(alone->directory);
		return;
	}
	alone->done(c);
	free(alone);
}

static void directory_made(struct directory *s)
{
	const struct alone *alone = s->arg;
	node_part_write(alone->commit, s->found, s->maker, &(struct share_parts){0});
}

static void directory_sealed(struct directory *s)
{
	const struct alone *alone = s->arg;
	node_part_end(alone->commit);
}

static void directory_failed(struct directory *s)
{
	const struct alone *alone = s->arg;
	if (alone->commit)
		node_part_abort(alone->commit, s->rc, s->err.text);
}

static void directory_left(struct directory *s)
{
	const struct alone *alone = s->arg;
	if (alone->commit)
		node_part_clear(alone->commit, s->kept ? 0 : s->maker);
	else
		directory_remove(s); /* the part was over while a request of the directory was under way */
}

static void directory_over(struct directory *s)
{
	struct alone *alone = s->arg;
	struct node_part *c = alone->last;
	directory_free(s);
	alone->directory = NULL;
	if (alone->commit)
		return; /* whose handles are still being closed */
	alone->done(c);
	free(alone);
}

struct directory *maker_directory(const struct node_part *c)
{
	const struct alone *alone = c->arg;
	return alone->directory;
}

void maker_commit(struct node_part *c)
{
	struct alone *alone = calloc(1, sizeof(*alone));
	struct directory *s = calloc(1, sizeof(*s));
	cr_assert(alone && s);
	*alone = (struct alone){.commit = c, .last = c, .directory = s, .done = c->done};
	c->arg = alone;
	c->prepared = seal;
	c->failed = commit_failed;
	c->done = commit_over;
	s->disk = c->disk;
	s->root = c->root;
	s->id = c->id;
	s->maker = MAKER_NUMBER;
	s->made = directory_made;
	s->sealed = directory_sealed;
	s->failed = directory_failed;
	s->left = directory_left;
	s->done = directory_over;
	s->arg = alone;
	memcpy(s->job, c->job, sizeof(s->job));
	cr_assert_eq(node_part_start(c), 0);
	directory_start(s);
}
