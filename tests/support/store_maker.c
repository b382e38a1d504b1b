#include "store_maker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "format/files/packed.h"
#include "format/files/safetensors.h"
#include "format/files/sidecar.h"
#include "store/read/chunk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRIES_MAX = 16, PATH_SIZE = 1024 };

/* ---- contents */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static bool is_float(enum dtype dtype)
{
	return dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

/* The last byte, with sign and exponent, has one of eight values. */
static uint64_t weight(uint64_t value, unsigned size)
{
	unsigned shift = 8 * (size - 1);
	return (value & ~(0xffull << shift)) | ((value >> shift & 0x83) | 0x38) << shift;
}

void store_fill(uint64_t seed, const char *name, enum dtype dtype, const struct shape *shape,
		const struct region *region, void *dst)
{
	struct region whole = region_whole(shape);
	uint64_t key = mix(seed + digest_leaf(name, strlen(name)));
	unsigned size = dtype_size(dtype);
	struct overlap walk;
	struct region_run run;
	overlap_init(&walk, shape, region, &whole);
	while (overlap_next(&walk, &run)) {
		for (uint64_t i = 0; i < run.count; i++) {
			uint64_t value = mix(key + (run.dst + i) * 0x9e3779b97f4a7c15ull);
			if (seed & STORE_WEIGHTS && is_float(dtype))
				value = weight(value, size);
			memcpy((uint8_t *)dst + (run.src + i) * size, &value, size);
		}
	}
}

/* ---- files */

static int write_file(const char *dir, const char *name, const void *data, size_t len, struct err *err)
{
	char path[PATH_SIZE];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_set(err, -errno, "%s: %s", path, err_name(errno));
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);
		if (n < 0)
			return err_set(err, -errno, "%s: %s", path, err_name(errno));
		done += (size_t)n;
	}
	return 0;
}

static const char *job_of(const struct store_spec *spec)
{
	return spec->job ? spec->job : "main";
}

void store_dir(const struct store_spec *spec, char *dst, size_t size)
{
	char name[NAME_DIR_MAX];
	name_dir(spec->id, name);
	snprintf(dst, size, "%s/%s/%s", spec->root, job_of(spec), name);
}

static int make_dirs(const struct store_spec *spec, char dir[PATH_SIZE], struct err *err)
{
	static const char mark[] = "ckpt-repository 1\n";
	store_dir(spec, dir, PATH_SIZE);
	for (char *p = dir + 1;; p++) {
		char c = *p;
		if (c && c != '/')
			continue;
		*p = 0;
		int rc = mkdir(dir, 0755);
		*p = c;
		if (rc < 0 && errno != EEXIST)
			return err_set(err, -errno, "%s: %s", dir, err_name(errno));
		if (!c)
			break;
	}
	return write_file(spec->root, "ckpt-repository", mark, sizeof(mark) - 1, err);
}

/* ---- registrations */

struct maker {
	const struct store_spec *spec;
	uint32_t world, nodes;
	uint64_t rows, cols;
	char dir[PATH_SIZE];
};

static struct region box(const struct shape *shape, uint32_t dim, uint64_t from, uint64_t to)
{
	struct region r = region_whole(shape);
	r.offset[dim] = from;
	r.extent[dim] = to - from;
	return r;
}

static void add(struct registration *reg, const char *name, enum entry_kind kind, enum dtype dtype, struct shape shape,
		const char *group, const char *replica, struct region piece)
{
	struct entry *e = &reg->entries[reg->nentries++];
	*e = (struct entry){.name = strdup(name), .kind = kind, .dtype = dtype, .shape = shape, .npieces = 1};
	snprintf(e->group, sizeof(e->group), "%s", group);
	snprintf(e->replica, sizeof(e->replica), "%s", replica);
	e->pieces = malloc(sizeof(piece));
	if (!e->name || !e->pieces)
		abort();
	*e->pieces = piece;
}

