/* The table of a session: what this rank holds (format/arena/registration.h) and where in memory. Grows until ckpt_join; then
 * only addresses change. */
#ifndef CKPT_TABLE_H
#define CKPT_TABLE_H

#include "format/arena/registration.h"

/* The name of a rank's blob in the job. */
#define RANK_BLOB_NAME "%s@%05u"

/* Where a registered piece stands. stride: bytes per step of each dimension of its box; packed memory has that of the packed box; a
 * flat piece is always packed and has none. */
struct place {
	char *data;
	int64_t stride[NDIM_MAX];
};

/* Parallel to an entry of the registration. */
struct held {
	uint8_t *own;         /* of a blob of changing size: the library's memory, which its place is in; else NULL */
	int device;           /* CKPT_HOST or an ordinal */
	struct place *places; /* one per piece */
};

enum { TABLE_MOVES = 8192 };

/* A piece that was given another address. */
struct moved {
	uint32_t entry, piece;
};

struct table {
	struct registration reg;
	struct held *held;
	uint32_t cap;      /* of reg.entries and held */
	uint32_t *buckets; /* open addressing by name: entry + 1, 0 is empty; nbuckets is a power of two */
	uint32_t nbuckets;
	uint64_t moves; /* how often a piece was given another address */
	/* The last of them: move k, counted from 0, at k % TABLE_MOVES; made at the first. NULL: there was no memory, or no move. */
	struct moved *moved;
	struct wbuf bytes; /* the encoding; empty until sealed */
};

void table_init(struct table *table, uint32_t rank, uint32_t world);
void table_free(struct table *table);

/* Adds an entry that the table takes over on success (name, pieces, places malloc'ed). -EEXIST: the name is taken. */
int table_add(struct table *table, struct entry *entry, struct held *held, struct err *err);
/* The index of a name, or -ENOENT. O(1). */
int64_t table_find(const struct table *table, const char *name);
/* The same, also for a blob of this rank by the name that it was registered with. */
int64_t table_find_own(const struct table *table, const char *name);
/* Gives a piece its address, and notes that it has another one, if it has. */
void table_move(struct table *table, uint32_t entry, uint32_t piece, char *data);
/* Whether `moved` holds all moves from that one on. */
bool table_moves_known(const struct table *table, uint64_t since);
/* Encodes the table and checks it as the daemon will. Afterwards nothing is added. */
int table_seal(struct table *table, struct err *err);
/* The body of REGISTER for a sealed table; timeout_ms 0: the daemon's default. `out` is empty. 0 or -ENOMEM. */
int table_message(const struct table *table, uint32_t timeout_ms, struct wbuf *out);
static inline int table_sealed(const struct table *table)
{
	return table->bytes.len != 0;
}

/* Strides of a packed box, in bytes. */
void place_pack(const struct region *box, uint32_t ndim, unsigned element, int64_t stride[NDIM_MAX]);
/* Whether the box stands packed in its place. Dimensions of extent 1 do not count. */
bool place_packed(const struct place *place, const struct region *box, uint32_t ndim, unsigned element);

#endif
