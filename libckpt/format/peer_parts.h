/* Parts of the messages of peer_coord.h: for these alone. A check says which message is wrong, and why: -EBADMSG. */
#ifndef CKPT_FORMAT_PEER_PARTS_H
#define CKPT_FORMAT_PEER_PARTS_H

#include "base/bytes.h"
#include "format/peer_coord.h"

/* peer_coord.c */
int peer_finish(const struct rbuf *r, uint16_t type, const char *job, struct err *err);
int peer_check_step(uint16_t type, uint64_t step, struct err *err);
int peer_bad(uint16_t type, struct err *err, const char *what, uint64_t value);
int peer_check_id(uint16_t type, struct step_id id, bool may_be_none, struct err *err);
int peer_check_rc(uint16_t type, int32_t rc, struct err *err);

/* peer_parts.c */
void peer_joining_put(struct wbuf *out, const struct peer_joining *m);
void peer_joining_get(struct rbuf *r, struct peer_joining *m);
void peer_found_put(struct wbuf *out, const struct peer_found *m);
void peer_found_get(struct rbuf *r, struct peer_found *m);
int peer_found_check(const struct peer_found *m, struct err *err);
void peer_bring_put(struct wbuf *out, const struct peer_bring *m);
void peer_bring_get(struct rbuf *r, struct peer_bring *m);
int peer_bring_check(uint16_t type, const struct peer_bring *m, struct err *err);
void peer_choice_put(struct wbuf *out, const struct peer_choice *m);
void peer_choice_get(struct rbuf *r, struct peer_choice *m);
int peer_choice_check(uint16_t type, const struct peer_choice *m, struct err *err);
void peer_save_put(struct wbuf *out, const struct peer_save *m);
void peer_save_get(struct rbuf *r, struct peer_save *m);
int peer_save_check(uint16_t type, const struct peer_save *m, struct err *err);
void peer_crew_put(struct wbuf *out, const struct peer_crew *m);
void peer_crew_get(struct rbuf *r, struct peer_crew *m);
int peer_crew_check(const struct peer_crew *m, struct err *err);
/* answered: the sender waits for an answer, as of a drain, and of nothing else. */
int peer_ask_check(const struct peer_ask *m, struct err *err);
int peer_command_check(const struct wire_command *m, struct err *err);

void peer_recovered_put(struct wbuf *out, const struct peer_recovered *m);
void peer_recovered_get(struct rbuf *r, struct peer_recovered *m);
int peer_recovered_check(const struct peer_recovered *m, struct err *err);

/* peer_vote.c */
void peer_votes_put(struct wbuf *out, const struct peer_votes *m);
void peer_votes_get(struct rbuf *r, struct peer_votes *m);
int peer_votes_check(const struct peer_votes *m, struct err *err);
void peer_compare_put(struct wbuf *out, const struct peer_compare *m);
void peer_compare_get(struct rbuf *r, struct peer_compare *m);
int peer_compare_check(uint16_t type, const struct peer_compare *m, struct err *err);
void peer_compared_put(struct wbuf *out, const struct peer_compared *m);
void peer_compared_get(struct rbuf *r, struct peer_compared *m);
int peer_compared_check(const struct peer_compared *m, struct err *err);

/* peer_rescue.c */
void peer_part_put(struct wbuf *out, const struct peer_part *m);
void peer_part_get(struct rbuf *r, struct peer_part *m);
int peer_part_check(uint16_t type, const struct peer_part *m, struct err *err);
void peer_rescue_put(struct wbuf *out, const struct peer_rescue *m);
void peer_rescue_get(struct rbuf *r, struct peer_rescue *m);
int peer_rescue_check(const struct peer_rescue *m, struct err *err);
void peer_rescued_put(struct wbuf *out, const struct peer_rescued *m);
void peer_rescued_get(struct rbuf *r, struct peer_rescued *m);
int peer_rescued_check(const struct peer_rescued *m, struct err *err);

#endif
