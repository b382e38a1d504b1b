/* Participant: a job's place at its coordinator (coordinator/coordinator.h): what this node reports to it, and what it
 * orders, done on this node. Where the coordinator is, is control/host/coordinator_host.h's business. While it cannot be
 * reached nothing is reported; when it can again, the node joins anew and says what still holds (job/participation.h). */
#ifndef CKPTD_PARTICIPANT_PARTICIPANT_H
#define CKPTD_PARTICIPANT_PARTICIPANT_H

#include "base/err.h"
#include "coordinator/room.h"
#include "format/message/peer_coord.h"
#include "format/message/wire.h"

struct control;
struct job;
struct peers;

/* What a report needs of its job, which stands above (job/participation.c has the function). */
struct reporter {
	const struct peers *peers;
	struct control *control;
	const char *name;
	bool spread; /* over nodes; else its coordinator is here */
	uint32_t epoch;
};
struct reporter job_reporter(const struct job *job);

/* Reports: see coordinator/coordinator.h. */
void participant_want(const struct job *job, uint32_t rank);
void participant_not_joining(const struct job *job);
void participant_lost(const struct job *job, uint32_t rank, bool was_in, const char *why);
void participant_missing(const struct job *job, uint32_t rank);
void participant_restoring(const struct job *job, uint64_t step);
void participant_not_restoring(const struct job *job);
void participant_found(const struct job *job, const struct peer_restore_candidates *found);
void participant_fetched(const struct job *job, struct step_id id, int rc, enum wire_source source, const char *text);
void participant_copied(const struct job *job, struct step_id id);
void participant_reached(const struct job *job, struct step_id id, enum level_shown level);
/* Any report; all but the name of the job and the epoch is the caller's. */
void participant_say(const struct job *job, struct peer_report *report);
void participant_uncopied(const struct job *job, struct step_id id, const char *why);
void participant_prepared(const struct job *job, struct step_id id, uint64_t maker, const struct peer_part *part);
void participant_ready(const struct job *job, struct step_id id);
void participant_passed(const struct job *job, struct step_id id, int rc, const char *text);
void participant_cleared(const struct job *job, struct step_id id);
/* storage: towards storage alone. */
void participant_failed(const struct job *job, struct step_id id, bool storage, int rc, const char *text);
void participant_forgot(const struct job *job, struct step_id id);
void participant_capacity(const struct job *job, const struct peer_capacity *assignment);
void participant_quiesced(const struct job *job, uint32_t plan, int rc, const char *text);
/* An operator's command is for the other nodes of the job, too: whether they can be told (-ENOTCONN: they cannot), and telling them. */
int participant_can_forward(const struct job *job, struct err *err);
void participant_forward(const struct job *job, const struct wire_command *command);
/* The job goes back to an earlier step: its coordinator begins an epoch with that, unless it is in another one already. */
void participant_roll_back(const struct job *job, const struct wire_rollback *to);
/* To another node. -ENOTCONN: it cannot be reached, or there is none. */
int participant_send(const struct peers *peers, const struct control *control, uint32_t node,
		     const struct peer_report *report);
/* Also of a job that this node has no ranks of. */
void participant_spilled(const struct peers *peers, struct control *control, const char *job,
			 const struct peer_spilled *spilled);

#endif
