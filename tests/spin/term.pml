/* Who coordinates a job that is spread over nodes, where it is elected: the lease, the term, the epochs on record, and what a coordinator that is one no
 * more has still asked of the disk. What an epoch is for is in epoch.pml, what a commit is in commit.pml.
 *
 * What stands for what
 *   Etcd       the registry: the record jobs/JOB/coordinator under the lease of who made it, created in the revision that is the term, and
 *              jobs/JOB/epoch. What is asked of it is applied at any time later.
 *   Daemon(d)  ckptd/control/election/election.c, hand_over.c, coordinator_host.c, epoch_record.c, ckptd/coordinator/resume.c,
 *              ckptd/checkpoint/directory.c and ckptd/registry/lease.c. It may hand the job over at any time: then it asks for its record to be deleted, and
 *              anybody may be elected, since who comes first by jobs/JOB/heir may be lost. It believes in its lease by its own clock, which is at its end before etcd's is. A daemon that is
 *              stopped is one that takes no step for long: what it does in one step was asked of the clock in that step, and what it has
 *              asked of the disk, of etcd or of the node comes later, or never.
 *   Node       one that has part in the job, ckptd/participant/participant.c: it obeys who coordinates as far as it knows, in that term. Its
 *              ranks are in epoch 1 and have captured one snapshot, which is to go to storage. The registry may be away from it: then it believes
 *              who says that it coordinates in a later term than it knows. When the registry is back, it may first tell of what was before.
 *   Disk       the directories of that snapshot on the shared store: each coordinator makes one of its own, which only its term can name. One of
 *              them gets the checkpoint's name, once. Files are written in what was opened, and deleted there by order of its term. What was
 *              asked of the disk is done at any time later, also when other coordinators have begun, made theirs, and named it.
 *
 * What anybody knows of the registry is what stood there at some moment, and never goes back: a step takes it up to the present. */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef LAPSES
#define LAPSES 1	/* leases that are not renewed in time */
#endif
#ifndef RESTARTS
#define RESTARTS 0	/* of daemons */
#endif
#ifndef LOSSES
#define LOSSES 0	/* of ranks */
#endif
#ifndef FAILS
#define FAILS 0		/* of the node's part, or of the directory */
#endif
#ifndef HANDS
#define HANDS 0		/* times that the job is handed over, and that a request for that is lost */
#endif
#ifndef AWAYS
#define AWAYS 0		/* times that the registry is away from the node */
#endif

/* The mutants; 0 is the protocol as it is meant. */
#define FROM_ANSWER	(MUTANT == 1)	/* a lease is counted from its answer: etcd may end it before its daemon does */
#define NO_CLOCK	(MUTANT == 2)	/* a coordinator acts until it hears that it is none, whatever its clock says */
#define ANY_TERM	(MUTANT == 3)	/* a node obeys who coordinates, whatever the term of the order */
#define ANYBODY		(MUTANT == 4)	/* a node obeys whoever says that it coordinates */
#define OLD_REPORTS	(MUTANT == 5)	/* a coordinator hears what was said to it in an earlier term */
#define UNBOUND		(MUTANT == 6)	/* an epoch is recorded whoever coordinates */
#define TOLD_EARLY	(MUTANT == 7)	/* an epoch is told before it is recorded */
#define BEFORE_MIRROR	(MUTANT == 8)	/* a coordinator begins with the answer, before its mirror has shown its record */
#define ANY_STATE	(MUTANT == 9)	/* the epoch goes on under a new coordinator, whatever its ranks are in */
#define BY_NAME		(MUTANT == 10)	/* what has failed is moved aside by the name of the checkpoint */
#define MOVES_ALL	(MUTANT == 11)	/* a new coordinator moves aside what bears the checkpoint's name */
#define EARLIER_LIFE	(MUTANT == 12)	/* a daemon that is started again takes the record of its earlier life for its own */
#define OVER_ANOTHER	(MUTANT == 13)	/* the record is written, whether or not one stands */
#define ONE_WORK	(MUTANT == 14)	/* what is under work has one name in all terms; who makes it anew moves the former one aside */
#define ANY_CLEARS	(MUTANT == 15)	/* a node deletes what it wrote by order of any term */
#define BLIND		(MUTANT == 16)	/* nobody looks whether what was prepared is in the directory that gets the name */
#define DROPS_NAMED	(MUTANT == 17)	/* a node that fails when all are prepared still fails the checkpoint, which is deleted */
#define ACTS_ON		(MUTANT == 18)	/* who hands the job over acts until it sees that its record is gone */
#define TAKES_BACK	(MUTANT == 19)	/* who has handed the job over takes it up again while its record still stands */
#define ANY_RECORD	(MUTANT == 20)	/* the record is deleted, whosever it is by then */
#define ASKS_ONCE	(MUTANT == 21)	/* who hands the job over asks for that once */
#define ANY_WORD	(MUTANT == 22)	/* while the registry is away, a node believes whoever says that it coordinates */
#define BACK_PAST	(MUTANT == 23)	/* a registry that is back counts at once, although it tells of what was before */
#define ONE_TERM	(MUTANT == 24)	/* the term is not new with each record */

