/* What a campaign came to, put together from the files in its folder: nothing here asks a daemon.
 *
 *	journal       what the campaign did: the faults, when the job ran, when its daemon answered, the outcome
 *	train.jsonl   what the ranks measured: how each came into each epoch, and what each save kept it waiting
 *	spans         what the daemon measured: saves, and the parts of recoveries
 *	run.log       which ranks the launcher found hanging
 *
 * Of a campaign on several nodes each node has its own: node-1.spans, node-1.log.
 *
 * Only the journal must be there. A campaign may still be under way, or have been cut off. Times are nanoseconds since 1970; 0: not known.
 *
 * report_read.h      the files              report_match.h    which fault led to which recovery, and what found it
 * report_timeline.c  what each rank did     report_goodput.c  where the job's time went
 * report_causes.c    faults by cause        report_spread.c   distributions
 * report_json.c      the document           report_html.h     the page
 * report.c           the command */
#ifndef CKPT_CLI_REPORT_H
#define CKPT_CLI_REPORT_H

#include "base/err.h"
#include "format/message/fault.h"
#include "frame/output.h"

enum {
	REPORT_TEXT_MAX = 320,
	REPORT_CAUSE_MAX = 64,
	REPORT_NAME_MAX = 128,
	REPORT_RANKS_MAX = 64,
	REPORT_NODES_MAX = 16
};

#define LONGEST_MS 1e12 /* a number without sense must not overflow a time */

/* From when the job was started to when it was stopped; 0: it was cut off, or runs. One, and one more for each --resume. */
struct report_segment {
	uint64_t started, work, stopped;
	uint64_t last; /* that the journal has of it */
};

enum report_end {
	REPORT_UNSEEN,    /* nothing was seen of it */
	REPORT_NOT_FIRED, /* it was not caused */
	REPORT_OVERTAKEN, /* a recovery from another fault came first: it took with it what this one had done */
	REPORT_FOUND,     /* something named it, and nothing had to be restored */
	REPORT_RECOVERED, /* training went on */
};

struct report_fault {
	uint64_t index, at;
	double fired_ms; /* until it was seen to have fired */
	uint64_t for_ms; /* how long it was to last; 0: it has no time */
	bool fired, overtaken;
	uint32_t rank, node;
	uint64_t ranks;                  /* a bit for each of its node */
	const struct fault_entry *entry; /* NULL: a kind that this program does not know */
	char kind[FAULT_NAME_MAX], cause[REPORT_CAUSE_MAX], text[REPORT_TEXT_MAX];
	enum report_end end;
	const char *found_by; /* "daemon", "launcher", "trainer", "restore"; NULL: nobody */
	char found_text[REPORT_TEXT_MAX];
	uint64_t found, back; /* when it was found; when training, the daemon or saves went on */
	size_t recovery;      /* SIZE_MAX: none */
};

/* In their order; as in `ckpt recoveries`. */
enum report_part {
	PART_DETECT,
	PART_DECIDE,
	PART_GATHER,
	PART_CHOOSE,
	PART_FETCH,
	PART_LOAD,
	PART_FIRST_STEP,
	REPORT_PARTS
};
extern const char *const report_part_names[REPORT_PARTS];

/* How the job came into an epoch. */
struct report_recovery {
	uint32_t epoch;
	bool start; /* the job was started: nothing was lost */
	uint64_t began, seen, back;
	double parts[REPORT_PARTS];       /* ms; NAN: not known */
	bool by_daemon;                   /* who measured the parts; else the ranks */
	uint64_t step, steps_lost, fresh; /* fresh: a bit for each rank that came as a new process */
	char reason[REPORT_TEXT_MAX], left[REPORT_TEXT_MAX], source[16], passed_over[REPORT_TEXT_MAX];
	size_t fault; /* SIZE_MAX: none that is known */
	/* private to report_read.h */
	double span[REPORT_PARTS], ranks[REPORT_PARTS], longest_ms;
	uint64_t span_ended, noticed;
};

/* A rank's way into an epoch. */
struct report_entry {
	uint32_t rank, epoch;
	bool fresh;
	uint64_t from, to;
};

struct report_stall {
	uint64_t from;
	float ms;
	uint32_t rank;
};

struct report_save {
	uint64_t begun, durable, step;
	uint32_t epoch;
	char error[REPORT_TEXT_MAX];
};

struct report_sign {
	uint64_t at;
	uint32_t rank; /* of a slow rank */
	uint32_t node; /* of the daemon */
	bool answers;  /* that one */
};

struct report_hang {
	uint32_t rank;
	char text[REPORT_TEXT_MAX];
};

/* What a rank does; the worse one counts where a picture has room for one alone. */
enum report_state {
	STATE_NONE,
	STATE_COMPUTING,
	STATE_SAVING,
	STATE_STARTING,
	STATE_RECOVERING,
	STATE_LOST,
	REPORT_STATES
};

/* Neither computing nor saving: those are what is left, and too many. */
struct report_interval {
	uint64_t from, to;
	uint32_t rank;
	enum report_state state;
};

struct report_rank {
	double seconds[REPORT_STATES];
	uint64_t until; /* private: of its intervals */
};

/* Where the job's time went: seconds. */
struct report_goodput {
	double elapsed, starting, recovering, saving, repeated, computing;
	double step_s;            /* measured, without all that */
	double measured;          /* share of what came after the start */
	double formula;           /* NAN: nothing was lost, or too little is known */
	double simulated, spread; /* of the same model, event by event */
};

