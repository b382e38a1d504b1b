/* Candidates: what there is of a job's steps when it restores, and which of them is the newest that can be had. That is
 * so if all ranks can get their part: out of their own node's memory, from a node that holds a copy, or from storage.
 * What could not be had after all is passed over.
 *
 * Everything that is entered here was complete on every rank: a snapshot is in memory, and is copied, only as such
 * (coordinator/save/copy.c). */
#ifndef CKPTD_COORDINATOR_RESTORE_CANDIDATES_H
#define CKPTD_COORDINATOR_RESTORE_CANDIDATES_H

#include "format/tensor/names.h"

#include <stdbool.h>
#include <stddef.h>

struct candidates {
	struct candidates_entry *entries;
	size_t n, size;
	bool sorted, short_of_memory; /* something could not be entered */
};

/* Zeroed it is empty. */
void candidates_clear(struct candidates *l);
/* The memory of the node has it, for all ranks of that node. */
void candidates_add_memory(struct candidates *l, uint32_t node, struct step_id id);
/* The node holds a copy of the rank's part. */
void candidates_add_copy(struct candidates *l, uint32_t node, uint32_t rank, struct step_id id);
void candidates_add_stored(struct candidates *l, struct step_id id);
/* It cannot be had. */
void candidates_pass_over(struct candidates *l, struct step_id id);

/* Steps that no node has in memory, and storage has not: copies of them do not count. */
void candidates_drop_copies_alone(struct candidates *l);
/* The newest one; epoch 0: there is none. owners: by rank, the node that it is on. -ENOMEM. */
int candidates_choose(struct candidates *l, uint32_t world, const uint32_t *owners, struct step_id *out);
/* A step that is newer than what was chosen, stands somewhere, and cannot be had: nobody has this rank's part. */
struct candidates_gap {
	struct step_id id;
	uint32_t rank;
};
/* Those between the two, the newest first; before: epoch 0: whatever is newer than chosen; chosen: epoch 0: all that
 * there is. Not those that were passed over. Returns how many, at most max. */
uint32_t candidates_gaps(struct candidates *l, uint32_t world, const uint32_t *owners, struct step_id chosen,
			 struct step_id before, struct candidates_gap *gaps, uint32_t max);
/* The memory of the node has it, for all of its ranks. */
bool candidates_in_memory(const struct candidates *l, struct step_id id, uint32_t node);
bool candidates_is_stored(const struct candidates *l, struct step_id id);
/* Nodes that hold a copy of the rank's part, in the order of their numbers. Returns how many, at most max. */
uint32_t candidates_holders(struct candidates *l, struct step_id id, uint32_t rank, uint32_t *nodes, uint32_t max);
bool candidates_is_empty(const struct candidates *l);

#endif