#define NOBODY 2
#define NODE 2
#define WANTS 16
#define EPOCH_OF(e) ((e) % WANTS)
#define TERMS 6
#define MESSAGES 5	/* on their way, before who sends more waits: with fewer all wait for each other */
#define EPOCHS 6

mtype = { CREATE, RECORD };				/* of etcd */
mtype = { MKDIR, NAME, ASIDE };				/* of the disk; ASIDE in mutant 10 only */
mtype = { ANNOUNCE, RESUME, RAISE, WRITE, DURABLE, FAIL, CLEAR };	/* coordinator to node: its term, epoch */
mtype = { JOIN, LOST, PREPARED, FAILED };		/* and back: the term; JOIN: the epoch that its ranks are in, and whether something waits to be stored */
mtype = { WAITS, RECORDS, IN };				/* a coordinator: for the node; for etcd; the epoch runs */
mtype = { WANTED, MAKING, MADE, NAMING };	/* its part in the checkpoint */

/* ---- etcd */
byte holder = NOBODY, term, last_term, recorded = 1;
bool lease[2], stale;	/* the record is under the lease of an earlier life of its daemon */

/* ---- daemons */
bool trusts[2];		/* in its lease */
byte own[2];		/* the term in which it coordinates; 0: it does not */
byte seen[3] = NOBODY, seen_term[3];	/* what the mirrors show; the last one is the node's */
mtype asked[2];
byte asked_term[2], asked_epoch[2];
bool asked_leased[2];	/* the lease under which it was asked stands */
byte given_up[2];	/* the term in which it has handed the job over */
byte giving[2];		/* the same, while the record is asked to be deleted */
mtype runs[2], save[2];
byte epoch[2];
byte dir[2];		/* that it has made */
/* What is asked of the disk; a new coordinator on the same daemon does not wait for what the former has asked. */
mtype op[4];
byte op_dir[4], op_term[4];

/* ---- the node */
byte works = 1, nepoch = 1;	/* 0: a rank of it is lost */
bool away;			/* the registry, from it */
byte past = NOBODY, past_term;	/* what its mirror showed then */
bool wants = true, broken;	/* its snapshot is to go to storage; its part has failed */
byte part, part_term;		/* the directory that has it, and the term in which it was made */
chan order[2] = [MESSAGES + 2] of { mtype, byte, byte };
chan report[2] = [MESSAGES + 2] of { mtype, byte, byte };

/* ---- the disk */
byte named, work, ndirs;	/* what bears the checkpoint's name; 0: nothing. work: what was made last */
byte made_in[TERMS];		/* the directory that the term can name */
bool files[6];