/* Faults of one cause, or of one kind where the campaign names no cause. */
struct report_cause {
	const char *name;
	size_t faults, fired, recovered, found;
	double found_ms[2], back_ms[2]; /* median and most; NAN: none */
	uint64_t steps_lost;
	double lost_s; /* recovering */
};

#define REPORT_LIST(type)                                                                                              \
	struct {                                                                                                       \
		type *at;                                                                                              \
		size_t n, room;                                                                                        \
	}

struct report {
	char folder[REPORT_TEXT_MAX], file[REPORT_TEXT_MAX], node[REPORT_NAME_MAX];
	uint64_t seed, planned, left_out, memory_every, storage_every, hang_ms;
	uint64_t lasted_ms,
		span_ms; /* what the file repeats, 0: it does not say; within which all faults were to come */
	uint32_t ranks, nodes, spares; /* spares: fewer than nodes, and some of them */
	uint64_t begin, last;          /* of all that was noted */
	uint64_t step, durables, end_step;
	double step_ms; /* by the ranks, at the end; NAN */
	char params[32], calm_params[32];
	bool ended;
	int exit_code;       /* -1: not judged */
	json_t *invariants;  /* NULL: not judged */
	uint64_t unreadable; /* lines */
	uint64_t steps_lost;
	REPORT_LIST(struct report_segment) segments;
	REPORT_LIST(struct report_fault) faults;
	REPORT_LIST(struct report_recovery) recoveries; /* by epoch */
	REPORT_LIST(uint32_t) order;                    /* private to report_epochs.c */
	REPORT_LIST(struct report_entry) entries;
	REPORT_LIST(struct report_stall) stalls;
	REPORT_LIST(struct report_save) saves;  /* to storage */
	REPORT_LIST(struct report_sign) daemon; /* of all nodes */
	REPORT_LIST(struct report_sign) slow;
	REPORT_LIST(struct report_sign) spikes; /* of the loss, as daemons name them */
	REPORT_LIST(struct report_hang) hangs;
	REPORT_LIST(struct report_cause) causes;       /* by name */
	REPORT_LIST(struct report_interval) intervals; /* of all ranks, in the order of their entries */
	struct report_rank at[REPORT_RANKS_MAX];
	struct report_goodput goodput;
};

/* By how many times the file compresses what it repeats; and the job did, which waits for itself. NAN: not known, or not yet. */
double report_compression_planned(const struct report *report);
double report_compression_measured(const struct report *report);

/* Reads the folder, matches and counts. Free it in any case. -ENOENT, -EBADMSG: no journal of a campaign is there. */
int report_make(const char *folder, struct report *r, struct err *err);
void report_free(struct report *r);
/* Makes DIR/report.json and DIR/report.html anew. */
int report_write(const struct report *r, struct err *err);

/* report_read.h has its parts: 0 or -errno. */
int report_read(const char *folder, struct report *r, struct err *err);
/* "spans", or "node-1.spans" where there are several nodes. Returns dst. */
char *report_node_file(const struct report *r, uint32_t node, const char *name, char dst[REPORT_NAME_MAX]);
/* The node that has the rank. */
uint32_t report_node_of(const struct report *r, uint32_t rank);
/* Of the i-th sign of a daemon: when the next one of that daemon was; 0: there is none. */
uint64_t report_next_sign(const struct report *r, size_t i);
/* report_list.c */
/* One more place in a list, zeroed; NULL: no memory, or more than `most`. list: the address of the pointer to its first. */
void *report_more(void *list, size_t *n, size_t *room, size_t size, size_t most);
#define REPORT_MORE(list, most) report_more(&(list).at, &(list).n, &(list).room, sizeof(*(list).at), most)
/* The first of n things in the order of their times that was not before `at`; the time is at `offset` of each. */
size_t report_since(const void *list, size_t n, size_t size, size_t offset, uint64_t at);
#define REPORT_SINCE(list, type, field, time)                                                                          \
	report_since((list).at, (list).n, sizeof(type), offsetof(type, field), time)

/* report_match.c */
void report_match(struct report *r);
/* report_trace.c: what became of a fault. */
const char *report_end_name(enum report_end end);
/* What a rank says names a cause, not only that the others could not be reached. */
bool report_names_cause(const char *text);

/* report_goodput.c */
void report_count_time(struct report *r);
/* The end of a segment; of one that was cut off, what was noted last. */
uint64_t report_stopped(const struct report *r, const struct report_segment *s);

/* report_timeline.c: -ENOMEM. */
int report_draw_timeline(struct report *r);
const char *report_state_name(enum report_state state);

/* report_causes.c: -ENOMEM. */
int report_count_causes(struct report *r);
/* Of faults those that fired, and after which the job went on; of recoveries all but starts, and those that no fault led to. */
struct report_totals {
	size_t fired, recovered, recoveries, unexplained;
	uint64_t steps;
};
struct report_totals report_totals(const struct report *r);
/* Of the fault, from when it was caused; NAN: not known. */
double report_found_ms(const struct report_fault *f);
double report_back_ms(const struct report_fault *f);
double report_total_ms(const struct report_recovery *r);
const char *report_cause_of(const struct report_fault *f);

/* report_spread.c: what is measured often. */
enum { SPREAD_BINS = 16, REPORT_SPREADS = 4 };
struct report_spread {
	const char *name, *unit;
	size_t n;
	double least, p50, p90, p99, most;
	size_t bins[SPREAD_BINS]; /* of equal width, from 0 to most */
};
int report_spreads(const struct report *r, struct report_spread out[REPORT_SPREADS]);

/* report_json.c: all that stands in docs/reference/campaign-report.md. */
json_t *report_document(const struct report *r, const struct report_spread spreads[REPORT_SPREADS]);

#endif
