/* node-<name>.json, read and checked. Pieces are checked where they stand, against the world and the tensors: should "files" come
 * before these (the order of keys is the writer's), it is passed over and read in a second pass. */
#include "format/arena/sized_blob.h"
#include "format/document/doc.h"
#include "format/files/manifest.h"
#include "format/files/manifest_private.h"
#include "format/files/packed.h"
#include "format/files/sidecar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 16 };

static enum entry_kind read_kind(struct jin *in)
{
	char text[WORD_MAX];
	jin_string(in, text, sizeof(text));
	for (int k = ENTRY_TENSOR; k < MANIFEST_KINDS_END; k++)
		if (!strcmp(text, manifest_kinds[k]))
			return (enum entry_kind)k;
	jin_fail(in, "unknown kind \"%s\"", text);
	return ENTRY_TENSOR;
}

static enum dtype read_dtype(struct jin *in)
{
	char text[WORD_MAX];
	jin_string(in, text, sizeof(text));
	int dtype = dtype_parse(text);
	if (dtype < 0)
		jin_fail(in, "unknown type \"%s\"", text);
	return dtype < 0 ? DTYPE_END : (enum dtype)dtype;
}

static void read_tensor_name(struct jin *in, struct manifest_tensor *t)
{
	char name[NAME_TENSOR_MAX];
	jin_string(in, name, sizeof(name));
	if (in->rc)
		return;
	jin_check(in, name_check_tensor(name, in->err));
	t->name = strdup(name);
	if (!t->name && !in->rc)
		in->rc = err_set(in->err, -ENOMEM, "%s: no memory for a name", in->what);
}

static void read_tensor(struct jin *in, struct manifest_tensor *t)
{
	enum { NAME, KIND, DTYPE, SHAPE, SIZED };
	static const char *const keys[] = {"name", "kind", "dtype", "shape", "sized", NULL};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == NAME)
			read_tensor_name(in, t);
		else if (k == KIND)
			t->kind = read_kind(in);
		else if (k == DTYPE)
			t->dtype = read_dtype(in);
		else if (k == SIZED)
			t->sized = jin_u64(in, 1);
		else
			t->shape.ndim = jin_u64_array(in, t->shape.dim, NDIM_MAX);
	jin_require(in, keys, seen, 1u << NAME | 1u << KIND | 1u << DTYPE | 1u << SHAPE);
	uint64_t volume;
	if (!in->rc && shape_volume(&t->shape, &volume) < 0)
		jin_fail(in, "the shape's volume overflows");
	if (!in->rc && t->kind != ENTRY_TENSOR && (t->dtype != DTYPE_U8 || t->shape.ndim != 1))
		jin_fail(in, "a blob is not a vector of U8");
	if (!in->rc && t->sized && (t->kind == ENTRY_TENSOR || t->shape.dim[0] <= SIZED_HEAD))
		jin_fail(in, "it has no room for a changing size");
}

static void read_tensors(struct jin *in, struct node_manifest *m)
{
	jin_array(in);
	while (jin_element(in)) {
		if (m->ntensors == MANIFEST_TENSORS_MAX)
			jin_fail(in, "more than %d tensors", MANIFEST_TENSORS_MAX);
		m->tensors = jin_grow(in, m->tensors, m->ntensors, sizeof(*m->tensors));
		if (in->rc)
			return;
		m->tensors[m->ntensors] = (struct manifest_tensor){0};
		read_tensor(in, &m->tensors[m->ntensors++]);
	}
}

/* Reads a name of a file of this directory. */
static void read_file_name(struct jin *in, char dst[NAME_FILE_MAX])
{
	jin_string(in, dst, NAME_FILE_MAX);
	if (!in->rc)
		jin_check(in, name_check_file(dst, in->err));
}

static void check_suffix(struct jin *in, const char *name, const char *suffix)
{
	size_t len = strlen(name), end = strlen(suffix);
	if (!in->rc && (len <= end || strcmp(name + len - end, suffix) != 0))
		jin_fail(in, "\"%s\" does not end with \"%s\"", name, suffix);
}

static struct digest read_digest(struct jin *in)
{
	char hex[DIGEST_TEXT];
	struct digest d = {0};
	jin_string(in, hex, sizeof(hex));
	if (digest_parse(hex, &d) < 0)
		jin_fail(in, "\"%s\" is not a digest of 32 lower-case hexadecimal digits", hex);
	return d;
}

static void read_sidecar(struct jin *in, struct manifest_file *f)
{
	enum { NAME, SIZE, DIGEST };
	static const char *const keys[] = {"name", "size", "digest", NULL};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == NAME)
			read_file_name(in, f->sidecar_name);
		else if (k == SIZE)
			f->sidecar_size = jin_u64(in, INT64_MAX);
		else
			f->sidecar = read_digest(in);
	jin_require(in, keys, seen, 1u << NAME | 1u << SIZE | 1u << DIGEST);
	check_suffix(in, f->sidecar_name, ".xxh");
}