/* ---- what only the checker knows */
byte of_term[TERMS] = NOBODY, giver[EPOCHS];
byte obeyed;
bool told_durable, told_failed, lost;	/* a rank, since it has said for the first time in the term in which epoch they are */
byte joined;				/* that term */
byte lapses, restarts, losses, fails, hands, drops, aways;

#define ACTS(d) (own[d] && (trusts[d] || NO_CLOCK))
#define FREE_OP(d) (!op[2 * (d)] || !op[2 * (d) + 1])
#define ROOM(d) (len(order[d]) <= MESSAGES)

inline act(d) {
	assert(holder == d && term == own[d]) /* acts_alone */
}

inline ask_disk(d, what, which) {
	act(d);
	if
	:: !op[2 * d] -> op[2 * d] = what; op_dir[2 * d] = which; op_term[2 * d] = own[d]
	:: else -> op[2 * d + 1] = what; op_dir[2 * d + 1] = which; op_term[2 * d + 1] = own[d]
	fi
}

inline tell(d, what) {
	act(d);
	order[d]!what, own[d], epoch[d]
}

inline drain(c) {
	do
	:: nempty(c) -> c?_,_,_
	:: empty(c) -> break
	od
}

inline depose(d) {
	own[d] = 0;
	runs[d] = 0;
	save[d] = 0;
	epoch[d] = 0;
	dir[d] = 0
}

inline begin(d, t) {
	own[d] = t;
	assert(of_term[t] == NOBODY || of_term[t] == d); /* one_of_a_term */
	of_term[t] = d;
	runs[d] = WAITS;
	epoch[d] = recorded;
	if
	:: MOVES_ALL -> named = 0
	:: else -> skip
	fi;
	tell(d, ANNOUNCE)
}

/* First it coordinates no more, then its record goes. */
inline hand_over(d) {
	given_up[d] = own[d];
	giving[d] = own[d];
	if
	:: ACTS_ON -> skip
	:: else -> depose(d)
	fi
}

/* A new epoch: what was to go to storage and is not there has failed with the old one. */
inline raise(d) {
	runs[d] = RECORDS;
	save[d] = 0;
	asked[d] = RECORD;
	asked_term[d] = own[d];
	asked_epoch[d] = epoch[d] + 1;
	if
	:: TOLD_EARLY -> give(d, asked_epoch[d])
	:: else -> skip
	fi
}

inline give(d, e) {
	assert(giver[e] == 0 || giver[e] == own[d]); /* given_once */
	giver[e] = own[d];
	epoch[d] = e;
	tell(d, RAISE)
}

/* Of what it has made; the node deletes. */
inline fail(d) {
	save[d] = 0;
	tell(d, FAIL);
	tell(d, CLEAR);
	if
	:: BY_NAME -> ask_disk(d, ASIDE, 0)
	:: else -> skip
	fi
}

/* By which the daemon is not certain of anything it had asked for. */
inline lose_lease(d) {
	trusts[d] = false;
	if
	:: NO_CLOCK -> skip
	:: else -> depose(d)
	fi
}

/* What one daemon has of it. */
proctype Etcd(byte d) {
end:	do
	/* Its time is over. */
	:: atomic { lease[d] && (!trusts[d] || FROM_ANSWER) ->
		lease[d] = false;
		asked_leased[d] = false;
		if
		:: holder == d && !stale -> holder = NOBODY
		:: else -> skip
		fi }
	:: atomic { stale && holder == d -> holder = NOBODY; stale = false }
	:: atomic { asked[d] == CREATE ->
		asked[d] = 0;
		if
		:: asked_leased[d] && (holder == NOBODY || OVER_ANOTHER) && last_term < TERMS - 1 ->
			last_term = (ONE_TERM -> 1 : last_term + 1);
			holder = d;
			term = last_term;
			stale = false;
			if
			:: BEFORE_MIRROR && trusts[d] ->
				own[d] = term;
				runs[d] = WAITS;
				epoch[d] = asked_epoch[d]
			:: else -> skip
			fi
		:: else -> skip
		fi }
	:: atomic { giving[d] ->
		if
		:: (holder == d && term == giving[d]) || (ANY_RECORD && holder != NOBODY) -> holder = NOBODY; stale = false
		:: else -> skip
		fi;
		giving[d] = 0 }
	:: atomic { giving[d] && drops < HANDS -> drops++; giving[d] = 0 }
	:: atomic { asked[d] == RECORD && ROOM(d) ->
		asked[d] = 0;
		if
		:: (holder == d && term == asked_term[d]) || UNBOUND ->
			assert(asked_epoch[d] > recorded); /* recorded_once */
			recorded = asked_epoch[d];
			if
			:: !TOLD_EARLY && ACTS(d) && own[d] == asked_term[d] && runs[d] == RECORDS -> runs[d] = IN; give(d, recorded)
			:: TOLD_EARLY && own[d] == asked_term[d] && runs[d] == RECORDS -> runs[d] = IN
			:: else -> skip
			fi
		:: else -> skip
		fi }
	od
}

