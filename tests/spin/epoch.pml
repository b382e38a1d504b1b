/* Epochs, levels in memory, copies and restores of a job that is spread over nodes (what becomes of a checkpoint on storage: commit.pml).
 *
 * A rank on each of N nodes; each has one copy of its snapshot, on the next node. Nodes are lost with their memory and come back empty, sessions
 * with the coordinator end at any time with what is in flight, the coordinator dies and is started again.
 *
 * What stands for what
 *   Coordinator  ckptd/coordinator/coordinator.c, restore.c, copy.c with its host (ckptd/control/host/coordinator_host.c): raises the epoch, records it (epoch_record.c) before anybody is told, lets all
 *                enter at once, chooses what is restored (restore_candidates.c), shows levels, orders copies of one snapshot at a time. LOOK and the survey of
 *                copies are one step with the entry: between them nothing changes but by a loss, which raises the epoch.
 *   Peer(n)      the coordinator's side of its session with a node: what it makes of a report, and of the end of the session.
 *   Node(n)      ckptd/participant/participant.c, copies.c, reclaim.c and the sender of replica.c; as a holder, replica_room.c and replica_hold.c: two slots. A region is
 *                closed by the holder's new epoch, so that a sender that was stopped, which is one that takes no step for long, changes nothing.
 *                Its rank: what it captures after another rank has been told of a new epoch, and has aborted the collectives, is garbage.
 *
 * Copied and captured are one step here, and a session between two nodes ends with a node only. Snapshots are numbered in the order in which
 * recovery prefers them; 1 is replicated when it begins. A snapshot is a bit of a mask; 0 is none. */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef N
#define N 2		/* nodes: 2 or 3 */
#endif
#ifndef IDS
#define IDS 2		/* snapshots; the first is there */
#endif
#ifndef CRASHES
#define CRASHES 0	/* of nodes, with their memory */
#endif
#ifndef CUTS
#define CUTS 0		/* sessions that end while both sides live */
#endif
#ifndef RESTARTS
#define RESTARTS 0	/* of the coordinator */
#endif
#ifndef MISSES
#define MISSES 0	/* copies that cannot be made */
#endif

/* The mutants; 0 is the protocol as it is meant. */
#define TOLD_EARLY	(MUTANT == 1)	/* an epoch is told before its record is on storage */
#define REUSED		(MUTANT == 2)	/* a coordinator that is started again goes on with the recorded epoch */
#define OLD_COUNTS	(MUTANT == 3)	/* reports of an older epoch count */
#define DEAF_ENTERS	(MUTANT == 4)	/* who waited to enter the epoch before counts as waiting for the new one */
#define ONE_COPIED	(MUTANT == 5)	/* captured is shown when one rank's part is complete */
#define ONE_HELD	(MUTANT == 6)	/* replicated is shown when one rank's copy is held */
#define FREED_EARLY	(MUTANT == 7)	/* a rank's node gives back what is replicated when a newer one is captured */
#define OVERWRITTEN	(MUTANT == 8)	/* a holder frees the older copy for one that only begins to arrive, replicated or not */
#define STAYS_OPEN	(MUTANT == 9)	/* a new epoch leaves open what an older one had opened */
#define NOT_CHECKED	(MUTANT == 10)	/* a holder says that it holds what has only half arrived */
#define NOT_POISONED	(MUTANT == 11)	/* what was not complete everywhere when the epoch was raised goes on */
#define LOSS_IGNORED	(MUTANT == 12)	/* the end of a session raises nothing, nor does a node that joins */
#define NOT_RECALLED	(MUTANT == 13)	/* who attends neither says nor hears what was replicated */
#define LET_GO		(MUTANT == 14)	/* what was ordered in an epoch that is over is given back, although its copies are held */

#define BIT(id) (1 << ((id) - 1))
#define HAS(mask, id) (((mask) & BIT(id)) != 0)
#define NEWEST(mask) (HAS(mask, 3) -> 3 : (HAS(mask, 2) -> 2 : (HAS(mask, 1) -> 1 : 0)))
#define ONE(id) ((id) -> BIT(id) : 0)
#define EPOCHS 8
#define NEXT(n) (((n) + 1) % N)

