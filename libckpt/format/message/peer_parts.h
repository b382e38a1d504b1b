/* Parts of the messages of peer_coord.h: for these alone. A check says which message is wrong, and why: -EBADMSG. */
#ifndef CKPT_FORMAT_PEER_PARTS_H
#define CKPT_FORMAT_PEER_PARTS_H

#include "format/message/field.h"
#include "format/message/peer_coord.h"

/* A message: how it is called, and what it has behind the job (and the epoch, of a report). */
struct peer_message {
	const char *name;
	const struct field *fields; /* NULL: nothing */
};
extern const struct peer_message peer_reports[PEER_REPORT_END];
extern const struct peer_message peer_orders[PEER_ORDER_END - PEER_ADOPT];

/* peer_coord.c */
int peer_finish(const struct rbuf *r, uint16_t type, const char *job, struct err *err);
int peer_check_step(uint16_t type, uint64_t step, struct err *err);
int peer_bad(uint16_t type, struct err *err, const char *what, uint64_t value);
int peer_check_id(uint16_t type, struct step_id id, bool may_be_none, struct err *err);
int peer_check_rc(uint16_t type, int32_t rc, struct err *err);

/* peer_parts.c */
extern const struct field peer_node_ready_fields[];
extern const struct field peer_restore_candidates_fields[];
int peer_restore_candidates_check(const struct peer_restore_candidates *m, struct err *err);
extern const struct field peer_restore_fetch_fields[];
int peer_restore_fetch_check(uint16_t type, const struct peer_restore_fetch *m, struct err *err);
extern const struct field peer_look_fields[];
int peer_look_check(const struct peer_look *m, struct err *err);
extern const struct field peer_choice_fields[];
int peer_choice_check(uint16_t type, const struct peer_choice *m, struct err *err);
extern const struct field peer_save_fields[];
int peer_save_check(uint16_t type, const struct peer_save *m, struct err *err);
extern const struct field peer_capacity_fields[];
int peer_capacity_check(const struct peer_capacity *m, struct err *err);
/* answered: the sender waits for an answer, as of a drain, and of nothing else. */
int peer_request_check(const struct peer_request *m, struct err *err);
int peer_command_check(const struct wire_command *m, struct err *err);

extern const struct field peer_recovered_fields[];
int peer_recovered_check(const struct peer_recovered *m, struct err *err);

extern const struct field peer_schedule_wanted_fields[];
int peer_schedule_wanted_check(const struct peer_schedule_wanted *m, struct err *err);

/* peer_replica_digest.c */
extern const struct field peer_replica_digests_fields[];
int peer_replica_digests_check(const struct peer_replica_digests *m, struct err *err);
extern const struct field peer_compare_fields[];
int peer_compare_check(uint16_t type, const struct peer_compare *m, struct err *err);
extern const struct field peer_compared_fields[];
int peer_compared_check(const struct peer_compared *m, struct err *err);

/* peer_tensors.c */
extern const struct field peer_tensors_ask_fields[];
int peer_tensors_ask_check(uint16_t type, const struct peer_tensors_ask *m, struct err *err);
extern const struct field peer_tensors_fields[];

/* peer_standstill.c */
extern const struct field peer_silent_fields[];
int peer_silent_check(const struct peer_silent *m, struct err *err);
extern const struct field peer_standstill_fields[];
int peer_standstill_check(const struct peer_standstill *m, struct err *err);

/* peer_stragglers.c */
extern const struct field peer_pace_fields[];
int peer_pace_check(const struct peer_pace *m, struct err *err);
extern const struct field peer_stragglers_fields[];
int peer_stragglers_check(const struct peer_stragglers *m, struct err *err);

/* peer_halt.c */
extern const struct field peer_halt_fields[];
int peer_halt_check(enum peer_type type, const struct peer_halt *m, struct err *err);

/* peer_spill.c */
extern const struct field peer_part_fields[];
int peer_part_check(uint16_t type, const struct peer_part *m, struct err *err);
extern const struct field peer_spill_fields[];
int peer_spill_check(const struct peer_spill *m, struct err *err);
extern const struct field peer_spilled_fields[];
int peer_spilled_check(const struct peer_spilled *m, struct err *err);

#endif
