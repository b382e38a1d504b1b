#include "client/capture/table.h"

#include "base/cleanup.h"
#include "base/quoted.h"

#include <stdio.h>
#include <string.h>

void table_init(struct table *table, uint32_t rank, uint32_t world)
{
	*table = (struct table){.reg = {.rank = rank, .world = world}};
}

void table_free(struct table *table)
{
	for (uint32_t i = 0; i < table->reg.nentries; i++) {
		free(table->held[i].places);
		free(table->held[i].own);
	}
	registration_free(&table->reg);
	free(table->held);
	free(table->buckets);
	free(table->moved);
	wbuf_free(&table->bytes);
	*table = (struct table){0};
}

/* The bucket that holds the name, or the empty one where it belongs. */
static uint32_t bucket_of(const struct table *table, const char *name)
{
	uint32_t mask = table->nbuckets - 1, b = (uint32_t)digest_bytes(name, strlen(name)).low & mask;
	while (table->buckets[b] && strcmp(table->reg.entries[table->buckets[b] - 1].name, name) != 0)
		b = (b + 1) & mask;
	return b;
}

int64_t table_find(const struct table *table, const char *name)
{
	if (!table->nbuckets)
		return -ENOENT;
	uint32_t found = table->buckets[bucket_of(table, name)];
	return found ? (int64_t)found - 1 : -ENOENT;
}

int64_t table_find_own(const struct table *table, const char *name)
{
	char own[NAME_TENSOR_MAX];
	int64_t at = table_find(table, name);
	if (at >= 0 || (size_t)snprintf(own, sizeof(own), RANK_BLOB_NAME, name, table->reg.rank) >= sizeof(own))
		return at;
	return table_find(table, own);
}

static int grow(struct table *table)
{
	if (table->reg.nentries < table->cap)
		return 0;
	uint32_t cap = table->cap ? table->cap * 2 : 64;
	struct entry *entries = realloc(table->reg.entries, cap * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	table->reg.entries = entries;
	struct held *held = realloc(table->held, cap * sizeof(*held));
	if (!held)
		return -ENOMEM;
	table->held = held;
	/* At most half full. */
	uint32_t *buckets = calloc((size_t)cap * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(table->buckets);
	table->buckets = buckets;
	table->nbuckets = cap * 2;
	table->cap = cap;
	for (uint32_t i = 0; i < table->reg.nentries; i++)
		table->buckets[bucket_of(table, table->reg.entries[i].name)] = i + 1;
	return 0;
}

int table_add(struct table *table, struct entry *entry, struct held *held, struct err *err)
{
	struct registration *reg = &table->reg;
	if (reg->nentries >= REGISTRATION_ENTRIES_MAX)
		return err_set(err, -E2BIG, "it is number %u; a rank registers at most %d tensors and blobs",
			       reg->nentries + 1, REGISTRATION_ENTRIES_MAX);
	if (grow(table))
		return err_set(err, -ENOMEM, "no memory for one more");
	uint32_t b = bucket_of(table, entry->name);
	if (table->buckets[b])
		return err_set(err, -EEXIST, "the name %s is taken", quoted(entry->name).text);
	table->buckets[b] = reg->nentries + 1;
	table->held[reg->nentries] = *held;
	reg->entries[reg->nentries++] = *entry;
	return 0;
}

void table_move(struct table *table, uint32_t entry, uint32_t piece, char *data)
{
	struct place *place = &table->held[entry].places[piece];
	if (place->data == data)
		return;
	place->data = data;
	if (!table->moves)
		table->moved = calloc(TABLE_MOVES, sizeof(*table->moved));
	if (table->moved)
		table->moved[table->moves % TABLE_MOVES] = (struct moved){entry, piece};
	table->moves++;
}

bool table_moves_known(const struct table *table, uint64_t since)
{
	return table->moved && table->moves - since <= TABLE_MOVES;
}

int table_seal(struct table *table, struct err *err)
{
	AUTO_WBUF struct wbuf bytes = {0};
	struct registration copy;
	if (registration_encode(&table->reg, &bytes))
		return err_set(err, -ENOMEM, "no memory for the table of %u tensors", table->reg.nentries);
	if (bytes.len > REGISTRATION_BYTES_MAX)
		return err_set(err, -E2BIG, "the table of %u tensors takes %zu bytes; at most %d are possible",
			       table->reg.nentries, bytes.len, REGISTRATION_BYTES_MAX);
	int rc = registration_decode(bytes.data, bytes.len, &copy, err);
	if (rc)
		return rc;
	registration_free(&copy);
	table->bytes = bytes;
	bytes = (struct wbuf){0};
	return 0;
}

int table_message(const struct table *table, uint32_t timeout_ms, struct wbuf *out)
{
	wbuf_u32(out, timeout_ms);
	wbuf_put(out, table->bytes.data, table->bytes.len);
	return wbuf_finish(out);
}

void place_pack(const struct region *box, uint32_t ndim, unsigned element, int64_t stride[NDIM_MAX])
{
	int64_t step = element;
	for (uint32_t d = ndim; d-- > 0;) {
		stride[d] = step;
		step *= (int64_t)box->extent[d];
	}
}

bool place_packed(const struct place *place, const struct region *box, uint32_t ndim, unsigned element)
{
	int64_t packed[NDIM_MAX];
	place_pack(box, ndim, element, packed);
	for (uint32_t d = 0; d < ndim; d++)
		if (box->extent[d] > 1 && place->stride[d] != packed[d])
			return false;
	return true;
}
