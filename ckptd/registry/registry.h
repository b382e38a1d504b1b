/* The registry, one of the four interfaces through which the state machines see the world (disk, net, clock, registry): small records that outlive
 * whoever wrote them, alike for all nodes, changed only by compare-and-swap. Implementations: etcd.c (the v3 JSON gateway of an etcd cluster) and
 * tests/sim/registry_sim.c, chosen at link time.
 *
 * For: who coordinates a job, who is there, what was decided before anybody is told. It knows keys, bytes and revisions, and nothing of jobs.
 *
 * The mirror: from its start on the registry follows all records under its prefix and tells of each change once, in the order of revisions; first of all that
 * stand (then `synced`). After an outage it tells of what has changed meanwhile, as if it had been there. What is told may be old by as much as the
 * registry is away; what must not be, is compared in a transaction.
 *
 * The lease: one for each struct registry. Records that are put under it go with it. lease_until() is a time of clock_now() before which it cannot have
 * ended, whatever the other side's clock says: it is counted from when the last renewal was *sent*. A lease that was not renewed in time is given up for
 * good (`lapsed`): its records are deleted as soon as the registry can be reached, and another one is taken (`leased`).
 *
 * Threads: a struct registry belongs to the loop's thread, and calls back from registry_poll() alone, never inside another call. */
#ifndef CKPTD_REGISTRY_REGISTRY_H
#define CKPTD_REGISTRY_REGISTRY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registry;

enum {
	REGISTRY_KEY_MAX = 256,         /* with the NUL; without the prefix */
	REGISTRY_VALUE_MAX = 64 << 10,  /* bytes */
	REGISTRY_RECORDS_MAX = 1 << 17, /* in the mirror; beyond, it is away and says so */
	REGISTRY_BYTES_MAX = 256 << 20, /* and their bytes */
	REGISTRY_CALLS_MAX = 1024,      /* transactions that wait */
	REGISTRY_CHANGES_MAX = 16,      /* of one transaction; and so many comparisons */
};

struct registry_config {
	const char *url;                  /* etcd://HOST:PORT[,HOST:PORT...]/PREFIX; etcds:// over TLS */
	const char *ca, *cert, *key;      /* PEM files; NULL: the system's authorities, no certificate of our own */
	const char *user, *password_file; /* NULL: none */
	uint64_t lease_ns;                /* at least 2 s: etcd makes less of it longer */
	uint64_t timeout_ns;              /* of each call */
};

struct registry_record {
	const char *key; /* without the prefix */
	const void *value;
	size_t len;
	uint64_t created, changed; /* revisions; never 0 */
	bool ours;                 /* under the lease that we have now */
};

struct registry_events {
	/* gone: the record does not stand any more (value is NULL, changed the revision of that, or 0 where it is not known). */
	void (*record)(void *arg, const struct registry_record *record, bool gone);
	void (*synced)(void *arg);                /* all that stood has been told: at first, and after each outage */
	void (*away)(void *arg, const char *why); /* it cannot be followed; once for each outage */
	void (*leased)(void *arg);
	void (*lapsed)(
		void *arg); /* before that is told registry_lease_until() has passed, or less than the margin was left */
	void *arg;
};

struct registry_compare {
	const char *key;
	bool created;      /* the revision in which it was created, else the last in which it was changed */
	uint64_t revision; /* 0: it does not stand */
};

struct registry_change {
	const char *key;
	const void *value; /* NULL: delete */
	size_t len;
	bool leased; /* goes with our lease; -ENOLCK while there is none */
};

struct registry_result {
	/* 0: it was decided. -ETIMEDOUT, -ECONNRESET, ...: nobody knows whether it was applied (the mirror will tell); -EACCES: refused by the
	 * registry; -ESTALE: our lease has ended. */
	int rc;
	bool applied;      /* all comparisons held */
	uint64_t revision; /* of the registry then; of the changes where they were applied */
	const char *why;   /* a sentence where rc is not 0 */
};
typedef void registry_done(void *arg, const struct registry_result *result);

/* Checks the configuration and begins to look for the registry, for ever, each of its addresses in turn. -EINVAL, -ENOENT (a file), -EACCES (others may read
 * the password) with a sentence. Copies all of config. */
int registry_new(const struct registry_config *config, const struct registry_events *events, struct registry **out,
		 struct err *err);
/* Revokes the lease where that can be done at once, else it ends by itself; nobody is called any more. NULL is allowed. */
void registry_free(struct registry *registry);

int registry_event_fd(const struct registry *registry);
/* Runs what has happened; never waits. */
void registry_poll(struct registry *registry);

/* Copies all. -ENOBUFS: too many wait; -ENOLCK; -EMSGSIZE; -ENOMEM: done is not called. Otherwise it is, once, at the latest when the call's deadline has
 * passed. */
int registry_commit(struct registry *registry, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg);

/* One record of the mirror, valid until the next registry_poll(). False: it does not stand. */
bool registry_get(const struct registry *registry, const char *key, struct registry_record *record);
/* Those whose keys begin so, in the order of their keys; *at: NULL at first. */
bool registry_next(const struct registry *registry, const char *prefix, const void **at,
		   struct registry_record *record);

bool registry_is_synced(const struct registry *registry);
/* clock_now() until which our lease certainly stands, its margin taken off; 0: there is none. */
uint64_t registry_lease_until(const struct registry *registry);

struct registry_counts {
	uint64_t transactions, applied, failed, renewals, outages, records;
};
struct registry_counts registry_counts(const struct registry *registry);

#endif