static void add_whole(struct registration *reg, const char *name, enum entry_kind kind, enum dtype dtype,
		      struct shape shape, const char *replica)
{
	add(reg, name, kind, dtype, shape, "params", replica, region_whole(&shape));
}

/* Rank 0 has its first row apart from the others. */
static void add_pairs(const struct maker *m, const struct shape *matrix, struct registration *reg)
{
	uint64_t from = reg->rank * m->rows / m->world, to = (reg->rank + 1) * m->rows / m->world;
	add(reg, "pairs", ENTRY_TENSOR, DTYPE_F32, *matrix, "params", "", box(matrix, 0, from, to));
	if (reg->rank)
		return;
	struct entry *e = &reg->entries[reg->nentries - 1];
	e->pieces = reallocarray(e->pieces, 2, sizeof(*e->pieces));
	if (!e->pieces)
		abort();
	e->pieces[0] = box(matrix, 0, from, from + 1);
	e->pieces[1] = box(matrix, 0, from + 1, to);
	e->npieces = 2;
}

static void register_rank(const struct maker *m, uint32_t rank, bool first_node, struct registration *reg)
{
	struct shape matrix = {2, {m->rows, m->cols}}, vector = {1, {m->cols}}, scalar = {0}, empty = {2, {0, 4}};
	uint64_t volume = m->rows * m->cols, w = m->world;
	char rng[32];
	snprintf(rng, sizeof(rng), "rng@%05u", rank);
	*reg = (struct registration){.rank = rank, .world = m->world};
	reg->entries = calloc(ENTRIES_MAX, sizeof(*reg->entries));
	if (!reg->entries)
		abort();
	if (first_node) {
		add_whole(reg, "embed", ENTRY_TENSOR, DTYPE_BF16, matrix, "dp");
		add_whole(reg, "bias", ENTRY_TENSOR, DTYPE_F64, vector, "dp");
		add_whole(reg, "scale", ENTRY_TENSOR, DTYPE_F32, scalar, "dp");
		add_whole(reg, "empty", ENTRY_TENSOR, DTYPE_I64, empty, "dp");
		add_whole(reg, "loader", ENTRY_JOB_BLOB, DTYPE_U8, (struct shape){1, {100}}, "");
	}
	add(reg, "rowwise", ENTRY_TENSOR, DTYPE_F32, matrix, "params", "",
	    box(&matrix, 0, rank * m->rows / w, (rank + 1) * m->rows / w));
	add(reg, "colwise", ENTRY_TENSOR, DTYPE_F32, matrix, "params", "",
	    box(&matrix, 1, rank * m->cols / w, (rank + 1) * m->cols / w));
	add(reg, "moment", ENTRY_TENSOR, DTYPE_F32, matrix, "optimizer", "",
	    region_flat(rank * volume / w, (rank + 1) * volume / w - rank * volume / w));
	if (m->spec->boxes)
		add_pairs(m, &matrix, reg);
	add_whole(reg, rng, ENTRY_RANK_BLOB, DTYPE_U8, (struct shape){1, {37}}, "");
}

/* ---- one data file with its sidecar */

static int put_data(const struct maker *m, const struct registration *reg, const struct layout *layout, uint32_t file,
		    uint64_t *leaves, struct wbuf *out)
{
	const struct layout_file *f = &layout->files[file];
	int rc = safetensors_header(reg, layout, file, out);
	for (uint32_t i = 0; i < f->npieces && !rc; i++) {
		const struct layout_piece *p = &layout->pieces[f->first_piece + i];
		const struct entry *e = &reg->entries[p->entry];
		AUTO_FREE uint8_t *bytes = malloc(p->bytes + 1);
		if (!bytes)
			return -ENOMEM;
		store_fill(m->spec->seed, e->name, e->dtype, &e->shape, &p->region, bytes);
		digest_leaves(bytes, p->bytes, leaves + p->first_leaf);
		wbuf_put(out, bytes, p->bytes);
	}
	return rc ? rc : wbuf_finish(out);
}