static void read_packed(struct jin *in, struct manifest_packed *packed)
{
	enum { SIZE, INDEX, DIGEST };
	static const char *const keys[] = {"size", "index", "digest", NULL};
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		if (k == SIZE)
			packed->size = jin_u64(in, INT64_MAX);
		else if (k == INDEX)
			packed->index_size = jin_u64(in, INT64_MAX);
		else
			packed->index = read_digest(in);
	jin_require(in, keys, seen, 1u << SIZE | 1u << INDEX | 1u << DIGEST);
	if (!in->rc && (!packed->index_size || packed->index_size % LAYOUT_ALIGN))
		jin_fail(in, "index %" PRIu64 " is not a positive multiple of %u", packed->index_size, LAYOUT_ALIGN);
}

enum { PIECE_T, PIECE_O, PIECE_E, PIECE_S, PIECE_N };
static const char *const piece_keys[] = {"t", "o", "e", "s", "n", NULL};

/* Whether the keys are those of a box or of a flat range, and of only one. */
static void check_piece_keys(struct jin *in, uint32_t seen, struct region *r)
{
	const uint32_t box = 1u << PIECE_O | 1u << PIECE_E, flat = 1u << PIECE_S | 1u << PIECE_N;
	r->kind = seen & flat ? REGION_FLAT : REGION_BOX;
	if (seen & flat && seen & box)
		jin_fail(in, "both a box (o, e) and a flat range (s, n)");
	jin_require(in, piece_keys, seen, 1u << PIECE_T | (r->kind == REGION_FLAT ? flat : box));
}

static void read_piece(struct jin *in, const struct node_manifest *m, struct manifest_piece *p)
{
	uint32_t seen = 0, no = 0, ne = 0;
	uint64_t t = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, piece_keys, &seen)) >= 0;)
		if (k == PIECE_T)
			t = jin_u64(in, UINT32_MAX);
		else if (k == PIECE_O)
			no = jin_u64_array(in, p->region.offset, NDIM_MAX);
		else if (k == PIECE_E)
			ne = jin_u64_array(in, p->region.extent, NDIM_MAX);
		else
			*(k == PIECE_S ? &p->region.start : &p->region.count) = jin_u64(in, INT64_MAX);
	check_piece_keys(in, seen, &p->region);
	if (!in->rc && t >= m->ntensors)
		jin_fail(in, "t is %" PRIu64 " of %u tensors", t, m->ntensors);
	if (in->rc)
		return;
	p->tensor = (uint32_t)t;
	const struct manifest_tensor *tensor = &m->tensors[t];
	if (p->region.kind == REGION_BOX && (no != tensor->shape.ndim || ne != tensor->shape.ndim))
		jin_fail(in, "o and e have %u and %u numbers, \"%s\" has %u dimensions", no, ne, tensor->name,
			 tensor->shape.ndim);
	if (!in->rc)
		jin_check(in, region_check(&tensor->shape, &p->region, in->err));
	if (!in->rc)
		p->bytes = region_volume(&tensor->shape, &p->region) * dtype_size(tensor->dtype);
}

/* Reads the pieces; *data is their sum. */
static void read_pieces(struct jin *in, const struct node_manifest *m, struct manifest_file *f, uint64_t *data)
{
	jin_array(in);
	while (jin_element(in)) {
		if (f->npieces == REGISTRATION_PIECES_MAX)
			jin_fail(in, "more than %d pieces", REGISTRATION_PIECES_MAX);
		f->pieces = jin_grow(in, f->pieces, f->npieces, sizeof(*f->pieces));
		if (in->rc)
			return;
		struct manifest_piece *p = &f->pieces[f->npieces++];
		*p = (struct manifest_piece){.at = *data};
		read_piece(in, m, p);
		if (!in->rc && __builtin_add_overflow(*data, p->bytes, data))
			jin_fail(in, "the sum of the pieces overflows");
	}
}

static void check_sizes(struct jin *in, const struct manifest_file *f, uint64_t data)
{
	uint64_t size, nleaves = 0;
	for (uint32_t i = 0; i < f->npieces; i++)
		nleaves += leaf_count(f->pieces[i].bytes);
	if (in->rc)
		return;
	if (!f->data_at || f->data_at % LAYOUT_ALIGN)
		jin_fail(in, "data_at %" PRIu64 " is not a multiple of %u", f->data_at, LAYOUT_ALIGN);
	else if (__builtin_add_overflow(f->data_at, data, &size) || size != f->size)
		jin_fail(in, "size %" PRIu64 " is not data_at %" PRIu64 " + %" PRIu64 " bytes of pieces", f->size,
			 f->data_at, data);
	else if (nleaves > SIDECAR_LEAVES_MAX || f->sidecar_size != sidecar_size(f->npieces, nleaves))
		jin_fail(in, "sidecar.size %" PRIu64 " is not that of %u pieces and %" PRIu64 " leaves",
			 f->sidecar_size, f->npieces, nleaves);
}

