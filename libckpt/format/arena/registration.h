/* Registration: what one rank holds. Sent by libckpt, checked by ckptd, kept in the arena's head so that it survives
 * both. Binary little-endian encoding, versioned by the control protocol:
 *   u32 rank, world, nentries; per entry: str name; u8 kind (and ENTRY_SIZED), dtype, ndim; ndim × u64 dim; str group, replica;
 *   u32 npieces; npieces × region (region.h). A str is a u16 length and its bytes. */
#ifndef CKPT_FORMAT_REGISTRATION_H
#define CKPT_FORMAT_REGISTRATION_H

#include "base/bytes.h"
#include "base/err.h"
#include "format/tensor/digest.h"
#include "format/tensor/dtype.h"
#include "format/tensor/names.h"
#include "format/tensor/region.h"

enum entry_kind {
	ENTRY_TENSOR = 1,
	ENTRY_JOB_BLOB = 2,  /* U8 [size], the same bytes on every rank: replicated, written once */
	ENTRY_RANK_BLOB = 3, /* U8 [size], one per rank: its name in the store is "<name>@<rank, 5 digits>" */
};

enum { ENTRY_SIZED = 0x80 }; /* a bit of an encoded kind */

enum {
	REGISTRATION_ENTRIES_MAX = 1 << 20,
	REGISTRATION_PIECES_MAX = 1 << 22,
	REGISTRATION_BYTES_MAX = 256 << 20, /* of the encoding */
};
#define REGISTRATION_DATA_MAX (1ull << 60) /* bytes of all pieces of a rank: sums of a node's never overflow */

struct entry {
	char *name; /* NAME_TENSOR_MAX; for a rank blob already with its "@rank" */
	enum entry_kind kind;
	bool sized; /* a blob of changing size (sized_blob.h) */
	enum dtype dtype;
	struct shape shape;         /* global */
	char group[NAME_GROUP_MAX]; /* tensor group: one file per rank and group */
	/* "": this rank alone holds its pieces; else every rank that registers the same entry and piece under the same
	 * replica group holds identical bytes. Blobs have none: their kind says it. */
	char replica[NAME_GROUP_MAX];
	uint32_t npieces;
	struct region *pieces; /* npieces; disjoint; a blob has one, all of it */
};

struct registration {
	uint32_t rank, world;
	uint32_t nentries;
	struct entry *entries; /* unique names; the caller's order */
	uint32_t *by_name;     /* nentries indices sorted by name, or NULL when built by hand and not indexed */
};

/* Frees what registration_decode or a caller allocated (entries, their names and pieces, by_name) and empties it. */
void registration_free(struct registration *reg);
/* 0 or -ENOMEM. Does not check: registration_decode does, on both sides. Two registrations are the same exactly when their
 * encodings are. */
int registration_encode(const struct registration *reg, struct wbuf *out);
/* Decodes and checks everything that one rank's table can violate: names, dtypes, bounds, disjoint pieces, duplicate
 * names, sizes. On error *reg is empty. -EBADMSG for a broken encoding, -E2BIG for one above the limits, -ENOMEM, else
 * -EINVAL/-ERANGE/-EEXIST/-EOVERFLOW with the entry named. Memory is bounded by a small multiple of len. */
int registration_decode(const void *data, size_t len, struct registration *reg, struct err *err);
/* Sorts by_name anew. -EEXIST names an entry that stands twice; then and on -ENOMEM there is no index. */
int registration_index(struct registration *reg, struct err *err);
/* NULL when absent. O(log n) with the index, which registration_decode makes, else O(n). */
const struct entry *registration_find(const struct registration *reg, const char *name);

#endif
