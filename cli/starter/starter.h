/* `ckpt run --nodes HOST,…`: starts `ckpt run` on each of the nodes through a remote shell, passes on what they print, and ends them
 * together. Of ranks and daemons it knows nothing: the launcher of each node watches those, and tells it nothing but how it ended. One
 * thread, one poll.
 *
 *	node: WAITING (start_at) → RUNNING → (the launcher's own end) ENDED
 *	                             ↓ the way there broke → WAITING, while the job goes on elsewhere
 *	stop: NONE → ASKED (by a letter on each launcher's stdin) → KILL of the remote shells
 *
 * starter.c       the loop and the end            starter_node.c    a node's life
 * starter_hosts.c which nodes, from the options   starter_line.c    what a remote shell is to run */
#ifndef CKPT_CLI_STARTER_H
#define CKPT_CLI_STARTER_H

#include "frame/command.h"
#include "process/launch_proc.h"
#include "process/launch_sink.h"
#include "remote/shell.h"

#include "base/err.h"

enum { STARTER_NODES_MAX = 1024 };
enum node_stand { NODE_WAITING = 0, NODE_RUNNING, NODE_ENDED };

struct starter_node {
	const char *host; /* in starter.names */
	bool spare;
	enum node_stand stand;
	struct proc proc;
	int control; /* its launcher's stdin; -1: none */
	struct stream out, err;
	uint64_t start_at;  /* WAITING: not before */
	uint64_t broken_ns; /* since when the way to it is broken; 0: it is not */
	bool begun;         /* it was reached once */
	unsigned tries;     /* in vain, before it was */
	unsigned starts;    /* of its remote shell */
	bool done;          /* its launcher has ended by itself */
};

struct starter {
	const struct cli *cli;
	char *names; /* the texts of hosts */
	struct shell shell;
	struct starter_node *nodes;
	uint32_t nnodes, nspares;  /* the spares come last, and count in nnodes, too */
	uint32_t processes;        /* on each */
	uint64_t least;            /* ranks without which the job cannot go on */
	bool elastic;              /* it can go on without a node */
	char *here, self[4096];    /* the working directory, and this program: as they were at the start */
	struct rlimit descriptors; /* as they were at the start, too */
	const char *job;
	struct sink out, err;
	int signals;       /* signalfd; the caller's */
	char asked;        /* 'T', 'I' as on stdin of the launchers; 0: nobody has asked for the end */
	uint64_t grace_ns; /* then */
	uint64_t kill_at;  /* UINT64_MAX: not asked */
	bool killed;       /* the remote shells were */
	uint64_t beat_at;  /* when the launchers are to hear that somebody attends */
	bool failed;       /* the job cannot go on */
	bool finished; /* a launcher has ended by itself, not as one without which the job goes on, and since then no way broke */
	int code;         /* the first that was not 0, of a launcher */
	uint64_t code_ns; /* when the last such ended */
};

/* Whether the text of --nodes names hosts, rather than their number. */
bool starter_names_hosts(const char *nodes);
/* How many then; an exit code. */
int starter_count_hosts(const struct cli *cli, uint32_t *nodes);
/* Runs until the job has ended on all nodes; the exit code. grace_ns: of the launchers. */
int starter_main(const struct cli *cli, const char *job, uint32_t processes, uint64_t grace_ns, int signals);

/* starter_hosts.c: reads --nodes, --spares, --remote-shell and refuses what cannot go with them; an exit code. */
int hosts_read(struct starter *s);

/* starter_line.c: the command for a remote shell, quoted for a POSIX shell; free() it. NULL: no memory. */
char *line_of(const struct starter *s, uint32_t node);

/* starter_node.c */
void node_start(struct starter *s, struct starter_node *node, uint64_t now);
/* Its remote shell has ended. */
void node_ended(struct starter *s, struct starter_node *node, uint64_t now);
/* The others end with it, where the job cannot be at work any more. */
bool nodes_suffice(const struct starter *s);
/* Passes a wish on to its launcher; '.': that somebody is there. */
void node_ask(struct starter_node *node, char wish);

/* A line on stderr, in order with those of the nodes. */
void starter_say(struct starter *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The job is over, or is to be: 'T': a clean end on all nodes; 'I': at once, when an end was asked for already. */
void starter_ask(struct starter *s, char wish);
/* The job cannot go on: says why, and ends the others. */
void starter_give_up(struct starter *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
