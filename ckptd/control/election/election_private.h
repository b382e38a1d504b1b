/* Private to election*.c. */
#ifndef CKPTD_CONTROL_ELECTION_PRIVATE_H
#define CKPTD_CONTROL_ELECTION_PRIVATE_H

#include "base/list.h"
#include "base/repeat.h"
#include "control/election/cut_off.h"
#include "control/election/election.h"
#include "format/message/wire.h"
#include "registry/room.h"

#define JOBS "jobs/"
#define COORDINATOR "/coordinator"
#define EPOCH "/epoch"

struct job_record {
	struct list link;
	char job[NAME_JOB_MAX];
	uint32_t node; /* NO_NODE: nobody */
	uint64_t term;
	bool told;  /* by the node itself, while the registry was away; the registry has not come to that term */
	bool asked; /* a transaction on its record is on its way */
	uint64_t retry_ns, idle_ns;
	uint64_t told_ns;   /* so long that counts, once the registry is back */
	uint64_t vacant_ns; /* since when nobody coordinates it */
	uint64_t shy_ns;    /* it has given way: others come first until then */
	uint64_t given_up;  /* the term in which it has: no more of that */
	uint64_t recorded;  /* the revision in which we changed its epoch last, which the mirror may not show yet */
	struct cut_off cut_off;
	struct repeat unknown;
};

struct election {
	struct control *control;
	struct election_events events;
	struct list jobs; /* struct job_record */
	char away[WIRE_TEXT_MAX];
	struct repeat refused;
};

/* NULL: nothing is known of that job. */
struct job_record *election_find(const struct control *control, const char *job);
void election_key(const char *job, const char *what, char key[REGISTRY_KEY_MAX]);

#endif