mtype = { NODE_JOIN, NODE_READY, FETCHED, COPIED, HELD, UNCOPIED };	/* node to coordinator: epoch, snapshot; NODE_JOIN: that it knows to be replicated */
mtype = { RAISE, JOINED, RESTORED, CAPTURED, COPY, REPLICATED, KEEP };	/* and back */
mtype = { FREE, OPEN, WHOLE };
mtype = { IDLE, SENDS, HALF, ALL, SAYS_HELD, SAYS_UNCOPIED };

chan to_node[N] = [7] of { mtype, byte, byte };
chan to_coord[N] = [3] of { mtype, byte, byte };
bool nses[N] = true, cses[N] = true;	/* what each side believes of the session */

/* ---- the coordinator */
byte epoch = 1, recorded = 1, entered = 1, life = 1;
bool persisting, fresh;
bool joining[N], fetched[N], held[N] = true, ended[N] = true;
byte copied[N] = 1;	/* by node, as reported */
byte shown = 1;		/* captured */
byte copying = 1, chosen;
byte safe = 1;		/* the newest that was told as replicated, as far as it knows */

/* ---- nodes */
bool up[N] = true;
byte nepoch[N] = 1, works[N] = 1;	/* works: the epoch in which its rank is at work */
byte own[N] = 1, nshown[N] = 1;		/* snapshots in the slots of its rank; those of which it knows that they are captured */
byte replicated[N] = 1, ordered[N] = 1, ordered_in[N] = 1, lent[N];
bool said[N] = true;			/* that the copies of what was ordered last are held */
mtype sending[N] = IDLE;
byte skey[N];
/* The copies of its rank, on the next node. */
#define SLOT(n, s) ((n) * 2 + (s))
mtype rstate[N * 2] = FREE;
byte rid[N * 2], rkey[N * 2];
bool intact[N * 2];

/* ---- what only the checker knows */
byte last = 1, epoch_of[IDS + 1], begun[N] = 1;
byte good[N] = 1;		/* captured while all were at work */
bool left[EPOCHS];		/* somebody has been told of a later one */
byte giver[EPOCHS];		/* the life of the coordinator that told it */
bool was_entered[EPOCHS];
byte heard[N] = 1;		/* the newest epoch that it was told of */
byte reported = 1, crashes, losses, cuts, restarts, misses;	/* losses: since something was reported as replicated */
byte k, i;

#define WITHHELD (persisting && !TOLD_EARLY)	/* nobody has been told of the epoch yet */
#define LINKED(n) (cses[n] && nses[n])	/* else what is sent is lost */
#define ROOM1(n) (!LINKED(n) || len(to_node[n]) <= 5)
#if N == 2
#define ROOM (ROOM1(0) && ROOM1(1))
#define CLEAR(what) what[0] = false; what[1] = false
#define ALL(what) (what[0] && what[1])
#define ALL_HAVE(what, id) (HAS(what[0], id) && HAS(what[1], id))
#define ONE_HAS(what, id) (HAS(what[0], id) || HAS(what[1], id))
#define SOME(what) (what[0] || what[1])
#define COVERED_ALL(id) (COVERED(0, id) && COVERED(1, id))
#define ALL_HEARD(e) (heard[0] == (e) && heard[1] == (e))
#else
#define ROOM (ROOM1(0) && ROOM1(1) && ROOM1(2))
#define CLEAR(what) what[0] = false; what[1] = false; what[2] = false
#define ALL(what) (what[0] && what[1] && what[2])
#define ALL_HAVE(what, id) (HAS(what[0], id) && HAS(what[1], id) && HAS(what[2], id))
#define ONE_HAS(what, id) (HAS(what[0], id) || HAS(what[1], id) || HAS(what[2], id))
#define SOME(what) (what[0] || what[1] || what[2])
#define COVERED_ALL(id) (COVERED(0, id) && COVERED(1, id) && COVERED(2, id))
#define ALL_HEARD(e) (heard[0] == (e) && heard[1] == (e) && heard[2] == (e))
#endif

/* A rank's part can be had: out of its node's memory, or as a copy; digests show what is not whole. */
#define IN_SLOT(n, s, id) (rstate[SLOT(n, s)] == WHOLE && rid[SLOT(n, s)] == (id) && intact[SLOT(n, s)])
#define COPY_OF(n, id) (IN_SLOT(n, 0, id) || IN_SLOT(n, 1, id))
#define COVERED(n, id) (HAS(own[n] & nshown[n], id) || COPY_OF(n, id))