/* Its record stands, and it takes it for its own. */
#define IS_OURS(d) (holder == (d) && trusts[d] && (!stale || EARLIER_LIFE) && (term != given_up[d] || TAKES_BACK))
#define IS_GIVEN_UP(d) (holder == (d) && !stale && term == given_up[d])
#define SHOWN(d) (IS_GIVEN_UP(d) && !ACTS_ON -> NOBODY : holder)

proctype Daemon(byte d) {
	byte e, t;
end:	do
	:: atomic { !trusts[d] && !lease[d] && !own[d] -> lease[d] = true; trusts[d] = true }
	:: atomic { trusts[d] && lapses < LAPSES -> lapses++; lose_lease(d) }
	:: atomic { restarts < RESTARTS ->
		restarts++;
		stale = stale || (lease[d] && holder == d);
		lease[d] = false;
		trusts[d] = false;
		depose(d);
		asked[d] = 0;
		seen[d] = NOBODY;
		seen_term[d] = 0;
		drain(order[d]);
		drain(report[d]) }
	/* The mirror. What it asks for if nobody coordinates is the epoch that it knows of then. */
	:: atomic { (seen[d] != SHOWN(d) || (SHOWN(d) != NOBODY && seen_term[d] != term) || (!own[d] && IS_OURS(d))) && ROOM(d) ->
		seen[d] = SHOWN(d);
		seen_term[d] = (SHOWN(d) == NOBODY -> 0 : term);
		if
		:: own[d] && (holder != d || own[d] != term) -> depose(d)
		:: else -> skip
		fi;
		if
		:: !own[d] && IS_OURS(d) -> begin(d, term)
		:: else -> skip
		fi }
	:: atomic { seen[d] == NOBODY && trusts[d] && !asked[d] && !own[d] && last_term < TERMS - 1 && (holder != d || stale) ->
		asked[d] = CREATE;
		asked_leased[d] = true;
		asked_epoch[d] = (seen_term[d] -> asked_epoch[d] : recorded) }
	:: atomic { ACTS(d) && hands < HANDS && !giving[d] -> hands++; hand_over(d) }
	:: atomic { IS_GIVEN_UP(d) && !giving[d] && !ASKS_ONCE -> giving[d] = given_up[d] }
	/* What the node says. */
	:: atomic { nempty(report[d]) && (!own[d] || ACTS(d)) && ROOM(d) && FREE_OP(d) ->
		if
		:: report[d]?[JOIN, _, _] ->
			report[d]?JOIN, t, e;
			if
			:: own[d] && (t == own[d] || OLD_REPORTS) && runs[d] == WAITS ->
				if
				:: EPOCH_OF(e) == epoch[d] || ANY_STATE -> runs[d] = IN; save[d] = (e >= WANTS -> WANTED : 0); tell(d, RESUME)
				:: else -> raise(d)
				fi
			:: else -> skip
			fi
		:: report[d]?[LOST, _, _] ->
			report[d]?LOST, t, e;
			if
			:: own[d] && (t == own[d] || OLD_REPORTS) && e == epoch[d] && runs[d] == IN -> raise(d)
			:: else -> skip
			fi
		:: report[d]?[PREPARED, _, _] ->
			report[d]?PREPARED, t, e;
			if
			:: own[d] && (t == own[d] || OLD_REPORTS) && save[d] == MADE && (files[dir[d]] || BLIND) ->
				save[d] = NAMING;
				ask_disk(d, NAME, dir[d])
			:: own[d] && (t == own[d] || OLD_REPORTS) && save[d] == MADE && !files[dir[d]] && !BLIND -> fail(d)
			:: else -> skip
			fi
		:: report[d]?[FAILED, _, _] ->
			report[d]?FAILED, t, e;
			if
			:: own[d] && (t == own[d] || OLD_REPORTS) && (save[d] == MADE || (save[d] == NAMING && DROPS_NAMED)) -> fail(d)
			:: own[d] && (t == own[d] || OLD_REPORTS) && save[d] == WANTED -> save[d] = 0; tell(d, FAIL)
			:: else -> skip
			fi
		fi;
		e = 0;
		t = 0 }
	/* The checkpoint. */
	:: atomic { ACTS(d) && runs[d] == IN && save[d] == WANTED && FREE_OP(d) && epoch[d] == 1 -> save[d] = MAKING; ask_disk(d, MKDIR, 0) }
	od
}

