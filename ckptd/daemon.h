/* What all parts of ckptd share: the configuration and the three interfaces. Passed down, never global. */
#ifndef CKPTD_DAEMON_H
#define CKPTD_DAEMON_H

#include "arena/room.h"
#include "base/list.h"
#include "base/repeat.h"
#include "checkpoint/room.h"
#include "config/sources.h"
#include "format/tensor/names.h"
#include "runtime/room.h"

#include <stdbool.h>

struct forward;
struct catalog;
struct disk;
struct election;
struct former;
struct gc;
struct http;
struct loop;
struct manager;
struct membership;
struct membership_past;
struct net;
struct pool;
struct prefault;
struct registry;
struct replica;
struct spill;
struct roster;
struct scrub;
struct space;
struct spanlog;

enum { DAEMON_REFUSALS = 16 };

struct daemon {
	struct config config;          /* [node], in effect */
	struct sources *sources;       /* as read last: the policies of jobs come from here */
	struct sources *first_sources; /* the texts of config are in there */
	struct loop *loop;
	struct manager *manager; /* NULL: nobody manages this process */
	struct pool *pool;
	struct pool *reader;    /* one thread for reading back, so that digests and recoveries never wait for it */
	struct packing packing; /* by the workers of pool */
	struct disk *disk;
	struct throttle writes;    /* what commits write */
	struct meter reads;        /* what is read back */
	int root;                  /* handle of the repository; -1: memory only */
	struct catalog *catalog;   /* NULL: none */
	struct spanlog *spanlog;   /* NULL: none is written */
	struct space *space;       /* how full the store is; NULL: memory only */
	struct http *http;         /* NULL: off */
	struct gc *gc;             /* NULL: no store */
	struct scrub *scrub;       /* NULL: no store */
	struct roster *roster;     /* NULL: this node is alone */
	unsigned self;             /* in it */
	struct net *net;           /* NULL: as before */
	struct replica *replica;   /* NULL: as before */
	struct registry *registry; /* NULL: without one, the first node of the roster coordinates */
	struct election *election; /* NULL: as before */
	uint64_t node_record_ns;   /* our record in it is not written again before; UINT64_MAX: it is being written */
	uint64_t refused;          /* connections of which the log has told */
	uint64_t next_refused;     /* when it may tell again */
	struct forward *forwards;  /* of operators, that the coordinator has not answered yet; the newest first */
	uint64_t forward_tokens;
	struct list jobs;
	struct former *formers;         /* what jobs that have ended have left in memory, until they come again */
	struct prefault *prefaults;     /* that wait until its ranks are at work */
	struct spill *spills;           /* what this node brings to storage before a world changes */
	struct list hosts;              /* of the jobs that are coordinated here */
	struct membership *memberships; /* of those among them whose world may change */
	struct membership_past *past_memberships;
	struct repeat refusals
		[DAEMON_REFUSALS]; /* of nodes whose jobs cannot be coordinated here (control/coordinator_host.c) */
	struct memory_account memory;
	uint64_t started_ns;
	bool stopping; /* what is in flight is finished, nothing new is begun */
};

#endif