inline drain(c) {
	do
	:: nempty(c) -> c?_,_,_
	:: empty(c) -> break
	od
}

inline broadcast(type, what) {
	k = 0;
	do
	:: k < N ->
		if
		:: LINKED(k) -> to_node[k]!type, epoch, what
		:: else -> skip
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

/* What is not known to be captured may be garbage from now on, however complete it looks. */
inline tell_epoch(n) {
	assert(giver[epoch] == 0 || giver[epoch] == life); /* given_once */
	giver[epoch] = life;
	to_node[n]!RAISE, epoch, (NOT_POISONED -> 255 : shown)
}

inline tell_all() {
	i = 0;
	do
	:: i < N ->
		if
		:: LINKED(i) -> tell_epoch(i)
		:: else -> skip
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline forget_epoch() {
	CLEAR(fetched);
	CLEAR(held);
	CLEAR(ended);
	if
	:: DEAF_ENTERS -> skip
	:: else -> CLEAR(joining)
	fi;
	copying = 0;
	chosen = 0
}

inline raise_epoch() {
	epoch++;
	assert(epoch < EPOCHS);
	fresh = false;
	persisting = true;
	forget_epoch();
	if
	:: TOLD_EARLY -> tell_all()
	:: else -> skip
	fi
}

/* Also those who have not heard of it: they would keep what others have given back, and not this. Before they hear of another epoch. */
inline recall(n, id) {
	if
	:: NOT_RECALLED -> skip
	:: !NOT_RECALLED && id > safe -> safe = id; broadcast(KEEP, id)
	:: !NOT_RECALLED && id <= safe && safe && LINKED(n) -> to_node[n]!KEEP, epoch, safe
	:: else -> skip
	fi
}

inline lose(n) {
	cses[n] = false;
	drain(to_coord[n]);
	joining[n] = false;
	copied[n] = 0;
	if
	:: fresh || LOSS_IGNORED -> skip
	:: else -> raise_epoch()
	fi
}

inline copy_begin(id) {
	CLEAR(held);
	CLEAR(ended);
	copying = id;
	broadcast(COPY, id)
}

inline copy_next() {
	if
	:: NEWEST(shown) > copying && (copying == 0 || ALL(ended)) -> copy_begin(NEWEST(shown))
	:: else -> skip
	fi
}

inline choose() {
	chosen = IDS;
	do
	:: chosen && !COVERED_ALL(chosen) -> chosen--
	:: else -> break
	od;
	assert(losses > 1 || chosen >= reported); /* replicated_stays */
	assert(chosen == 0 || ALL_HAVE(good, chosen)); /* sound */
	if
	:: chosen < reported -> reported = chosen
	:: else -> skip
	fi
}

proctype Coordinator() {
end:	do
	:: atomic { persisting && ROOM ->
		recorded = epoch;
		persisting = false;
		if
		:: TOLD_EARLY -> skip
		:: else -> tell_all()
		fi }
	:: atomic { !WITHHELD && entered != epoch && ALL(cses) && ALL(joining) && ROOM ->
		assert(!was_entered[epoch]); /* entered_once */
		assert(ALL_HEARD(epoch)); /* all_heard */
		was_entered[epoch] = true;
		entered = epoch;
		fresh = false;
		CLEAR(joining);
		choose();
		broadcast(JOINED, chosen) }
	:: atomic { !WITHHELD && entered == epoch && ALL(fetched) && ROOM ->
		CLEAR(fetched);
		shown = shown | ONE(chosen);
		broadcast(RESTORED, chosen);
		if
		:: chosen -> copy_begin(chosen)
		:: else -> skip
		fi }
	:: atomic { restarts < RESTARTS -> /* it dies and comes back: what it knew is gone, but for the record */
		restarts++;
		life++;
		k = 0;
		do
		:: k < N -> cses[k] = false; drain(to_coord[k]); copied[k] = 0; joining[k] = false; k++
		:: else -> break
		od;
		forget_epoch();
		shown = 0;
		safe = 0;
		entered = 0;
		epoch = recorded + (REUSED -> 0 : 1);
		fresh = true;
		persisting = !REUSED }
	od
}

#define SAYS(type, n) (cses[n] && to_coord[n]?[type, _, _])
#define COUNTS(e) (((e) == epoch && !WITHHELD) || OLD_COUNTS)

proctype Peer(byte n) {
	byte e, x;
end:	do
	:: atomic { SAYS(NODE_JOIN, n) && ROOM ->
		to_coord[n]?NODE_JOIN, e, x;
		recall(n, x);
		if
		:: e > epoch || (e == epoch && fresh) -> epoch = e; raise_epoch()
		:: else ->
			if
			:: LINKED(n) && !WITHHELD -> tell_epoch(n)
			:: else -> skip
			fi
		fi;
		e = 0;
		x = 0 }
	:: atomic { SAYS(NODE_READY, n) ->
		to_coord[n]?NODE_READY, e, x;
		if
		:: e == epoch && !WITHHELD -> joining[n] = true
		:: else -> skip
		fi;
		e = 0 }
	:: atomic { SAYS(FETCHED, n) ->
		to_coord[n]?FETCHED, e, x;
		if
		:: e == epoch && !WITHHELD -> fetched[n] = true
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	:: atomic { SAYS(COPIED, n) && ROOM ->
		to_coord[n]?COPIED, e, x;
		if
		:: COUNTS(e) ->
			copied[n] = copied[n] | BIT(x);
			if
			:: !HAS(shown, x) && (ALL_HAVE(copied, x) || (ONE_COPIED && ONE_HAS(copied, x))) ->
				assert(ALL_HAVE(good, x)); /* sound */
				shown = shown | BIT(x);
				broadcast(CAPTURED, x);
				copy_next()
			:: else -> skip
			fi
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	:: atomic { (SAYS(HELD, n) || SAYS(UNCOPIED, n)) && ROOM ->
		bool whole = to_coord[n]?[HELD, _, _];
		to_coord[n]?_, e, x;
		if
		:: COUNTS(e) && x == copying ->
			if
			:: whole && !held[n] ->
				held[n] = true;
				if
				:: ALL(held) || (ONE_HELD && SOME(held)) -> safe = (x > safe -> x : safe); broadcast(REPLICATED, x)
				:: else -> skip
				fi
			:: else -> skip
			fi;
			ended[n] = true;
			copy_next()
		:: else -> skip
		fi;
		e = 0;
		x = 0;
		whole = false }
	/* net.h: the end of a session, seen by one side first; and a new one, when both have seen it. */
	:: atomic { cses[n] && nses[n] && cuts < CUTS && ROOM -> cuts++; lose(n) }
	:: atomic { cses[n] && nses[n] && cuts < CUTS -> cuts++; nses[n] = false; drain(to_node[n]) }
	:: atomic { cses[n] && !nses[n] && ROOM -> lose(n) }
	:: atomic { up[n] && !nses[n] && !cses[n] ->
		nses[n] = true;
		cses[n] = true;
		drain(to_node[n]);
		drain(to_coord[n]);
		to_coord[n]!NODE_JOIN, nepoch[n], replicated[n] }
	od
}

/* ---- a node */

#define KEPT(n) (ONE(NEWEST(own[n] & nshown[n])) | (ordered_in[n] == nepoch[n] || (said[n] && !LET_GO) -> ONE(ordered[n]) : 0) | \
	(FREED_EARLY -> 0 : ONE(replicated[n])) | ONE(lent[n]) | ~nshown[n])

inline reclaim(n) {
	own[n] = own[n] & KEPT(n);
	nshown[n] = nshown[n] & own[n]
}

inline close(n) { /* as a holder: what arrives from the node before it */
	k = SLOT((n + N - 1) % N, 0);
	i = 0;
	do
	:: i < 2 ->
		if
		:: rstate[k + i] == OPEN -> rstate[k + i] = FREE; rid[k + i] = 0; rkey[k + i] = 0; intact[k + i] = false
		:: else -> skip
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	k = 0
}

#define CAN_TAKE(n, s) (rstate[SLOT(n, s)] == FREE || (rid[SLOT(n, s)] < ordered[n] && \
	(OVERWRITTEN || rid[SLOT(n, s)] != replicated[n])))
#define BETTER(n) (rstate[SLOT(n, 0)] == FREE || (rstate[SLOT(n, 1)] != FREE && rid[SLOT(n, 0)] < rid[SLOT(n, 1)]))
#define REACHES(n) (up[NEXT(n)] && nepoch[NEXT(n)] == nepoch[n])
#define MINE(n, s) (rstate[SLOT(n, s)] == OPEN && rkey[SLOT(n, s)] == skey[n])
#define OPENED(n) (MINE(n, 0) || MINE(n, 1))
#define AT(n) (MINE(n, 0) -> SLOT(n, 0) : SLOT(n, 1))

#define NEXT_ID(n) ((begun[n] < last && epoch_of[begun[n] + 1] == works[n]) -> begun[n] + 1 : (last < IDS -> last + 1 : 0))

proctype Node(byte n) {
	byte e, x;
end:	do
	:: atomic { nses[n] && to_node[n]?[RAISE, _, _] && nfull(to_coord[n]) ->
		to_node[n]?RAISE, e, x;
		if
		:: e > nepoch[n] ->
			left[works[n]] = true;
			nepoch[n] = e;
			heard[n] = e;
			works[n] = 0;
			sending[n] = IDLE;
			lent[n] = 0;
			own[n] = own[n] & (nshown[n] | x);
			nshown[n] = own[n];
			if
			:: STAYS_OPEN -> skip
			:: else -> close(n)
			fi;
			reclaim(n)
		:: else -> skip
		fi;
		if
		:: !works[n] -> to_coord[n]!NODE_READY, nepoch[n], 0
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	/* What it cannot have any more, because its holder was lost meanwhile, it waits for; the loss raises the epoch. */
	:: atomic { nses[n] && to_node[n]?[JOINED, _, _] && nfull(to_coord[n]) ->
		to_node[n]?JOINED, e, x;
		if
		:: e == nepoch[n] && (x == 0 || COVERED(n, x)) ->
			own[n] = own[n] | ONE(x);
			nshown[n] = nshown[n] | ONE(x);
			lent[n] = x;
			to_coord[n]!FETCHED, e, x
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	:: atomic { nses[n] && to_node[n]?[RESTORED, _, _] ->
		to_node[n]?RESTORED, e, x;
		if
		:: e == nepoch[n] -> works[n] = e; begun[n] = last
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	:: atomic { nses[n] && to_node[n]?[CAPTURED, _, _] ->
		to_node[n]?CAPTURED, e, x;
		nshown[n] = nshown[n] | (own[n] & BIT(x));
		reclaim(n);
		e = 0;
		x = 0 }
	:: atomic { nses[n] && to_node[n]?[COPY, _, _] ->
		to_node[n]?COPY, e, x;
		if
		:: e == nepoch[n] ->
			ordered[n] = x;
			ordered_in[n] = e;
			said[n] = false;
			lent[n] = 0;
			sending[n] = (HAS(own[n] & nshown[n], x) -> SENDS : SAYS_UNCOPIED);
			reclaim(n)
		:: else -> skip
		fi;
		e = 0;
		x = 0 }
	:: atomic { nses[n] && to_node[n]?[KEEP, _, _] ->
		to_node[n]?KEEP, e, x;
		if
		:: x > replicated[n] -> replicated[n] = x
		:: else -> skip
		fi;
		reclaim(n);
		e = 0;
		x = 0 }
	:: atomic { nses[n] && to_node[n]?[REPLICATED, _, _] ->
		to_node[n]?REPLICATED, e, x;
		if
		:: x > replicated[n] -> replicated[n] = x
		:: else -> skip
		fi;
		if
		:: x > reported -> reported = x; losses = 0
		:: else -> skip
		fi;
		reclaim(n);
		e = 0;
		x = 0 }
	:: atomic { nses[n] && !cses[n] -> nses[n] = false; drain(to_node[n]) }
	/* A copy: opened, written in two parts, sealed. */
	:: atomic { sending[n] == SENDS ->
		if
		:: COPY_OF(n, ordered[n]) -> sending[n] = SAYS_HELD
		:: !COPY_OF(n, ordered[n]) && REACHES(n) && (CAN_TAKE(n, 0) || CAN_TAKE(n, 1)) ->
			x = ((CAN_TAKE(n, 0) && (!CAN_TAKE(n, 1) || BETTER(n))) -> SLOT(n, 0) : SLOT(n, 1));
			rstate[x] = OPEN;
			rid[x] = ordered[n];
			skey[n] = nepoch[n];
			rkey[x] = skey[n];
			intact[x] = false;
			sending[n] = HALF;
			x = 0
		:: !COPY_OF(n, ordered[n]) && !(REACHES(n) && (CAN_TAKE(n, 0) || CAN_TAKE(n, 1))) -> sending[n] = SAYS_UNCOPIED
		:: misses < MISSES -> misses++; sending[n] = SAYS_UNCOPIED
		fi }
	:: atomic { sending[n] == HALF ->
		if
		:: OPENED(n) ->
			assert(nepoch[NEXT(n)] == skey[n]); /* fenced */
			sending[n] = ALL
		:: else -> sending[n] = SAYS_UNCOPIED
		fi }
	:: atomic { sending[n] == ALL ->
		if
		:: OPENED(n) && !NOT_CHECKED ->
			assert(nepoch[NEXT(n)] == skey[n]); /* fenced */
			x = AT(n);
			intact[x] = true;
			rstate[x] = WHOLE;
			sending[n] = SAYS_HELD
		:: OPENED(n) && NOT_CHECKED -> x = AT(n); rstate[x] = WHOLE; sending[n] = SAYS_HELD
		:: !OPENED(n) -> sending[n] = SAYS_UNCOPIED
		fi;
		x = 0 }
	:: atomic { (sending[n] == SAYS_HELD || sending[n] == SAYS_UNCOPIED) && (!nses[n] || nfull(to_coord[n])) ->
		if
		:: nses[n] && sending[n] == SAYS_HELD -> to_coord[n]!HELD, nepoch[n], ordered[n]
		:: nses[n] && sending[n] == SAYS_UNCOPIED -> to_coord[n]!UNCOPIED, nepoch[n], ordered[n]
		:: else -> skip
		fi;
		said[n] = said[n] || sending[n] == SAYS_HELD;
		sending[n] = IDLE }
	/* Its rank. */
	:: atomic { works[n] && NEXT_ID(n) && (!nses[n] || nfull(to_coord[n])) ->
		x = NEXT_ID(n);
		begun[n] = x;
		if
		:: x > last -> last = x; epoch_of[x] = works[n]
		:: else -> skip
		fi;
		own[n] = own[n] | BIT(x);
		if
		:: left[works[n]] -> skip
		:: else -> good[n] = good[n] | BIT(x)
		fi;
		if
		:: nses[n] -> to_coord[n]!COPIED, works[n], x
		:: else -> skip
		fi;
		x = 0 }
	:: atomic { up[n] && crashes < CRASHES ->
		crashes++;
		losses++;
		up[n] = false;
		nses[n] = false;
		drain(to_node[n]);
		own[n] = 0;
		nshown[n] = 0;
		nepoch[n] = 0;
		works[n] = 0;
		replicated[n] = 0;
		ordered[n] = 0;
		ordered_in[n] = 0;
		said[n] = false;
		lent[n] = 0;
		sending[n] = IDLE;
		skey[n] = 0;
		x = SLOT((n + N - 1) % N, 0);
		do
		:: x < SLOT((n + N - 1) % N, 0) + 2 -> rstate[x] = FREE; rid[x] = 0; rkey[x] = 0; intact[x] = false; x++
		:: else -> break
		od;
		x = 0 }
	:: atomic { !up[n] -> up[n] = true }
	od
}

proctype Judge() {
	timeout -> /* nothing can move: all are at work in the same epoch */
	assert(!persisting && entered == epoch); /* ends */
	k = 0;
	do
	:: k < N -> assert(up[k] && cses[k] && nses[k] && works[k] == epoch); k++ /* ends */
	:: else -> break
	od
}

init {
	byte n;
	atomic {
		epoch_of[1] = 1;
		giver[1] = 1;
		was_entered[1] = true;
		run Coordinator();
		n = 0;
		do
		:: n < N ->
			rstate[SLOT(n, 0)] = WHOLE;
			rid[SLOT(n, 0)] = 1;
			intact[SLOT(n, 0)] = true;
			run Peer(n);
			run Node(n);
			n++
		:: else -> break
		od;
		run Judge();
		n = 0
	}
}
