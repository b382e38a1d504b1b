/* The plan of a job whose world changes: it is decided, recorded, and told to two nodes; its coordinator is lost at any moment, and another one goes on from the record. Who coordinates is in
 * term.pml: here a coordinator that loses its lease knows it at once, and only what it has asked for and sent is still under way.
 *
 * What stands for what
 *   Registry   jobs/JOB/epoch, as far as it says the plan. What is asked of it is applied at any time later, or never.
 *   Daemon(d)  ckptd/control/membership/membership_record.c, membership_plan.c, coordinator_orders.c and epoch_record.c. Each plan that it decides differs from all others.
 *   Node(n)    ckptd/job/resize.c: it follows a plan of a later number than that which it follows. What was sent to it before the coordinator was lost arrives, or does not. */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef LAPSES
#define LAPSES 2	/* coordinators that are lost */
#endif
#ifndef PLANS
#define PLANS 4		/* decisions */
#endif

/* The mutants; 0 is the protocol as it is meant. */
#define TOLD_EARLY	(MUTANT == 1)	/* a plan is told before it is recorded */
#define UNBOUND		(MUTANT == 2)	/* a plan is recorded whoever coordinates */
#define NOT_READ	(MUTANT == 3)	/* a new coordinator counts on from what a node tells it, and not from the record */
#define UNORDERED	(MUTANT == 4)	/* another plan is made before the last one is on record */
#define TAKES_AS_TOLD	(MUTANT == 5)	/* a new coordinator holds that all have heard of what is on record */
#define NUMBER_ONLY	(MUTANT == 6)	/* a new coordinator reads which plan it was, and divides the ranks anew under its number */

#define NOBODY 2

mtype = { IDLE, RECORDS, TELLS };

/* ---- the registry: plan 1 is on record, and followed */
byte holder = NOBODY, term;
byte recorded = 1, what = 1;	/* which plan, and which of all decisions that is */
/* What is asked of it; two at a time only as a mutant, or of two terms. */
byte ask_term[4], ask_plan[4], ask_what[4];

/* ---- daemons */
bool own[2];
mtype at[2] = IDLE;
byte plan[2], is[2];
bool heard[4];		/* by daemon and node: it has been told */

/* ---- nodes */
byte follows[2] = 1, followed[2] = 1, obeyed[2];
chan order[2] = [6] of { byte, byte, byte };	/* term, plan, which decision */

byte lapses, decisions = 1;

#define FREE(d) (!ask_term[2 * (d)] || !ask_term[2 * (d) + 1])
#define TOLD(d, n) heard[2 * (d) + (n)]

inline ask(d) {
	if
	:: !ask_term[2 * d] -> ask_plan[2 * d] = plan[d]; ask_what[2 * d] = is[d]; ask_term[2 * d] = term
	:: else -> ask_plan[2 * d + 1] = plan[d]; ask_what[2 * d + 1] = is[d]; ask_term[2 * d + 1] = term
	fi
}

inline decide(d) {
	decisions++;
	plan[d]++;
	is[d] = decisions;
	at[d] = (TOLD_EARLY -> TELLS : RECORDS);
	TOLD(d, 0) = false;
	TOLD(d, 1) = false;
	ask(d)
}

inline begin(d) {
	own[d] = true;
	holder = d;
	term++;
	if
	:: !NOT_READ -> plan[d] = recorded; is[d] = what
	:: NOT_READ -> plan[d] = follows[0]; is[d] = followed[0] /* it has heard this one node so far */
	fi;
	if
	:: NUMBER_ONLY && decisions < PLANS -> decisions++; is[d] = decisions
	:: else -> skip
	fi;
	at[d] = TELLS;
	TOLD(d, 0) = TAKES_AS_TOLD;
	TOLD(d, 1) = TAKES_AS_TOLD
}

inline lose_last(c) {
	k = len(c) - 1;
	do
	:: k > 0 -> c?a, b, e; c!a, b, e; k--
	:: else -> break
	od;
	c?_, _, _;
	a = 0;
	b = 0;
	e = 0
}

/* Its process, or its lease. Of what it has sent the last may not have left it. */
inline lose(d) {
	own[d] = false;
	holder = NOBODY;
	at[d] = IDLE;
	do
	:: nempty(order[0]) -> lose_last(order[0])
	:: nempty(order[1]) -> lose_last(order[1])
	:: break
	od
}

proctype Registry(byte n) {
	byte d = n / 2;
end:	do
	:: atomic { ask_term[n] ->
		if
		:: (own[d] && ask_term[n] == term) || UNBOUND ->
			assert(ask_plan[n] > recorded); /* recorded_once */
			recorded = ask_plan[n];
			what = ask_what[n];
			if
			:: own[d] && ask_term[n] == term && at[d] == RECORDS && plan[d] == recorded -> at[d] = TELLS
			:: else -> skip
			fi
		:: else -> skip
		fi;
		ask_term[n] = 0;
		ask_plan[n] = 0;
		ask_what[n] = 0 }
	od
}

proctype Daemon(byte d) {
	byte k, a, b, e;
end:	do
	:: atomic { holder == NOBODY -> begin(d) }
	:: atomic { own[d] && lapses < LAPSES -> lapses++; lose(d) }
	:: atomic { own[d] && decisions < PLANS && (UNORDERED || (at[d] == TELLS && recorded == plan[d])) && FREE(d) -> decide(d) }
	:: atomic { own[d] && at[d] == TELLS && !TOLD(d, 0) && nfull(order[0]) -> TOLD(d, 0) = true; order[0]!term, plan[d], is[d] }
	:: atomic { own[d] && at[d] == TELLS && !TOLD(d, 1) && nfull(order[1]) -> TOLD(d, 1) = true; order[1]!term, plan[d], is[d] }
	od
}

proctype Node(byte n) {
	byte t, p, w;
end:	do
	:: atomic { nempty(order[n]) ->
		order[n]?t, p, w;
		if
		:: t >= obeyed[n] ->
			obeyed[n] = t;
			assert(p != follows[n] || w == followed[n]); /* one_of_a_number */
			if
			:: p > follows[n] ->
				follows[n] = p;
				followed[n] = w;
				assert(follows[1 - n] != p || followed[1 - n] == w) /* one_of_a_number */
			:: else -> skip
			fi
		:: else -> skip
		fi;
		t = 0;
		p = 0;
		w = 0 }
	od
}

proctype Judge() {
	timeout -> /* nothing can move: all follow what is on record */
	assert(follows[0] == recorded && followed[0] == what); /* ends */
	assert(follows[1] == recorded && followed[1] == what) /* ends */
}

init {
	atomic {
		run Registry(0);
		run Registry(1);
		run Registry(2);
		run Registry(3);
		run Daemon(0);
		run Daemon(1);
		run Node(0);
		run Node(1);
		run Judge()
	}
}