static void check_packed(struct jin *in, const struct manifest_file *f, uint64_t data)
{
	const struct manifest_packed *p = &f->packed;
	check_suffix(in, f->name, p->index_size ? ".ckptz" : ".safetensors");
	if (in->rc || !p->index_size)
		return;
	if (p->index_size > packed_index_max(data))
		jin_fail(in, "packed.index %" PRIu64 " is above that of %" PRIu64 " bytes", p->index_size, data);
	else if (p->size < p->index_size || p->size - p->index_size < f->data_at)
		jin_fail(in, "packed.size %" PRIu64 " is below index and header", p->size);
}

static void read_group(struct jin *in, char group[NAME_GROUP_MAX])
{
	jin_string(in, group, NAME_GROUP_MAX);
	if (!in->rc)
		jin_check(in, name_check_group(group, in->err));
}

static void read_file(struct jin *in, const struct node_manifest *m, struct manifest_file *f)
{
	enum { NAME, RANK, GROUP, PART, SIZE, DATA_AT, SIDECAR, PIECES, PACKED };
	static const char *const keys[] = {"name",    "rank",    "group",  "part",   "size",
					   "data_at", "sidecar", "pieces", "packed", NULL};
	uint32_t seen = 0;
	uint64_t data = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, keys, &seen)) >= 0;)
		switch (k) {
		case NAME:
			read_file_name(in, f->name);
			break;
		case RANK:
			f->rank = (uint32_t)jin_u64(in, m->world - 1);
			break;
		case GROUP:
			read_group(in, f->group);
			break;
		case PART:
			f->part = (uint32_t)jin_u64(in, PART_MAX - 1);
			break;
		case SIZE:
			f->size = jin_u64(in, INT64_MAX);
			break;
		case DATA_AT:
			f->data_at = jin_u64(in, INT64_MAX);
			break;
		case SIDECAR:
			read_sidecar(in, f);
			break;
		case PACKED:
			read_packed(in, &f->packed);
			break;
		default:
			read_pieces(in, m, f, &data);
		}
	jin_require(in, keys, seen, (1u << PACKED) - 1);
	check_sizes(in, f, data);
	check_packed(in, f, data);
}

static void read_files(struct jin *in, struct node_manifest *m)
{
	jin_array(in);
	while (jin_element(in)) {
		if (m->nfiles == MANIFEST_FILES_MAX)
			jin_fail(in, "more than %d files", MANIFEST_FILES_MAX);
		m->files = jin_grow(in, m->files, m->nfiles, sizeof(*m->files));
		if (in->rc)
			return;
		m->files[m->nfiles] = (struct manifest_file){0};
		read_file(in, m, &m->files[m->nfiles++]);
	}
}

enum { WORLD = DOC_KEYS_END, NODE, TENSORS, FILES, BEGAN };
static const char *const top_keys[] = {DOC_KEYS, "world", "node", "tensors", "files", "began", NULL};

static void pass_over(struct jin *in, bool *files_left)
{
	*files_left = true;
	jin_skip(in);
}

static int read_top(struct jin *in, struct node_manifest *m, bool *files_left)
{
	const struct doc_head head = {m->job, &m->id};
	const uint32_t needed = 1u << WORLD | 1u << TENSORS;
	uint32_t seen = 0;
	jin_object(in);
	for (int k; (k = jin_member(in, top_keys, &seen)) >= 0;)
		if (k == WORLD)
			m->world = (uint32_t)jin_u64(in, RANK_MAX);
		else if (k == NODE)
			jin_string(in, m->node, sizeof(m->node));
		else if (k == BEGAN)
			m->began = (uint32_t)jin_u64(in, UINT32_MAX - 1);
		else if (k == TENSORS)
			read_tensors(in, m);
		else if (k == FILES && (seen & needed) == needed)
			read_files(in, m);
		else if (k == FILES)
			pass_over(in, files_left);
		else
			doc_read(in, k, &head);
	jin_require(in, top_keys, seen, DOC_REQUIRED | 1u << WORLD | 1u << NODE | 1u << TENSORS | 1u << FILES);
	if (!in->rc)
		jin_check(in, name_check("node", m->node, NAME_NODE_MAX, in->err));
	if (!in->rc && !m->world)
		jin_fail(in, "world is 0");
	return jin_close(in);
}

static int read_only_files(struct jin *in, struct node_manifest *m)
{
	static const char *const keys[] = {"files", NULL};
	uint32_t seen = 0;
	jin_object(in);
	while (jin_member(in, keys, &seen) >= 0)
		read_files(in, m);
	return jin_close(in);
}

int node_manifest_decode(const void *text, size_t len, struct node_manifest *m, struct err *err)
{
	struct jin in;
	bool files_left = false;
	*m = (struct node_manifest){0};
	int rc = doc_open(&in, text, len, NODE_MANIFEST_BYTES_MAX, NODE_FORMAT, MANIFEST_VERSION, err);
	if (!rc)
		rc = read_top(&in, m, &files_left);
	if (!rc && files_left) {
		jin_open(&in, text, len, NODE_FORMAT, err);
		rc = read_only_files(&in, m);
	}
	if (!rc)
		rc = manifest_node_check(m, err);
	if (rc < 0)
		node_manifest_free(m);
	return rc;
}
