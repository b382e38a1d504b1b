#include "client/capture/span_index.h"

#include <criterion/criterion.h>

enum { ENTRIES = 5 };

/* Of each piece so many spans; the entry in the middle has no piece. */
static const uint32_t pieces[ENTRIES] = {1, 3, 0, 1, 2};
static const uint32_t spans[ENTRIES][3] = {{1}, {0, 2, 1}, {0}, {3}, {0, 0}};

static struct entry entries[ENTRIES];
static struct span_index made;

static void each(void (*visit)(uint32_t entry, uint32_t piece, struct span_ref ref))
{
	for (uint32_t round = 0; round < 3; round++) /* not piece by piece, as several devices come */
		for (uint32_t e = 0; e < ENTRIES; e++)
			for (uint32_t p = 0; p < pieces[e]; p++)
				if (round < spans[e][p])
					visit(e, p, (struct span_ref){.device = round, .at = e * 100 + p, .source = e});
}

static void count(uint32_t entry, uint32_t piece, struct span_ref ref)
{
	(void)ref;
	span_index_count(&made, entry, piece);
}

static void put(uint32_t entry, uint32_t piece, struct span_ref ref)
{
	span_index_put(&made, entry, piece, ref);
}

Test(span_index, has_the_spans_of_each_piece_and_no_others)
{
	const struct registration reg = {.entries = entries, .nentries = ENTRIES};
	for (uint32_t e = 0; e < ENTRIES; e++)
		entries[e].npieces = pieces[e];
	cr_assert_eq(span_index_init(&made, &reg), 0);
	each(count);
	cr_assert_eq(span_index_ready(&made), 0);
	each(put);
	for (uint32_t e = 0; e < ENTRIES; e++)
		for (uint32_t p = 0; p < pieces[e]; p++) {
			const struct span_ref *refs;
			cr_assert_eq(span_index_of(&made, e, p, &refs), spans[e][p], "piece %u of entry %u", p, e);
			for (uint32_t i = 0; i < spans[e][p]; i++)
				cr_assert(refs[i].device == i && refs[i].at == e * 100 + p && refs[i].source == e);
		}
	span_index_free(&made);
}

Test(span_index, of_nothing_is_empty)
{
	const struct registration none = {0};
	cr_assert_eq(span_index_init(&made, &none), 0);
	cr_assert_eq(span_index_ready(&made), 0);
	span_index_free(&made);
}