/* Index of the tensor in the node's list, adding it. */
static uint32_t tensor_index(struct node_manifest *node, const struct entry *e)
{
	for (uint32_t i = 0; i < node->ntensors; i++) {
		if (!strcmp(node->tensors[i].name, e->name))
			return i;
	}
	node->tensors = reallocarray(node->tensors, node->ntensors + 1, sizeof(*node->tensors));
	if (!node->tensors)
		abort();
	node->tensors[node->ntensors] = (struct manifest_tensor){
		.name = strdup(e->name), .kind = e->kind, .sized = e->sized, .dtype = e->dtype, .shape = e->shape};
	return node->ntensors++;
}

static void describe(const struct registration *reg, const struct layout *layout, uint32_t file, uint64_t data_at,
		     const struct wbuf *sidecar, struct node_manifest *node)
{
	const struct layout_file *f = &layout->files[file];
	node->files = reallocarray(node->files, node->nfiles + 1, sizeof(*node->files));
	struct manifest_piece *pieces = calloc(f->npieces + 1, sizeof(*pieces));
	if (!node->files || !pieces)
		abort();
	struct manifest_file *mf = &node->files[node->nfiles++];
	*mf = (struct manifest_file){.rank = reg->rank, .part = f->part, .data_at = data_at, .pieces = pieces};
	name_data(reg->rank, reg->world, f->group, f->part, mf->name);
	name_sidecar(reg->rank, reg->world, f->group, f->part, mf->sidecar_name);
	snprintf(mf->group, sizeof(mf->group), "%s", f->group);
	mf->size = data_at + f->data_size;
	mf->sidecar_size = sidecar->len;
	mf->sidecar = digest_bytes(sidecar->data, sidecar->len);
	for (; mf->npieces < f->npieces; mf->npieces++) {
		const struct layout_piece *p = &layout->pieces[f->first_piece + mf->npieces];
		pieces[mf->npieces] = (struct manifest_piece){
			.tensor = tensor_index(node, &reg->entries[p->entry]),
			.region = p->region,
			.at = p->at,
			.bytes = p->bytes,
		};
	}
}

/* ---- packed */

struct described {
	const struct registration *reg;
	const struct layout_piece *pieces;
};

static void describe_piece(const void *arg, uint32_t i, uint64_t *bytes, unsigned *planes)
{
	const struct described *d = arg;
	*bytes = d->pieces[i].bytes;
	*planes = dtype_size(d->reg->entries[d->pieces[i].entry].dtype);
}

static int pack_chunks(const uint8_t *data, struct packed_index *index, struct wbuf *out)
{
	struct chunk_packer *packer;
	static uint8_t stored[PACKED_CHUNK];
	if (chunk_packer_new(&packer) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < index->nchunks; i++) {
		struct packed_chunk *c = &index->chunks[i];
		chunk_pack(packer, data + c->data_at, c->plain, c->planes, c, stored);
		wbuf_put(out, stored, c->bytes);
	}
	chunk_packer_free(packer);
	packed_index_place(index);
	return wbuf_finish(out);
}

/* The packed file of a safetensors file. */
static int pack(const struct registration *reg, const struct layout_file *f, const struct layout_piece *pieces,
		const struct wbuf *plain, struct wbuf *out, struct manifest_file *mf)
{
	AUTO_WBUF struct wbuf chunks = {0};
	struct described what = {reg, pieces};
	struct packed_index index;
	int rc = packed_plan(f->npieces, describe_piece, &what, &index);
	if (rc < 0)
		return rc;
	index.data_at = plain->len - f->data_size;
	rc = pack_chunks(plain->data + index.data_at, &index, &chunks);
	if (!rc)
		rc = packed_index_encode(&index, out);
	mf->packed = (struct manifest_packed){index.size, index.index_size, digest_bytes(out->data, out->len)};
	wbuf_put(out, plain->data, index.data_at);
	wbuf_put(out, chunks.data, chunks.len);
	packed_index_free(&index);
	name_packed(reg->rank, reg->world, f->group, f->part, mf->name);
	return rc ? rc : wbuf_finish(out);
}

