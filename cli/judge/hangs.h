/* Campaign hangs: whether each rank that was made to hang, or to enter another collective, was named in time, and nobody else. By the lines
 * of a journal, the ways into epochs (span log), and what ranks say of a mismatch (the trainer's log). */
#ifndef CKPT_CLI_JUDGE_HANGS_H
#define CKPT_CLI_JUDGE_HANGS_H

#include "journal/journal.h"
#include "judge/judge.h"

#include <stdint.h>

enum hang_by {
	HANG_BY_DAEMON,
	HANG_BY_LAUNCHER,
	HANG_BY_RANK, /* itself */
	HANG_BY_ALL,  /* all ranks, of one that was in another collective */
};

struct hang_fault {
	const struct fault_entry *entry;
	uint64_t index, first; /* first: of those that came together */
	uint32_t rank, node;
	uint64_t from, to; /* when it was caused; when it was known what became of it */
	uint64_t for_ns;
	bool fired;
};

struct hang_name {
	uint64_t at;
	uint32_t rank;
	enum hang_by by;
	bool unsure; /* one of several */
};

/* A daemon did not answer, or (cut) the ways between nodes were broken. */
struct hang_away {
	uint64_t from, to; /* to UINT64_MAX: it has not ended */
	uint32_t node;
	bool cut, apart; /* apart: for so long that ranks that wait are named */
};

struct campaign_hangs {
	struct hang_fault *faults;
	size_t nfaults, room_faults;
	struct hang_name *names;
	size_t nnames, room_names;
	struct hang_away *aways;
	size_t naways, room_aways;
	uint64_t *entered; /* when the job was in an epoch */
	size_t nentered, room_entered;
	uint64_t *breaks; /* when the campaign was stopped */
	size_t nbreaks, room_breaks;
	uint64_t ranks, nodes;
	uint64_t hang_ns, peer_ns; /* hang-timeout; peer-timeout */
	uint64_t last_ns;          /* of the lines so far */
	bool began;
};

/* A line of the journal, of whatever event. 0 or -ENOMEM. */
int campaign_hangs_take(struct campaign_hangs *hangs, const json_t *line);
/* A line of the trainer's log, of whatever event; ahead_ns: by how much its time of day is ahead. 0 or -ENOMEM. */
int campaign_hangs_take_train(struct campaign_hangs *hangs, const json_t *line, int64_t ahead_ns);
/* All ranks were in an epoch then. 0 or -ENOMEM. */
int campaign_hangs_entered(struct campaign_hangs *hangs, uint64_t wall_ns);
void campaign_hangs_judge(const struct campaign_hangs *hangs, struct invariant *out);
void campaign_hangs_free(struct campaign_hangs *hangs);

/* hangs_due.c: why a fault need not have led to a name. */
enum hang_moot {
	HANG_DUE,
	HANG_WENT_ON,     /* it was stopped for a shorter time */
	HANG_ENDED,       /* its process was ended by a fault that came together with it */
	HANG_LEFT,        /* all left the epoch for a fault that came together with it, before they met */
	HANG_INTERRUPTED, /* the campaign was stopped */
	HANG_MOOTS
};

/* A rank that plays it gives no heartbeat, or enters another collective. */
bool hangs_is_one(const struct hang_fault *fault);
/* Other faults came together with it. */
bool hangs_has_company(const struct campaign_hangs *hangs, const struct hang_fault *fault);
/* Of those that came after it the first; UINT64_MAX: there is none. Before it is caused, all are at work again. */
uint64_t hangs_next(const struct campaign_hangs *hangs, const struct hang_fault *fault);
/* Until when it must be named. */
uint64_t hangs_due(const struct campaign_hangs *hangs, const struct hang_fault *fault);
/* It was not named until `due`. */
enum hang_moot hangs_moot(const struct campaign_hangs *hangs, const struct hang_fault *fault, uint64_t due);

#endif
