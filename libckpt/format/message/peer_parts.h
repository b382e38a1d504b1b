/* Parts of the messages of peer_coord.h: for these alone. A check says which message is wrong, and why: -EBADMSG. */
#ifndef CKPT_FORMAT_PEER_PARTS_H
#define CKPT_FORMAT_PEER_PARTS_H

#include "base/bytes.h"
#include "format/message/peer_coord.h"

/* peer_coord.c */
int peer_finish(const struct rbuf *r, uint16_t type, const char *job, struct err *err);
int peer_check_step(uint16_t type, uint64_t step, struct err *err);
int peer_bad(uint16_t type, struct err *err, const char *what, uint64_t value);
int peer_check_id(uint16_t type, struct step_id id, bool may_be_none, struct err *err);
int peer_check_rc(uint16_t type, int32_t rc, struct err *err);

/* peer_parts.c */
void peer_node_ready_put(struct wbuf *out, const struct peer_node_ready *m);
void peer_node_ready_get(struct rbuf *r, struct peer_node_ready *m);
void peer_restore_candidates_put(struct wbuf *out, const struct peer_restore_candidates *m);
void peer_restore_candidates_get(struct rbuf *r, struct peer_restore_candidates *m);
int peer_restore_candidates_check(const struct peer_restore_candidates *m, struct err *err);
void peer_restore_fetch_put(struct wbuf *out, const struct peer_restore_fetch *m);
void peer_restore_fetch_get(struct rbuf *r, struct peer_restore_fetch *m);
int peer_restore_fetch_check(uint16_t type, const struct peer_restore_fetch *m, struct err *err);
void peer_look_put(struct wbuf *out, const struct peer_look *m);
void peer_look_get(struct rbuf *r, struct peer_look *m);
int peer_look_check(const struct peer_look *m, struct err *err);
void peer_choice_put(struct wbuf *out, const struct peer_choice *m);
void peer_choice_get(struct rbuf *r, struct peer_choice *m);
int peer_choice_check(uint16_t type, const struct peer_choice *m, struct err *err);
void peer_save_put(struct wbuf *out, const struct peer_save *m);
void peer_save_get(struct rbuf *r, struct peer_save *m);
int peer_save_check(uint16_t type, const struct peer_save *m, struct err *err);
void peer_capacity_put(struct wbuf *out, const struct peer_capacity *m);
void peer_capacity_get(struct rbuf *r, struct peer_capacity *m);
int peer_capacity_check(const struct peer_capacity *m, struct err *err);
/* answered: the sender waits for an answer, as of a drain, and of nothing else. */
int peer_request_check(const struct peer_request *m, struct err *err);
int peer_command_check(const struct wire_command *m, struct err *err);

void peer_recovered_put(struct wbuf *out, const struct peer_recovered *m);
void peer_recovered_get(struct rbuf *r, struct peer_recovered *m);
int peer_recovered_check(const struct peer_recovered *m, struct err *err);

void peer_schedule_wanted_put(struct wbuf *out, const struct peer_schedule_wanted *m);
void peer_schedule_wanted_get(struct rbuf *r, struct peer_schedule_wanted *m);
int peer_schedule_wanted_check(const struct peer_schedule_wanted *m, struct err *err);

/* peer_replica_digest.c */
void peer_replica_digests_put(struct wbuf *out, const struct peer_replica_digests *m);
void peer_replica_digests_get(struct rbuf *r, struct peer_replica_digests *m);
int peer_replica_digests_check(const struct peer_replica_digests *m, struct err *err);
void peer_compare_put(struct wbuf *out, const struct peer_compare *m);
void peer_compare_get(struct rbuf *r, struct peer_compare *m);
int peer_compare_check(uint16_t type, const struct peer_compare *m, struct err *err);
void peer_compared_put(struct wbuf *out, const struct peer_compared *m);
void peer_compared_get(struct rbuf *r, struct peer_compared *m);
int peer_compared_check(const struct peer_compared *m, struct err *err);

/* peer_tensors.c */
void peer_tensors_ask_put(struct wbuf *out, const struct peer_tensors_ask *m);
void peer_tensors_ask_get(struct rbuf *r, struct peer_tensors_ask *m);
int peer_tensors_ask_check(uint16_t type, const struct peer_tensors_ask *m, struct err *err);
void peer_tensors_put(struct wbuf *out, const struct peer_tensors *m);
void peer_tensors_get(struct rbuf *r, struct peer_tensors *m);

/* peer_standstill.c */
void peer_silent_put(struct wbuf *out, const struct peer_silent *m);
void peer_silent_get(struct rbuf *r, struct peer_silent *m);
int peer_silent_check(const struct peer_silent *m, struct err *err);
void peer_standstill_put(struct wbuf *out, const struct peer_standstill *m);
void peer_standstill_get(struct rbuf *r, struct peer_standstill *m);
int peer_standstill_check(const struct peer_standstill *m, struct err *err);

/* peer_stragglers.c */
void peer_pace_put(struct wbuf *out, const struct peer_pace *m);
void peer_pace_get(struct rbuf *r, struct peer_pace *m);
int peer_pace_check(const struct peer_pace *m, struct err *err);
void peer_stragglers_put(struct wbuf *out, const struct peer_stragglers *m);
void peer_stragglers_get(struct rbuf *r, struct peer_stragglers *m);
int peer_stragglers_check(const struct peer_stragglers *m, struct err *err);

/* peer_halt.c */
void peer_halt_put(struct wbuf *out, const struct peer_halt *m);
void peer_halt_get(struct rbuf *r, struct peer_halt *m);
int peer_halt_check(enum peer_type type, const struct peer_halt *m, struct err *err);

/* peer_spill.c */
void peer_part_put(struct wbuf *out, const struct peer_part *m);
void peer_part_get(struct rbuf *r, struct peer_part *m);
int peer_part_check(uint16_t type, const struct peer_part *m, struct err *err);
void peer_spill_put(struct wbuf *out, const struct peer_spill *m);
void peer_spill_get(struct rbuf *r, struct peer_spill *m);
int peer_spill_check(const struct peer_spill *m, struct err *err);
void peer_spilled_put(struct wbuf *out, const struct peer_spilled *m);
void peer_spilled_get(struct rbuf *r, struct peer_spilled *m);
int peer_spilled_check(const struct peer_spilled *m, struct err *err);

#endif
