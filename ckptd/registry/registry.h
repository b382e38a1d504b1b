/* The registry, one of the four interfaces through which the state machines see the world (disk, net, clock, registry).
 * It has small records that outlive their writers, are alike for all nodes, and are changed only by compare-and-swap.
 * Implementations: etcd.c (the v3 JSON gateway of a cluster of etcd) and tests/sim/registry_sim.c, chosen at link time.
 *
 * For: who coordinates a job, which nodes are there, what was decided before anybody is told. The registry knows keys,
 * bytes and revisions, and nothing of jobs.
 *
 * The mirror: from its start on, the registry follows all records under its prefix. It tells of each change once, in the
 * order of revisions; first of all records that stand, then `synced`. After a break, which may be too short to be told as
 * an outage, it tells of what differs from what it told before, in the order of keys. Changes that have cancelled out by
 * then are not told. What was told may be old by as much as the registry is away. A decision therefore compares revisions
 * in a transaction.
 *
 * The lease: one for each struct registry. Records that are put under it go with it. registry_lease_left() says for
 * how long the lease cannot end, whatever the other side's clock says. It counts from when the last renewal was *sent*,
 * less a margin of a tenth of the lease, at least 200 ms, and it counts what the machine is suspended. A lease that was
 * not renewed by then is given up for good (`lapsed`), also if an answer arrives later. It is revoked as soon as the
 * registry can be reached. Only then another one is taken (`leased`).
 *
 * Threads: a struct registry belongs to the loop's thread. It calls back from registry_poll() alone, never inside another
 * call. A callback may look at the mirror and commit; it may not poll or free. */
#ifndef CKPTD_REGISTRY_REGISTRY_H
#define CKPTD_REGISTRY_REGISTRY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registry;

enum {
	REGISTRY_KEY_MAX = 256,         /* with the NUL; without the prefix */
	REGISTRY_PREFIX_MAX = 131,      /* with the NUL */
	REGISTRY_VALUE_MAX = 512 << 10, /* bytes */
	REGISTRY_RECORDS_MAX = 1 << 17, /* in the mirror; beyond, the registry is away and says so */
	REGISTRY_BYTES_MAX = 256 << 20, /* of those records */
	REGISTRY_CALLS_MAX = 1024,      /* transactions that are not decided */
	REGISTRY_CHANGES_MAX = 16,      /* of one transaction; and so many comparisons */
};

/* Copied by registry_new(). */
struct registry_config {
	const char *url;                  /* etcd://HOST[:PORT][,HOST[:PORT]...]/PREFIX; etcds:// over TLS */
	const char *ca, *cert, *key;      /* PEM files; NULL: the system's authorities, no certificate of our own */
	const char *user, *password_file; /* NULL: none */
	uint64_t lease_ns;                /* at least 2 s; rounded up to seconds */
	uint64_t timeout_ns;              /* of each call, and until an outage is told; at least 100 ms */
};

struct registry_record {
	const char *key; /* without the prefix */
	const void *value;
	size_t len;
	uint64_t created, changed; /* revisions; never 0 */
	bool ours;                 /* under the lease that we have now */
};

struct registry_events {
	/* gone: the record does not stand any more. value is then NULL, created 0, and changed the revision of the
	 * deletion, or 0 where that is not known. */
	void (*record)(void *arg, const struct registry_record *record, bool gone);
	void (*synced)(void *arg);                /* all that stands has been told: at first, and after each outage */
	void (*away)(void *arg, const char *why); /* it has not been followed for timeout_ns; once for each outage */
	void (*leased)(void *arg);                /* there is a lease */
	void (*lapsed)(void *arg); /* there is none any more; its time has passed, or etcd has ended it */
	void *arg;
};

struct registry_compare {
	const char *key;
	bool created;      /* the revision in which the record was created, else the last in which it was changed */
	uint64_t revision; /* 0: the record does not stand */
};

/* One for each key. */
struct registry_change {
	const char *key;
	const void *value; /* NULL: delete */
	size_t len;
	bool leased; /* goes with our lease */
};

struct registry_result {
	/* 0              it was decided
	 * -EHOSTUNREACH  it did not reach any member in time: nothing was applied
	 * -ESTALE        our lease has ended: nothing was applied
	 * -EACCES, -ENOSPC, -EINVAL
	 *                the registry refuses it: nothing was applied
	 * others         nobody knows (-ETIMEDOUT, -ECONNRESET, ...): it may have been applied, or may yet be. The mirror will tell. It is
	 *                never sent twice. */
	int rc;
	bool applied;      /* all comparisons held */
	uint64_t revision; /* of the registry then; of the changes where they were applied; 0 where rc is not 0 */
	const char *why;   /* a sentence where rc is not 0; valid during the call */
};
typedef void registry_done(void *arg, const struct registry_result *result);

/* Checks the configuration and begins to look for the registry, for ever, at each of its addresses in turn. -EINVAL,
 * -ENOENT (a file), -EACCES (others may read the password or the key), each with a sentence. */
int registry_new(const struct registry_config *config, const struct registry_events *events, struct registry **out,
		 struct err *err);
/* Revokes the lease if the registry answers within 300 ms; else the lease ends by itself. What is not decided ends with
 * -ESHUTDOWN, and nobody may ask for more then; no event comes any more. NULL is allowed. */
void registry_free(struct registry *registry);

/* What all keys begin with in the registry of that URL. -EINVAL with the sentence of registry_new(). */
int registry_prefix(const char *url, char out[REGISTRY_PREFIX_MAX], struct err *err);

/* Readable when registry_poll() has something to do. */
int registry_event_fd(const struct registry *registry);
/* Runs what has happened; never waits. */
void registry_poll(struct registry *registry);

/* Copies all. 0: done is called once, at the latest when timeout_ns has passed. Otherwise never. -ENOBUFS: too many wait.
 * -ENOLCK: a change is leased, and there is no lease. -EINVAL: a key is empty, too long or changed twice. -EMSGSIZE: too
 * many changes, comparisons or bytes; -ENOMEM. Transactions that wait together are applied in any order. */
int registry_commit(struct registry *registry, const struct registry_compare *compare, unsigned ncompare,
		    const struct registry_change *change, unsigned nchange, registry_done *done, void *arg);

/* One record of the mirror, valid until the next registry_poll(), in a callback until that returns. False: it does not
 * stand. */
bool registry_get(const struct registry *registry, const char *key, struct registry_record *record);
/* The next of those whose keys begin so, in the order of keys; *at is NULL at first. */
bool registry_next(const struct registry *registry, const char *prefix, const void **at,
		   struct registry_record *record);

/* Between `synced` and `away`. */
bool registry_is_synced(const struct registry *registry);
/* While it is synced: all changes up to this revision, and perhaps later ones, have been told. */
uint64_t registry_revision(const struct registry *registry);
/* Nanoseconds for which our lease certainly stands from now on, its margin taken off; 0: there is none, or it may have
 * ended since the last registry_poll(). */
uint64_t registry_lease_left(const struct registry *registry);

struct registry_counts {
	uint64_t transactions, applied, failed, renewals, outages, records;
};
struct registry_counts registry_counts(const struct registry *registry);

#endif
