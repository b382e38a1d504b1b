/* Heir: who is to coordinate a job next, as its coordinator says that hands it over.
 *
 *	jobs/JOB/heir    "TERM NODE": after that term, this node. Written as the coordinator's own record is deleted, in one transaction and under its
 *	                 lease; deleted by who is elected next, as it creates its record.
 *
 * The other nodes give that one the time of a lease to be elected. If it is not, or says no, any of them may be: the record only says who comes first. */
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
/* Who comes first, where nobody coordinates the job since `since_ns`, and in that term it was coordinated last. */
enum heir heir_of(const struct control *control, const char *job, uint64_t term, uint64_t since_ns);

#endif
