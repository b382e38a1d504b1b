/* What all parts of ckptd share: the configuration and the three interfaces. Passed down, never global. */
#ifndef CKPTD_DAEMON_H
#define CKPTD_DAEMON_H

#include "base/list.h"
#include "format/names.h"
#include "memory.h"

#include <stdbool.h>

struct catalog;
struct disk;
struct loop;
struct pool;

struct config {
	const char *store; /* path of the repository; NULL: memory only */
	const char *socket;
	char node[NAME_NODE_MAX];
	uint64_t memory_limit;     /* bytes of arenas on this node */
	unsigned save_timeout_ms;  /* from the first begin of a step until it is captured on every rank */
	unsigned join_timeout_ms;  /* a barrier of ranks (register, join, restore) */
	unsigned stall_timeout_ms; /* a commit that makes no progress */
	unsigned hang_timeout_ms;  /* no heartbeat; 0: hangs are not watched */
	unsigned linger_ms;        /* how long the arenas of a job without processes are kept */
	enum huge_pages huge_pages;
	bool verify; /* read back after each commit */
};

void config_defaults(struct config *config);

struct daemon {
	struct config config;
	struct loop *loop;
	struct pool *pool;
	struct pool *reader; /* one thread for reading back, so that digests and recoveries never wait for it */
	struct disk *disk;
	int root;                /* handle of the repository; -1: memory only */
	struct catalog *catalog; /* NULL: none */
	struct list jobs;
	uint64_t memory_used; /* bytes of arenas */
	uint64_t tables_used; /* and of what was registered, with all that is made of it */
	uint64_t started_ns;
	bool stopping; /* what is in flight is finished, nothing new is begun */
};

#endif