static int make_file(const struct maker *m, const struct registration *reg, const struct layout *layout, uint32_t file,
		     uint64_t *leaves, struct node_manifest *node, struct err *err)
{
	AUTO_WBUF struct wbuf data = {0}, sidecar = {0}, packed = {0};
	const struct layout_file *f = &layout->files[file];
	int rc = put_data(m, reg, layout, file, leaves, &data);
	if (rc < 0)
		return err_set(err, rc, "cannot build a data file: %s", err_name(rc));
	uint64_t data_at = data.len - layout->files[file].data_size;
	rc = sidecar_encode(layout, file, data_at, digest_bytes(data.data, data_at), leaves, &sidecar);
	if (rc < 0)
		return err_set(err, rc, "cannot build a sidecar: %s", err_name(rc));
	describe(reg, layout, file, data_at, &sidecar, node);
	struct manifest_file *mf = &node->files[node->nfiles - 1];
	if (m->spec->packed && f->data_size)
		rc = pack(reg, f, layout->pieces + f->first_piece, &data, &packed, mf);
	if (rc < 0)
		return err_set(err, rc, "cannot pack a data file: %s", err_name(rc));
	const struct wbuf *text = packed.len ? &packed : &data;
	rc = write_file(m->dir, mf->name, text->data, text->len, err);
	return rc ? rc : write_file(m->dir, mf->sidecar_name, sidecar.data, sidecar.len, err);
}

/* ---- nodes */

static int make_rank(const struct maker *m, const struct registration *reg, const struct layout *layout,
		     struct node_manifest *node, struct err *err)
{
	AUTO_FREE uint64_t *leaves = calloc(layout->nleaves + 1, sizeof(*leaves));
	if (!leaves)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = 0;
	for (uint32_t f = 0; f < layout->nfiles && !rc; f++)
		rc = make_file(m, reg, layout, f, leaves, node, err);
	return rc;
}

static int make_ranks(const struct maker *m, uint32_t first, uint32_t n, struct node_manifest *node, struct err *err)
{
	struct registration *regs = calloc(n, sizeof(*regs));
	const struct registration **view = calloc(n, sizeof(struct registration *));
	struct layout *layouts = calloc(n, sizeof(*layouts));
	if (!regs || !view || !layouts)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		register_rank(m, first + i, first == 0, &regs[i]);
		view[i] = &regs[i];
	}
	uint64_t file_max = m->spec->file_max ? m->spec->file_max : LAYOUT_FILE_MAX;
	int rc = layout_make(view, n, m->nodes == 1, file_max, layouts, err);
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = make_rank(m, &regs[i], &layouts[i], node, err);
	for (uint32_t i = 0; i < n; i++) {
		layout_free(&layouts[i]);
		registration_free(&regs[i]);
	}
	free(layouts);
	free(view);
	free(regs);
	return rc;
}

/* As what packs must. */
static int make_notice(const struct maker *m, const char *node, struct err *err)
{
	AUTO_WBUF struct wbuf notice = {0};
	char file[NAME_FILE_MAX];
	name_notice(node, file);
	int rc = safetensors_notice(&notice);
	return rc ? err_set(err, rc, "cannot build %s: %s", file, err_name(rc))
		  : write_file(m->dir, file, notice.data, notice.len, err);
}

static int make_node(const struct maker *m, uint32_t index, struct node_manifest *node, struct wbuf *text,
		     struct err *err)
{
	char file[NAME_FILE_MAX];
	uint32_t first = index * m->world / m->nodes, end = (index + 1) * m->world / m->nodes;
	*node = (struct node_manifest){.id = m->spec->id, .world = m->world};
	snprintf(node->job, sizeof(node->job), "%s", job_of(m->spec));
	snprintf(node->node, sizeof(node->node), "node%u", index);
	name_node(node->node, file);
	int rc = make_ranks(m, first, end - first, node, err);
	if (!rc && m->spec->packed)
		rc = make_notice(m, node->node, err);
	if (rc < 0)
		return rc;
	rc = node_manifest_encode(node, text);
	if (rc < 0)
		return err_set(err, rc, "cannot build %s: %s", file, err_name(rc));
	return write_file(m->dir, file, text->data, text->len, err);
}