#define HEEDED (t && ACTS(d) && own[d] == t)

/* One that is asked for, and its answer. */
proctype Disk(byte n) {
	byte d = n / 2, t, which;
	mtype what;
	bool there;
end:	do
	:: atomic { op[n] && ROOM(d) ->
		what = op[n];
		t = op_term[n];
		which = op_dir[n];
		op[n] = 0;
		op_term[n] = 0;
		op_dir[n] = 0;
		there = false;
		if
		:: what == MKDIR && named == 0 -> ndirs++; work = ndirs; made_in[t] = ndirs
		:: what == MKDIR && named -> there = true
		:: what == NAME && named == 0 -> named = (ONE_WORK -> work : which)
		:: what == NAME && named -> skip /* what stands there says the same */
		:: what == ASIDE -> named = 0
		fi;
		assert(!named || files[named]); /* no_file_missing */
		assert(!told_durable || named); /* durable_stays */
		if
		:: !HEEDED -> skip
		:: HEEDED && what == MKDIR && !there ->
			dir[d] = made_in[t];
			if
			:: save[d] == MAKING -> save[d] = MADE; tell(d, WRITE)
			:: save[d] == MAKING && fails < FAILS -> fails++; fail(d)
			:: save[d] != MAKING -> skip
			fi
		:: HEEDED && what == MKDIR && there && save[d] == MAKING -> save[d] = 0; tell(d, DURABLE)
		:: HEEDED && what == MKDIR && there && save[d] != MAKING -> skip
		:: HEEDED && what == NAME && save[d] == NAMING -> tell(d, DURABLE); save[d] = 0
		:: HEEDED && what == NAME && save[d] != NAMING -> skip
		:: HEEDED && what == ASIDE -> skip
		fi;
		t = 0;
		which = 0;
		what = 0;
		there = false }
	od
}

#define BELIEVES(d, t) (ANYBODY || (seen[NODE] == (d) && (seen_term[NODE] == (t) || ANY_TERM)))
#define CAN_SAY (seen[NODE] == NOBODY || len(report[seen[NODE]]) <= MESSAGES)
#define CAN_HEAR(d) (CAN_SAY && (!away || len(report[d]) < MESSAGES))

inline say(what, x) {
	if
	:: seen[NODE] != NOBODY -> report[seen[NODE]]!what, seen_term[NODE], x
	:: else -> skip
	fi
}

inline join() {
	say(JOIN, works + (wants -> WANTS : 0));
	lost = lost && joined == seen_term[NODE];
	joined = seen_term[NODE];
	if
	:: broken -> say(FAILED, 0)
	:: else -> skip
	fi
}

