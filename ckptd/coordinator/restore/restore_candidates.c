#include "coordinator/restore/restore_candidates.h"

#include "base/bytes.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind { PASSED_OVER = 0, STORED, IN_MEMORY, COPIED };

/* Those of one step stand together, the newest first; a step that is passed over begins with the entry that says so. */
struct candidates_entry {
	struct step_id id;
	enum kind kind;
	uint32_t rank, node;
};

void candidates_clear(struct candidates *l)
{
	free(l->entries);
	*l = (struct candidates){0};
}

bool candidates_is_empty(const struct candidates *l)
{
	return !l->n;
}

static void add(struct candidates *l, struct candidates_entry entry)
{
	if (l->n == l->size) {
		size_t size = l->size ? 2 * l->size : 64;
		struct candidates_entry *more = reallocarray(l->entries, size, sizeof(*more));
		if (!more) {
			l->short_of_memory = true;
			return;
		}
		l->entries = more;
		l->size = size;
	}
	l->entries[l->n++] = entry;
	l->sorted = false;
}

void candidates_add_memory(struct candidates *l, uint32_t node, struct step_id id)
{
	add(l, (struct candidates_entry){.id = id, .kind = IN_MEMORY, .node = node});
}

void candidates_add_copy(struct candidates *l, uint32_t node, uint32_t rank, struct step_id id)
{
	add(l, (struct candidates_entry){.id = id, .kind = COPIED, .node = node, .rank = rank});
}

void candidates_add_stored(struct candidates *l, struct step_id id)
{
	add(l, (struct candidates_entry){.id = id, .kind = STORED});
}

void candidates_pass_over(struct candidates *l, struct step_id id)
{
	add(l, (struct candidates_entry){.id = id, .kind = PASSED_OVER});
}

static int compare(const void *a, const void *b)
{
	const struct candidates_entry *x = a, *y = b;
	int order = step_compare(y->id, x->id);
	if (!order)
		order = (int)x->kind - (int)y->kind;
	if (!order)
		order = (x->rank > y->rank) - (x->rank < y->rank);
	return order ? order : (x->node > y->node) - (x->node < y->node);
}

static void sort(struct candidates *l)
{
	if (!l->sorted && l->n)
		qsort(l->entries, l->n, sizeof(*l->entries), compare);
	l->sorted = true;
}

static size_t end_of_step(const struct candidates *l, size_t at)
{
	size_t end = at;
	while (end < l->n && !step_compare(l->entries[end].id, l->entries[at].id))
		end++;
	return end;
}

static bool has_node(const struct candidates_entry *from, const struct candidates_entry *to, uint32_t node)
{
	while (from < to) { /* in the order of the nodes */
		const struct candidates_entry *mid = from + (to - from) / 2;
		if (mid->node == node)
			return true;
		if (mid->node < node)
			from = mid + 1;
		else
			to = mid;
	}
	return false;
}

/* A rank that nobody has, or world. covered: one for each rank. */
static uint32_t lacking(const struct candidates_entry *e, const struct candidates_entry *end, uint32_t world,
			const uint32_t *owners, bool *covered)
{
	const struct candidates_entry *copies = e;
	memset(covered, 0, world);
	while (copies < end && copies->kind == IN_MEMORY)
		copies++;
	for (const struct candidates_entry *copy = copies; copy < end; copy++)
		if (copy->rank < world)
			covered[copy->rank] = true;
	for (uint32_t r = 0; r < world; r++)
		if (!covered[r] && !has_node(e, copies, owners[r]))
			return r;
	return world;
}

void candidates_drop_copies_alone(struct candidates *l)
{
	size_t kept = 0;
	sort(l);
	for (size_t at = 0, end; at < l->n; at = end) {
		end = end_of_step(l, at);
		size_t n = l->entries[at].kind == COPIED ? 0 : end - at;
		memmove(l->entries + kept, l->entries + at, n * sizeof(*l->entries));
		kept += n;
	}
	l->n = kept;
}

int candidates_choose(struct candidates *l, uint32_t world, const uint32_t *owners, struct step_id *out)
{
	*out = (struct step_id){0};
	AUTO_FREE bool *covered = malloc(max_u64(world, 1));
	if (!covered || l->short_of_memory)
		return -ENOMEM;
	sort(l);
	for (size_t at = 0, end; at < l->n; at = end) {
		const struct candidates_entry *e = &l->entries[at];
		end = end_of_step(l, at);
		if (e->kind == PASSED_OVER)
			continue;
		if (e->kind == STORED || lacking(e, l->entries + end, world, owners, covered) == world) {
			*out = e->id;
			return 0;
		}
	}
	return 0;
}

uint32_t candidates_gaps(struct candidates *l, uint32_t world, const uint32_t *owners, struct step_id chosen,
			 struct step_id before, struct candidates_gap *gaps, uint32_t max)
{
	AUTO_FREE bool *covered = malloc(max_u64(world, 1));
	uint32_t n = 0;
	if (!covered)
		return 0;
	sort(l);
	for (size_t at = 0, end; at < l->n && n < max; at = end) {
		const struct candidates_entry *e = &l->entries[at];
		end = end_of_step(l, at);
		if (step_compare(e->id, chosen) <= 0)
			break;
		if (e->kind == PASSED_OVER || (before.epoch && step_compare(e->id, before) >= 0))
			continue;
		gaps[n++] = (struct candidates_gap){e->id, lacking(e, l->entries + end, world, owners, covered)};
	}
	return n;
}

bool candidates_in_memory(const struct candidates *l, struct step_id id, uint32_t node)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->entries[i].kind == IN_MEMORY && l->entries[i].node == node &&
		    !step_compare(l->entries[i].id, id))
			return true;
	return false;
}

bool candidates_is_stored(const struct candidates *l, struct step_id id)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->entries[i].kind == STORED && !step_compare(l->entries[i].id, id))
			return true;
	return false;
}

uint32_t candidates_holders(struct candidates *l, struct step_id id, uint32_t rank, uint32_t *nodes, uint32_t max)
{
	uint32_t n = 0;
	struct candidates_entry first = {.id = id, .kind = COPIED, .rank = rank};
	sort(l);
	size_t from = 0, to = l->n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		if (compare(&l->entries[mid], &first) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	for (; from < l->n && n < max; from++) {
		const struct candidates_entry *e = &l->entries[from];
		if (e->kind != COPIED || e->rank != rank || step_compare(e->id, id) != 0)
			break;
		if (!n || nodes[n - 1] != e->node)
			nodes[n++] = e->node;
	}
	return n;
}
