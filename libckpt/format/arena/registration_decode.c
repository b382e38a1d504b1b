/* Decoding a registration, which comes from a process that may be broken or hostile. Every count is checked against the
 * bytes that are left before anything is allocated for it, and all pieces together may cost one budget of comparisons. */
#include "format/arena/registration.h"

#include "base/cleanup.h"
#include "format/arena/sized_blob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ENTRY_BYTES_MIN = 2 + 1 + 3 + 2 + 1 + 2 + 4, /* encoding of a scalar with names of one letter and no piece */
	PIECE_BYTES_MIN = 1 + 2 * 8,                 /* of a flat range or a box with one dimension */
};

struct limits {
	uint64_t pieces, bytes, comparisons; /* what this registration may still use */
};

static int check_blob(const struct entry *e, uint32_t rank, struct err *err)
{
	if (e->dtype != DTYPE_U8 || e->shape.ndim != 1)
		return err_set(err, -EINVAL, "a blob is U8 with one dimension, not %s with %u", dtype_name(e->dtype),
			       e->shape.ndim);
	if (e->replica[0])
		return err_set(err, -EINVAL, "a blob has no replica group; its scope says who holds it");
	struct region whole = region_whole(&e->shape);
	if (e->npieces != 1 || !region_equal(&e->shape, &whole, &e->pieces[0]))
		return err_set(err, -EINVAL, "a blob has exactly one piece: all of it");
	if (e->sized && e->shape.dim[0] <= SIZED_HEAD)
		return err_set(err, -EINVAL, "a blob of changing size has more than %d bytes", SIZED_HEAD);
	if (e->kind != ENTRY_RANK_BLOB)
		return 0;
	char suffix[16];
	snprintf(suffix, sizeof(suffix), "@%05u", rank);
	size_t len = strlen(e->name), tail = strlen(suffix);
	if (len <= tail || strcmp(e->name + len - tail, suffix))
		return err_set(err, -EINVAL, "the name of a blob of rank %u ends in \"%s\"", rank, suffix);
	return 0;
}

static int check_disjoint(const struct entry *e, struct limits *limits, struct err *err)
{
	if (e->npieces < 2)
		return 0;
	AUTO_FREE const struct region **pieces = calloc(e->npieces, sizeof(*pieces));
	if (!pieces)
		return err_set(err, -ENOMEM, "no memory to check %u pieces", e->npieces);
	for (uint32_t p = 0; p < e->npieces; p++)
		pieces[p] = &e->pieces[p];
	size_t pair[2];
	int rc = region_disjoint(&e->shape, pieces, e->npieces, &limits->comparisons, pair);
	if (rc == -E2BIG)
		return err_set(err, rc, "its %u pieces are too interleaved to check; register larger ones", e->npieces);
	if (rc <= 0)
		return rc < 0 ? err_set(err, rc, "no memory to check %u pieces", e->npieces) : 0;
	char a[96], b[96];
	return err_set(err, -EEXIST, "pieces %zu and %zu overlap: %s and %s", pair[0], pair[1],
		       region_text(&e->shape, pieces[pair[0]], a, sizeof(a)),
		       region_text(&e->shape, pieces[pair[1]], b, sizeof(b)));
}

static int check_pieces(const struct entry *e, struct limits *limits, struct err *err)
{
	for (uint32_t p = 0; p < e->npieces; p++) {
		int rc = region_check(&e->shape, &e->pieces[p], err);
		if (rc < 0)
			return err_prefix(err, rc, "piece %u", p);
		/* At most 2^59 elements of 16 bytes: the product fits. */
		uint64_t bytes = region_volume(&e->shape, &e->pieces[p]) * dtype_size(e->dtype);
		if (bytes > limits->bytes)
			return err_set(err, -EOVERFLOW, "with piece %u the rank holds more than 2^60 bytes", p);
		limits->bytes -= bytes;
	}
	return check_disjoint(e, limits, err);
}

static int check_entry(const struct entry *e, uint32_t rank, struct limits *limits, struct err *err)
{
	int rc = name_check_group(e->group, err);
	if (rc == 0 && e->replica[0])
		rc = name_check("replica group", e->replica, NAME_GROUP_MAX, err);
	if (rc < 0)
		return rc;
	if (!dtype_size(e->dtype))
		return err_set(err, -EINVAL, "unknown element type %u", (unsigned)e->dtype);
	rc = check_pieces(e, limits, err);
	if (rc < 0)
		return rc;
	if (e->kind == ENTRY_JOB_BLOB || e->kind == ENTRY_RANK_BLOB)
		return check_blob(e, rank, err);
	if (e->sized)
		return err_set(err, -EINVAL, "a tensor has a fixed size");
	return e->kind == ENTRY_TENSOR ? 0 : err_set(err, -EINVAL, "unknown kind %u", (unsigned)e->kind);
}

static int read_shape(struct rbuf *in, struct shape *shape, struct err *err)
{
	shape->ndim = rbuf_u8(in);
	if (shape->ndim > NDIM_MAX)
		return err_set(err, -EINVAL, "%u dimensions, at most %d are possible", shape->ndim, NDIM_MAX);
	for (uint32_t d = 0; d < shape->ndim; d++)
		shape->dim[d] = rbuf_u64(in);
	uint64_t volume;
	char text[96];
	int rc = shape_volume(shape, &volume);
	return rc < 0 ? err_set(err, rc, "shape %s is too large", shape_text(shape, text, sizeof(text))) : 0;
}

