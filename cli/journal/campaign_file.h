/* The file of a campaign: which faults hit the job, and when. Lines, '#' begins a comment:
 *
 *	seed N                          draws ranks, times and order; default 0
 *	nodes N                         on so many nodes, made on this machine, 1 to 16; default 1
 *	spares N                        so many of the nodes wait with as many processes as the others have ranks; default 0
 *	ranks N                         of the job, 1 to 64, as many on each node; default 2
 *	min-ranks N                     the job goes on while it has so many; with it, or with spares, ranks go from node to node;
 *	                                default with spares: all
 *	save-memory-every N             steps; default 2
 *	save-storage-every N            steps; default 10
 *	hang-timeout TIME               default 5s
 *	least-steps N                   the job must have got so far at the end; default 1
 *	over TIME                       within which faults without a time of their own are drawn; default 60s
 *	lasted TIME                     how long that lasted which the file repeats: what it is compressed by is told; up to 10000d
 *	at TIME KIND [WHAT]             one fault
 *	after N KIND [WHAT]             one fault, once the job has made N steps since it went on after the fault of the line before
 *	with KIND [WHAT]                another one, together with that of the line before: nobody waits for the job
 *	                                between them. Those of the network stand first: they last meanwhile
 *	rate KIND N [WHAT]              N faults of the kind
 *	table FILE [total=N]            a table of causes (CSV); percents are of total. FILE: from the folder of this file
 *
 *	WHAT = rank=N | rank=any | node=N | node=any | for=TIME | to=N,N (of one-way) | sides=N,N/N,N (of partition) |
 *	       mbit=N (of link-slow) | percent=N (of link-loss) | delay=TIME (of link-delay)
 *
 * A table has a line of names, of which `cause`, `count` or `percent`, `fault`, and `fault-of-nodes` are read; a fault of
 * "-" cannot be caused, and is left out. fault-of-nodes, where it is there, counts instead of fault in a campaign on
 * several nodes. */
#ifndef CKPT_CLI_JOURNAL_CAMPAIGN_FILE_H
#define CKPT_CLI_JOURNAL_CAMPAIGN_FILE_H

#include "base/err.h"
#include "format/message/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CAMPAIGN_FAULTS_MAX = 20000,
	CAMPAIGN_CAUSE_MAX = 64,
	CAMPAIGN_NODES_MAX = 16,
	CAMPAIGN_RANKS_MAX = 64,
	CAMPAIGN_TOGETHER_MAX = 8
};

struct campaign_fault {
	uint64_t at_ms; /* after the job is at work */
	uint64_t steps; /* that it makes at least after the fault before this one */
	const struct fault_entry *entry;
	uint32_t rank, node; /* node: that of the rank, where it is a fault of a rank */
	bool with;           /* together with the one before */
	uint64_t for_ms;
	uint32_t to;                      /* one-way: bits of the nodes that hear nothing; 0: all others */
	uint32_t mbit;                    /* link-slow: how much passes in a second; 0: not given */
	uint32_t percent, delay_ms;       /* link-loss, link-delay; 0: not given */
	uint8_t side[CAMPAIGN_NODES_MAX]; /* partition: of each node, 0: on none; all 0: node against all others */
	char cause[CAMPAIGN_CAUSE_MAX];   /* of a table; else "" */
	size_t order;                     /* private: in which they were read */
};

struct campaign_file {
	uint64_t seed, memory_every, storage_every, hang_ms, least_steps, over_ms;
	uint64_t lasted_ms; /* 0: not said */
	uint32_t ranks, nodes;
	uint32_t min_ranks, spares;    /* min_ranks 0: its world stays, and each rank where it is */
	struct campaign_fault *faults; /* in the order of their times */
	size_t n;
	uint64_t left_out; /* what cannot be caused */
	uint64_t random;   /* private */
	size_t room;       /* private */
	bool drawn;        /* private: the time of a fault was */
	size_t together;   /* private: that were read last; 0: `with` must not follow */
};

/* -EINVAL: FILE:LINE and what is wanted there. Free what was read in any case. */
int campaign_file_read(const char *path, struct campaign_file *out, struct err *err);
void campaign_file_free(struct campaign_file *file);
/* One more; for tables, too. rank, node UINT32_MAX: drawn. -E2BIG. */
int campaign_file_add(struct campaign_file *file, const struct campaign_fault *fault, bool timed, struct err *err);
/* Ranks of a node that has some, at the start. */
uint32_t campaign_file_each(const struct campaign_file *file);
/* How many from this one on are caused together. */
size_t campaign_file_together(const struct campaign_file *file, size_t first);
/* Within which all faults come: `over`, if the time of one was drawn, and until the last one. */
uint64_t campaign_file_span(const struct campaign_file *file);
/* That are made between all faults, at least. */
uint64_t campaign_file_steps(const struct campaign_file *file);
uint64_t campaign_file_draw(struct campaign_file *file);
/* Leaves out the faults of the network, or (not 0) only those of the kind; how many. The others stay as they were drawn. */
size_t campaign_file_leave_out_network(struct campaign_file *file, enum fault_kind only);

/* journal/table.c */
int campaign_table_read(struct campaign_file *file, const char *path, uint64_t total, struct err *err);
/* NULL: it cannot be caused in such a campaign. */
const struct fault_entry *campaign_kind(const char *name, size_t len, const struct campaign_file *file);
/* Whether it needs a network that can be broken; whether it ends all processes of a node. */
bool campaign_cuts(const struct fault_entry *entry);
bool campaign_loses_node(const struct fault_entry *entry);
/* What a kind that needs a time gets where none is given. */
uint64_t campaign_default_ms(const struct fault_entry *entry);

#endif
