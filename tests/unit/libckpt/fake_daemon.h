/* A daemon in a thread of the test: it speaks the real protocol over a real socket, makes real arenas, and does with them
 * what the test says. All ranks of the job are local. */
#ifndef CKPT_TESTS_FAKE_DAEMON_H
#define CKPT_TESTS_FAKE_DAEMON_H

#include "format/arena/arena.h"
#include "format/arena/layout.h"
#include "format/message/wire.h"

enum { FAKE_WORLD_MAX = 4 };

struct fake;

/* Listens at fake_socket() in a directory of its own; the job has `world` ranks and is in epoch 1. */
struct fake *fake_start(uint32_t world);
/* Ends it and removes the directory. */
void fake_stop(struct fake *f);
const char *fake_socket(const struct fake *f);

/* ---- how it answers ---- */
struct fake_manners {
	struct wire_error hello; /* rc != 0: the answer to HELLO, `hello_times` times (0: always) */
	unsigned hello_times;
	uint32_t protocol; /* in WELCOME; 0: the right one */
	bool no_storage, peers;
	struct wire_error register_, join, restore; /* rc != 0: the answer */
	bool hold_join;                             /* does not answer JOIN */
	bool hold_register;                         /* does not answer REGISTER */
	bool hold_restore;                          /* does not answer RESTORE */
	bool forget;                                /* ignores RETURN: the arenas are lost */
	bool settles_first;                         /* of new arenas the first slot's pages alone are settled */
	bool silent;                                /* reads, but answers nothing */
	struct wire_restored restored;              /* nlocal 0: filled with slot `restored.slots[0]` of every rank */
};
void fake_manners(struct fake *f, const struct fake_manners *manners);
/* Answers the JOINs that hold_join held. */
void fake_let_join(struct fake *f);
/* Answers the REGISTERs that hold_register held. */
void fake_let_register(struct fake *f);

/* Answers the RESTOREs that hold_restore held, by what the manners say now. */
void fake_let_restore(struct fake *f);

/* ---- what it does ---- */
/* Dies: every connection and mapping goes, at once. Then lives again, knowing nothing. */
void fake_die(struct fake *f);
void fake_live(struct fake *f);
/* The same; this epoch was raised while it was away. */
void fake_live_in(struct fake *f, uint32_t epoch);
/* Waits (5 s) until n HELLOs were welcomed since the start. */
void fake_await_hellos(struct fake *f, unsigned n);
/* Waits (5 s) until n requests of this type arrived since the start. */
void fake_await(struct fake *f, enum wire_type type, unsigned n);
unsigned fake_count(struct fake *f, enum wire_type type);
/* Waits (5 s) for the doorbell; clears it. false: it did not ring. */
bool fake_rang(struct fake *f);
/* As the real one: first the arenas, then the messages. */
void fake_epoch(struct fake *f, uint32_t epoch, const char *reason);
/* Only the arenas, not yet the messages. */
void fake_epoch_quietly(struct fake *f, uint32_t epoch);
/* The first ranks are gone for good, the others are that many less: their next REGISTER or JOIN is answered by MOVED. */
void fake_shrink(struct fake *f, uint32_t lost);
void fake_event(struct fake *f, struct step_id id, int rc, const char *text);
struct fake_level {
	struct step_id id;
	int level, error;
	uint32_t late_rank, late_phase;
};
void fake_publish(struct fake *f, const struct fake_level *level);
/* Frees a slot and wakes. */
void fake_free(struct fake *f, uint32_t rank, uint32_t slot);
void fake_wake(struct fake *f);

/* ---- what it holds ---- */
struct arena_head *fake_head(struct fake *f, uint32_t rank);
uint8_t *fake_slot(struct fake *f, uint32_t rank, uint32_t slot);
uint64_t *fake_leaves(struct fake *f, uint32_t rank, uint32_t slot);
const struct layout *fake_layout(struct fake *f, uint32_t rank);
const struct registration *fake_registration(struct fake *f, uint32_t rank);
/* Of the last HELLO and JOIN of a rank. */
struct wire_hello fake_hello(struct fake *f, uint32_t rank);
struct wire_join fake_join(struct fake *f, uint32_t rank);

#endif
