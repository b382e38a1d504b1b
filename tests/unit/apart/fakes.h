/* Neighbours of the state machines that are tested here each by itself: they note what they are told, and say what the test wants. They take
 * the place of ckptd's own at link time. */
#ifndef CKPT_TESTS_FAKES_H
#define CKPT_TESTS_FAKES_H

#include "daemon.h"
#include "format/files/marks.h"
#include "job/job.h"
#include "registry/registry.h"
#include "replication/replication.h"

enum { FAKE_SENDS = 16, FAKE_ORDERS = 128 };

/* Starts over: a daemon without jobs, and nothing was said. Before each test. */
void fakes_reset(void);
/* The clock goes on as it does, and this much further at once. */
void clock_skip(uint64_t ns);

/* replication/replication.h */
extern struct fake_replica {
	struct replica_send sends[FAKE_SENDS];
	unsigned nsends;
	int send_rc;
	uint64_t whole; /* bit per rank: all of its copies are held */
	unsigned ends, leaves, epochs, forgets;
	struct step_id forgotten;
} fake_replica;
/* What was sent last of this rank ends, as the replica says it. */
void fake_sent(uint32_t rank, int rc, const char *text);

/* participant/participant.h */
extern struct fake_participant {
	unsigned uncopied, reached, assignments, quiesced, attended, taken, left;
	bool comes_again;
	struct step_id id;
	enum level_shown level;
	struct peer_capacity assignment;
	struct peer_quiesced said;
	int take_rc;
} fake_participant;

/* save/saves.h, job/job.h */
extern struct fake_saves {
	struct snapshot *snapshot; /* that is in memory */
	struct job *job;
	bool running; /* something of the job is under way */
	bool returns; /* its ranks are on their way back to work */
	unsigned flushes;
} fake_saves;

/* runtime/client.h: what a rank or a launcher was sent last */
extern struct fake_client {
	unsigned sent, detached;
	uint16_t type;
	uint32_t seq;
	struct wire_plan plan;
	struct wire_moved moved;
	struct wire_command command;
	int rc;
	char text[WIRE_TEXT_MAX];
} fake_client;

/* coordinator/coordinator.h, for its daemon */
extern struct fake_coord {
	unsigned made, sealed, spoiled, left;
	bool found, kept;
	int rc;
	char text[WIRE_TEXT_MAX];
} fake_coord;

/* control/host/coordinator_host.h */
extern struct fake_host {
	bool elsewhere; /* another node coordinates */
	uint64_t term;
	bool has, busy, held;
	struct coord_view view; /* a host that is made anew has all its ranks */
	bool ends;              /* it was asked to */
	unsigned halts, holds, releases, remakes, spills, given_up, abandoned, vacated, refused;
	uint32_t moved; /* nodes whose ranks are not those of the plan before, as bits */
	int remake_rc;
	bool slow;          /* the test says when a plan is on record */
	bool kept;          /* what was asked is recorded, too */
	struct begun begun; /* what is on record; last_rc: it cannot be read */
	int last_rc;
	char preface[WIRE_TEXT_MAX];
	unsigned norders;
	struct fake_order {
		uint32_t node;
		struct peer_order order;
	} orders[FAKE_ORDERS];
	/* As the node of the coordinator, which is told by a call; NULL: nobody answers. */
	void (*answers)(uint32_t node, const struct peer_order *order);
} fake_host;

/* registry/registry.h, cluster/net.h */
enum { FAKE_RECORDS = 8 };
extern struct fake_registry {
	bool synced;
	uint64_t lease_until;
	struct {
		char key[REGISTRY_KEY_MAX];
		bool ours;
	} records[FAKE_RECORDS];
	unsigned nrecords;
	int commit_rc;
	unsigned commits, compares; /* so far; of the last one */
	char key[REGISTRY_KEY_MAX], value[1024];
	bool leased;
	bool up[FAKE_RECORDS]; /* by node: there is a session with it */
} fake_registry;
/* The mirror shows it, or no more. */
void fake_record(const char *key, bool ours);
void fake_record_gone(const char *key);
/* What was asked for last has come to this. */
void fake_decided(struct registry_result result);

#endif