static int make_nodes(const struct maker *m, struct node_manifest *nodes, struct wbuf *texts, struct node_text *refs,
		      struct err *err)
{
	AUTO_WBUF struct wbuf manifest = {0};
	int rc = 0;
	for (uint32_t i = 0; i < m->nodes && !rc; i++) {
		rc = make_node(m, i, &nodes[i], &texts[i], err);
		refs[i] = (struct node_text){&nodes[i], texts[i].data, texts[i].len};
	}
	if (rc < 0 || m->spec->partial)
		return rc;
	rc = manifest_build(refs, m->nodes, &manifest, err);
	return rc ? rc : write_file(m->dir, NAME_MANIFEST, manifest.data, manifest.len, err);
}

int store_make(const struct store_spec *spec, struct err *err)
{
	struct maker m = {
		.spec = spec,
		.world = spec->world ? spec->world : 2,
		.nodes = spec->nodes ? spec->nodes : 1,
		.rows = spec->rows ? spec->rows : 64,
		.cols = spec->cols ? spec->cols : 48,
	};
	int rc = make_dirs(spec, m.dir, err);
	if (rc < 0)
		return rc;
	struct node_manifest *nodes = calloc(m.nodes, sizeof(*nodes));
	struct wbuf *texts = calloc(m.nodes, sizeof(*texts));
	struct node_text *refs = calloc(m.nodes, sizeof(*refs));
	if (!nodes || !texts || !refs)
		abort();
	rc = make_nodes(&m, nodes, texts, refs, err);
	for (uint32_t i = 0; i < m.nodes; i++) {
		node_manifest_free(&nodes[i]);
		wbuf_free(&texts[i]);
	}
	free(refs);
	free(texts);
	free(nodes);
	return rc;
}

/* ---- marks */

int store_mark_health(const struct store_spec *spec, bool damaged, const char *detail, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	char dir[PATH_SIZE];
	struct health health = {.id = spec->id, .verified_at = clock_wall(), .damaged = damaged};
	snprintf(health.job, sizeof(health.job), "%s", job_of(spec));
	snprintf(health.detail, sizeof(health.detail), "%s", detail);
	store_dir(spec, dir, sizeof(dir));
	int rc = health_encode(&health, &text);
	return rc ? rc : write_file(dir, NAME_HEALTH, text.data, text.len, err);
}

int store_put_mark(const struct store_spec *spec, bool unhealthy, const char *reason, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	char dir[PATH_SIZE];
	struct health_mark mark = {.id = spec->id, .given_at = clock_wall(), .unhealthy = unhealthy};
	snprintf(mark.job, sizeof(mark.job), "%s", job_of(spec));
	snprintf(mark.reason, sizeof(mark.reason), "%s", reason);
	store_dir(spec, dir, sizeof(dir));
	int rc = health_mark_encode(&mark, &text);
	return rc ? rc : write_file(dir, NAME_HEALTH_MARK, text.data, text.len, err);
}

int store_mark_pin(const struct store_spec *spec, const char *note, struct err *err)
{
	AUTO_WBUF struct wbuf text = {0};
	char dir[PATH_SIZE];
	struct pin pin = {.id = spec->id, .pinned_at = clock_wall()};
	snprintf(pin.job, sizeof(pin.job), "%s", job_of(spec));
	snprintf(pin.note, sizeof(pin.note), "%s", note);
	store_dir(spec, dir, sizeof(dir));
	int rc = pin_encode(&pin, &text);
	return rc ? rc : write_file(dir, NAME_PINNED, text.data, text.len, err);
}
