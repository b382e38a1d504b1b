/* Heir: the node that is to coordinate a job next, as the coordinator that hands the job over says.
 *
 *	jobs/JOB/heir    "TERM NODE": after that term, this node. Written in the transaction that deletes the coordinator's
 *	                 own record, and under its lease. Deleted by the next coordinator, as it creates its record.
 *
 * The other nodes give the heir the time of a lease to be elected. If it is not elected, or says no, any of them may be:
 * the record only says which node comes first. */
#ifndef CKPTD_CONTROL_HEIR_H
#define CKPTD_CONTROL_HEIR_H

#include "format/tensor/names.h"
#include "registry/room.h"

#include <stdbool.h>
#include <stdint.h>

enum { HEIR_MAX = NAME_NODE_MAX + 24 };

struct control;

void heir_key(const char *job, char key[REGISTRY_KEY_MAX]);
void heir_text(uint64_t term, const char *node, char text[HEIR_MAX]);
enum heir { HEIR_NOBODY = 0, HEIR_OTHER, HEIR_SELF };
/* Which node comes first, if no node coordinates the job since `since_ns`, and in that term it was coordinated last. */
enum heir heir_of(const struct control *control, const char *job, uint64_t term, uint64_t since_ns);

#endif
