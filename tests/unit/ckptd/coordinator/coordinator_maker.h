/* A coordinator of three nodes that note what they are told: for its tests. */
#ifndef CKPT_TESTS_COORD_MAKER_H
#define CKPT_TESTS_COORD_MAKER_H

#include "coordinator/coordinator_private.h"

enum { NODES = 3, EACH = 2, WORLD = NODES * EACH };

extern struct coord *coord;
extern struct told {
	uint32_t epoch, raised, joined, looked, fetched, restored, refused, told;
	uint8_t loss; /* what the last epoch followed from */
	int refusal, failure, away;
	bool towards_storage;      /* the failure is */
	uint32_t resumes, resumed; /* how often it was told to go on, and in which epoch */
	struct step_id failed, copied, kept_step;
	uint32_t copies, compares, schedules;
	struct schedule schedule; /* the last that it was told of */
	struct peer_compare ask;  /* the last */
	enum level_shown level;
	uint32_t kept_in;      /* the epoch that it was told of last, then */
	struct peer_look look; /* the last */
	struct peer_choice choice;
	struct peer_restore_fetch bring;
	uint32_t writes, clears;
	struct share_parts parts;
	uint32_t lists, list; /* how often it was to list pieces, and of which shares */
	int passed;
	bool found, kept;
	uint32_t spill_orders;
	uint32_t standstills;
	struct peer_standstill standstill; /* the last */
	uint32_t paces;
	struct peer_stragglers stragglers; /* the last */
	enum peer_finish_state finish;     /* the last; 0: none */
	struct peer_spill spills[NODES];   /* the last, by owner */
	uint32_t lost;                     /* with the last raise */
	char text[WIRE_TEXT_MAX], why[WIRE_TEXT_MAX];
} told[NODES];
/* What the coordinator's own daemon was ordered. */
extern struct place {
	uint32_t made, sealed, dropped, removed;
	struct step_id id; /* that was made last */
	char manifest[4096];
} place;

extern bool shut;        /* nobody is let into an epoch */
extern bool slow_record; /* an epoch is recorded by record(), not at once */
void record(uint32_t epoch);

extern uint32_t surveys; /* that were ordered */

void coord_maker_setup(void); /* all join, in epoch 1, which nobody has entered */
void coord_maker_setup_in(uint32_t epoch);
/* Another daemon coordinates from now on; all nodes are in the epoch, and none has come yet. */
void coord_maker_take_over(uint32_t epoch);
void coord_maker_teardown(void);
struct coord_from from(uint32_t node);
/* The node says that it has one share. */
void hold(uint32_t node, uint64_t what, uint64_t cut);
/* All ranks of the node want to enter. Ranks are spread round the nodes: n, n + NODES, … */
void join(uint32_t node);
void join_all(void);

#endif
