/* The journal of a campaign: a line of JSON for all that happened, fsynced, so that a campaign that was stopped goes on
 * from there. What it says:
 *
 *	{"event":"begin","file":…,"seed":…,"faults":…,"left_out":…,"nodes":…,"ranks":…,"save_memory_every":…,"save_storage_every":…,
 *	 "hang_ms":…,"peer_ms":…,"spares":…,"min_ranks":…,"lasted_ms":…,"span_ms":…}
 *	{"event":"started"|"at-work"|"stopped","wall_ns":…}     the job, each time that the campaign begins or goes on
 *	{"event":"daemon","node":…,"answers":…,"wall_ns":…}     it began or ceased to answer, seen every 20 to 100 ms
 *	{"event":"fault","index":…,"first":…,"kind":…,"rank":…,"node":…,"cause":…,"outcome":"fired"|"not-fired","for_ms":…,
 *	 "wall_ns":…,"ms":…,"text":…}                           first: the index of the first of those that came together
 *	{"event":"cut"|"joined","node":…,"for_ms":…,"wall_ns":…}
 *	                                                        a line a node: before the network is broken, and when the job is at work
 *	                                                        again
 *	{"event":"named","node":…,"by":"launcher"|"rank","rank":…,"wall_ns":…}
 *	                                                        the log of the node says that the rank hangs: its launcher does, or the rank
 *	                                                        says it of its device
 *	{"event":"left","text":…}                               somebody has a namespace of the campaign when all has ended, or something is
 *	                                                        left on a host
 *	{"event":"host","node":…,"host":…,"address":…,"ahead_ns":…}
 *	                                                        which host is the node, and by how much its time of day is
 *	                                                        ahead of this one's
 *	{"event":"durable","step":…,"epoch":…,"wall_ns":…}      the daemon has said that it is on storage
 *	{"event":"replicated",…}                                as durable, when a node is about to be killed
 *	{"event":"standstill","node":…,"rank":…,"after_ms":…,"wall_ns":…}
 *	                                                        the node's daemon names the rank that all wait for (null: none), so long
 *	                                                        after the last heartbeat
 *	{"event":"loss","node":…,"kind":…,"step":…,"text":…,"wall_ns":…}
 *	                                                        the node's daemon names trouble with the loss
 *	{"event":"end","step":…,"params":…,"calm_params":…}
 *	{"event":"judged","exit":…,"invariants":[{"name":…,"held":…,"looked_at":…,"not_due":…,"why":…,"text":…}]} */
#ifndef CKPT_CLI_JOURNAL_JOURNAL_H
#define CKPT_CLI_JOURNAL_JOURNAL_H

#include "format/message/wire.h"
#include "frame/output.h"
#include "journal/campaign_file.h"

struct campaign_journal {
	int fd;
};

/* Appends; the file is made where it is missing. */
int journal_open(const char *path, struct campaign_journal *journal, struct err *err);
void journal_close(struct campaign_journal *journal);
/* Gives up *line. */
int journal_put(struct campaign_journal *journal, json_t *line, struct err *err);

/* Each line in order; a last one that is not whole is passed over. fn returns an error to stop. */
int journal_read(const char *path, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err);
/* The same of a daemon's span log, in which a line may be cut where the daemon was killed: such a one is passed over, too. */
int journal_read_spans(const char *path, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err);
bool journal_is(const json_t *line, const char *event);
uint64_t journal_number(const json_t *line, const char *key);
/* Of its begin: on how many nodes, at least 1. */
uint32_t journal_nodes(const json_t *line);

/* The list, with room for one more than its n elements of `size` bytes; NULL: there is no memory, or a journal notes no
 * more. *room: how many it has room for. */
void *journal_grown(void *list, size_t n, size_t *room, size_t size);

#endif