static int read_pieces(struct rbuf *in, struct entry *e, struct limits *limits, struct err *err)
{
	uint32_t n = rbuf_u32(in);
	/* A scalar's box is one byte of encoding, but there is only one element to hold. */
	if (e->shape.ndim == 0 ? n > 1 : n > rbuf_left(in) / PIECE_BYTES_MIN)
		return err_set(err, -EBADMSG, "%u pieces do not fit", n);
	if (n > limits->pieces)
		return err_set(err, -E2BIG, "the rank has more than %d pieces; register larger ones",
			       REGISTRATION_PIECES_MAX);
	limits->pieces -= n;
	e->pieces = calloc(n ? n : 1, sizeof(*e->pieces)); /* most entries have one */
	if (!e->pieces)
		return err_set(err, -ENOMEM, "no memory for %u pieces", n);
	e->npieces = n;
	for (uint32_t p = 0; p < n; p++)
		region_get(in, &e->shape, &e->pieces[p]);
	return in->failed ? err_set(err, -EBADMSG, "a piece is cut off or of an unknown kind") : 0;
}

/* What follows the name. */
static int read_entry(struct rbuf *in, struct entry *e, uint32_t rank, struct limits *limits, struct err *err)
{
	uint8_t kind = rbuf_u8(in);
	e->kind = kind & ~ENTRY_SIZED;
	e->sized = kind & ENTRY_SIZED;
	e->dtype = rbuf_u8(in);
	int rc = read_shape(in, &e->shape, err);
	if (rc < 0)
		return rc;
	rbuf_str(in, e->group, sizeof(e->group));
	rbuf_str(in, e->replica, sizeof(e->replica));
	if (in->failed)
		return err_set(err, -EBADMSG, "the entry is cut off or a group name too long");
	rc = read_pieces(in, e, limits, err);
	return rc < 0 ? rc : check_entry(e, rank, limits, err);
}

static int read_name(struct rbuf *in, struct entry *e, struct err *err)
{
	char name[NAME_TENSOR_MAX];
	rbuf_str(in, name, sizeof(name));
	if (in->failed)
		return err_set(err, -EBADMSG, "the name is cut off or above %d bytes", NAME_TENSOR_MAX - 1);
	int rc = name_check_tensor(name, err);
	if (rc < 0)
		return rc;
	e->name = strdup(name);
	return e->name ? 0 : err_set(err, -ENOMEM, "no memory for its name");
}

static int read_head(struct rbuf *in, struct registration *reg, struct err *err)
{
	reg->rank = rbuf_u32(in);
	reg->world = rbuf_u32(in);
	uint32_t n = rbuf_u32(in);
	if (in->failed)
		return err_set(err, -EBADMSG, "registration: cut off in its head");
	if (reg->world == 0 || reg->world > RANK_MAX || reg->rank >= reg->world)
		return err_set(err, -EINVAL, "registration: rank %u of %u; ranks count from 0, at most %d", reg->rank,
			       reg->world, RANK_MAX);
	if (n > REGISTRATION_ENTRIES_MAX)
		return err_set(err, -E2BIG, "registration of rank %u: %u entries, at most %d are possible", reg->rank,
			       n, REGISTRATION_ENTRIES_MAX);
	if (n > rbuf_left(in) / ENTRY_BYTES_MIN)
		return err_set(err, -EBADMSG, "registration of rank %u: %u entries do not fit", reg->rank, n);
	reg->entries = calloc((size_t)n + 1, sizeof(*reg->entries));
	if (!reg->entries)
		return err_set(err, -ENOMEM, "registration of rank %u: no memory for %u entries", reg->rank, n);
	reg->nentries = n;
	return 0;
}

static int read_entries(struct rbuf *in, struct registration *reg, struct err *err)
{
	struct limits limits = {REGISTRATION_PIECES_MAX, REGISTRATION_DATA_MAX, REGION_BUDGET};
	for (uint32_t i = 0; i < reg->nentries; i++) {
		struct entry *e = &reg->entries[i];
		int rc = read_name(in, e, err);
		if (rc < 0)
			return err_prefix(err, rc, "registration of rank %u, entry %u", reg->rank, i);
		rc = read_entry(in, e, reg->rank, &limits, err);
		if (rc < 0)
			return err_prefix(err, rc, "registration of rank %u, \"%.200s\"", reg->rank, e->name);
	}
	if (rbuf_finish(in) < 0)
		return err_set(err, -EBADMSG, "registration of rank %u: %zu bytes follow its last entry", reg->rank,
			       rbuf_left(in));
	int rc = registration_index(reg, err);
	return rc < 0 ? err_prefix(err, rc, "registration of rank %u", reg->rank) : 0;
}

int registration_decode(const void *data, size_t len, struct registration *reg, struct err *err)
{
	*reg = (struct registration){0};
	if (len > REGISTRATION_BYTES_MAX)
		return err_set(err, -E2BIG, "registration: %zu bytes, at most %d are possible", len,
			       REGISTRATION_BYTES_MAX);
	struct rbuf in = rbuf_of(data, len);
	int rc = read_head(&in, reg, err);
	if (rc == 0)
		rc = read_entries(&in, reg, err);
	if (rc < 0)
		registration_free(reg);
	return rc;
}