inline follow(d, t) {
	seen[NODE] = d;
	seen_term[NODE] = t;
	join()
}

inline hear(d) {
	if
	:: away && !BELIEVES(d, t) && (t > seen_term[NODE] || ANY_WORD) -> follow(d, t)
	:: else -> skip
	fi;
	if
	:: BELIEVES(d, t) ->
		assert(t >= obeyed); /* newest */
		obeyed = t;
		if
		:: what == ANNOUNCE -> join() /* it may not have known that it was elected when it was told what holds */
		:: what == RESUME -> assert(works == e || lost) /* goes_on */
		:: what == RAISE && e > nepoch -> nepoch = e; works = e; wants = false
		:: what == RAISE && e <= nepoch -> skip
		:: what == WRITE && wants && !broken && !part -> part = made_in[t]; part_term = t; files[part] = true; say(PREPARED, 0)
		:: what == WRITE && wants && !broken && part -> say(PREPARED, 0) /* it was, in an earlier term */
		:: what == WRITE && wants && (broken || (!part && fails < FAILS)) ->
			if
			:: !broken -> fails++
			:: else -> skip
			fi;
			broken = true;
			say(FAILED, 0)
		:: what == WRITE && wants && DROPS_NAMED && !broken && fails < FAILS ->
			fails++;
			part = made_in[t];
			part_term = t;
			files[part] = true;
			say(PREPARED, 0);
			say(FAILED, 0)
		:: what == WRITE && !wants -> skip
		:: what == DURABLE ->
			assert(!told_failed); /* one_outcome */
			assert(named && files[named]); /* durable_stays */
			told_durable = true;
			wants = false
		:: what == FAIL ->
			assert(!told_durable); /* one_outcome */
			told_failed = told_failed || wants;
			wants = false
		:: what == CLEAR && part && (part_term == t || ANY_CLEARS) -> files[part] = false; part = 0; assert(!named || files[named]) /* no_file_missing */
		:: what == CLEAR && !(part && (part_term == t || ANY_CLEARS)) -> skip
		fi
	:: else -> skip
	fi;
	what = 0;
	t = 0;
	e = 0
}

proctype Node() {
	byte e, t;
	mtype what;
end:	do
	:: atomic { !away && (seen[NODE] != holder || (holder != NOBODY && seen_term[NODE] != term)) && (holder == NOBODY || len(report[holder]) <= MESSAGES) ->
		follow(holder, (holder == NOBODY -> 0 : term)) }
	:: atomic { !away && aways < AWAYS -> aways++; away = true; past = seen[NODE]; past_term = seen_term[NODE] }
	:: atomic { away && (past == NOBODY || len(report[past]) <= MESSAGES) ->
		away = false;
		if
		:: BACK_PAST && (past != seen[NODE] || past_term != seen_term[NODE]) -> follow(past, past_term)
		:: else -> skip
		fi;
		past = NOBODY;
		past_term = 0 }
	:: atomic { works && losses < LOSSES && CAN_SAY -> losses++; works = 0; lost = true; say(LOST, nepoch) }
	:: atomic { nempty(order[0]) && CAN_HEAR(0) -> order[0]?what, t, e; hear(0) }
	:: atomic { nempty(order[1]) && CAN_HEAR(1) -> order[1]?what, t, e; hear(1) }
	od
}

proctype Judge() {
	timeout -> /* nothing can move: somebody coordinates, and all know what became of the rest */
	assert(last_term == TERMS - 1 || (own[0] != 0) != (own[1] != 0)); /* ends */
	assert(last_term == TERMS - 1 || (works && works == epoch[(own[0] -> 0 : 1)])); /* ends */
	assert(last_term == TERMS - 1 || !wants) /* ends */
}

init {
	atomic {
		run Etcd(0);
		run Etcd(1);
		run Daemon(0);
		run Daemon(1);
		run Disk(0);
		run Disk(1);
		run Disk(2);
		run Disk(3);
		run Node();
		run Judge()
	}
}
