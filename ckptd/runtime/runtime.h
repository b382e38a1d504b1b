/* Runtime: what of this process every room may use. */
#ifndef CKPTD_RUNTIME_RUNTIME_H
#define CKPTD_RUNTIME_RUNTIME_H

#include "config/sources.h"
#include "runtime/memory_account.h"

#include <stdbool.h>

struct loop;
struct machine;
struct manager;
struct pool;
struct spanlog;

struct runtime {
	struct config config;          /* [node], in effect */
	struct sources *sources;       /* as read last: the policies of jobs come from here */
	struct sources *first_sources; /* the texts of config are in there */
	struct loop *loop;
	struct pool *pool;
	struct pool *reader;     /* one thread for reading back, so that digests and recoveries never wait for it */
	struct spanlog *spanlog; /* NULL: none is written */
	struct manager *manager; /* service/service_manager.h; NULL: nobody manages this process */
	struct machine *machine; /* machine/machine.h; NULL: nobody looks at the machine */
	struct memory_account memory;
	uint64_t started_ns;
	bool stopping; /* what is in flight is finished, nothing new is begun */
};

#endif
