/* Standstill: no rank of a job gives a heartbeat any more, for far longer than a step takes, and all wait for one. It is
 * known long before hang-timeout, which a step of any job must fit in: the measure is the job's own steps. Each node
 * tells the coordinator when its ranks are silent, and where each of them is. When the ranks of all nodes are silent, the
 * coordinator says for which rank they wait (coordinator/watch/standstill.c). That is told, and ends nobody: ckpt run
 * --hang-timeout does. Belongs to the loop's thread.
 *
 *   here: heartbeats ── none for longer than standstill_silence() ──► silent (SILENT) ── one comes ──► heartbeats (SILENT, of no rank)
 *   job:  at work ── STANDSTILL ──► stands still ── STANDSTILL without the flag, or a heartbeat here ──► at work */
#ifndef CKPTD_JOB_STANDSTILL_H
#define CKPTD_JOB_STANDSTILL_H

#include "format/message/peer_coord.h"

struct job;

/* The silence is so many steps, and so much more; once so many steps are known, one of them in this epoch: until then it
 * is hang-timeout. The rest of 2 s is for a daemon's ticks, the messages, and a
 * busy machine. */
enum { STANDSTILL_STEPS = 2, STANDSTILL_KNOWN = 8, STANDSTILL_SHORT = 5 };
#define STANDSTILL_MORE_NS 1700000000ull

struct standstill {
	bool is;
	uint64_t since_ns; /* the last heartbeat of any rank of the job; while `is` */
	uint64_t after_ns; /* that, to when `rank` was told here */
	bool named;        /* `rank` stands out; else nobody knows who is waited for */
	uint32_t rank;
	char node[NAME_NODE_MAX]; /* that has it; the roster may change meanwhile */
	char text[CULPRIT_TEXT_MAX + NAME_NODE_MAX +
		  128]; /* a sentence without its beginning: "rank 1 is waited for: …"; while `is` */
	/* private */
	uint32_t epoch;                      /* in which it is looked; 0: in none */
	uint32_t told_epoch;                 /* of what the coordinator has told */
	bool armed;                          /* all ranks have made a step since: what they loaded is behind them */
	uint64_t steps[WIRE_LOCAL_MAX];      /* of the first heartbeat; UINT64_MAX: none has come */
	uint64_t stopped_ns[WIRE_LOCAL_MAX]; /* the heartbeat after which it was seen to be stopped; 0: it was not */
	struct peer_silent said;             /* to the coordinator; n 0: nothing, or that it is over */
	uint64_t said_ns;
};

/* How long they give no heartbeat before they are silent: two steps and 1.7 s, but two of the longest recent step in any
 * case. Steps vary by a share of themselves: where 1.7 s is less than STANDSTILL_SHORT steps, it comes on top of the
 * longest, too. */
uint64_t standstill_silence(uint64_t median_ns, uint64_t longest_ns);
/* all[i].stopped: its process is stopped just now. It stays so until its next heartbeat: one that is killed is stopped no
 * longer, and is not known to be lost yet; what all wait for has not changed. */
void standstill_keep_stopped(struct standstill *s, struct suspect *all, uint32_t n);
/* silence_ns: 0: too few steps are known. True: s->said is new, and to be reported. */
bool standstill_look(struct standstill *s, const struct suspect *all, uint32_t n, uint64_t silence_ns, uint64_t now);
/* The ranks of the job here; every tick. */
void standstill_tick(struct job *job, uint64_t now);
/* The coordinator has judged. */
void standstill_hear(struct job *job, const struct peer_standstill *m);
/* The coordinator from now on knows nothing of it. */
void standstill_anew(struct job *job);

#endif
