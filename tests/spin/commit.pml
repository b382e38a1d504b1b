/* A commit across nodes: one snapshot becomes one checkpoint on a store that all nodes share.
 *
 * What stands for what
 *   Coordinator(life)   ckptd/coordinator/coordinator.c, on the first node, and Peer(life, node) its view of each node. A life is one process; the next begins when the lock of the store is free. What the
 *                       last life had asked the disk for may still happen (a server that answers late): `late`.
 *     LOAD              reading the store at start         MAKE          mkdir of the checkpoint's directory, by the coordinator alone
 *     COLLECT           REACHED{prepared} of the nodes     LOOK          the node manifests are in the directory that was made
 *     LINK, SYNC        DIRECTORY_NAME, DIRECTORY_SYNC_NAME: the directory gets the name of the checkpoint. Here it has a name from the start, and gets
 *                       its manifest, which comes to the same: a reader looks at neither before
 *     ASIDE … DROP      DIRECTORY_LEFT … DIRECTORY_REMOVE, and what an earlier life has left is moved aside. That each coordinator has names of its own for
 *                       what is under work is not here: term.pml shows what it is for. So here one that is made is made once
 *     TELL              LEVEL{durable} or its failure
 *   Node(n)             ckptd/save/saves.c and commit.c of one node: WRITE → files (COMMIT_DATA, COMMIT_SIDECARS) → node manifest (COMMIT_NODE) →
 *                       fsync (COMMIT_SYNC_DIR) → REACHED{prepared}. A daemon that is stopped is one that takes no step for long: every
 *                       interleaving is tried, so that SIGSTOP needs no transition of its own, only sessions that end without its doing.
 *   Net                 net.h: a session begins and ends; each side learns of the end by itself, what is in flight is lost.
 *   Judge               what must hold when nothing can move any more.
 *
 * Disk: what is not fsynced may be lost or torn when its writer's machine dies. */

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef N
#define N 2		/* nodes */
#endif
#ifndef LIVES
#define LIVES 2		/* of the coordinator */
#endif
#ifndef CRASHES
#define CRASHES 1	/* of nodes */
#endif
#ifndef FAILS
#define FAILS 0		/* of a node's disk */
#endif
#ifndef CUTS
#define CUTS 1		/* sessions that end while both sides live */
#endif

/* The mutants; 0 is the protocol as it is meant. */
#define PREPARED_BEFORE_FSYNC	(MUTANT == 1)
#define ONE_MISSING		(MUTANT == 2)	/* commits when all but one are prepared */
#define TOLD_BEFORE_SYNC	(MUTANT == 3)	/* durable is told before the link is fsynced */
#define REWRITES		(MUTANT == 4)	/* a node that comes back writes its files again, prepared or not */
#define NODE_MOVES_ASIDE	(MUTANT == 5)	/* a prepared node whose deadline has passed cleans up */
#define IMPURE			(MUTANT == 6)	/* the manifest tells who wrote it */
#define RENAMES			(MUTANT == 7)	/* the manifest is renamed into place over what is there */
#define NODES_MAKE		(MUTANT == 8)	/* a node that finds no directory makes it; nobody looks into it */
#define BLIND_LOAD		(MUTANT == 9)	/* a restarted coordinator moves aside what is there, manifest or not */
#define NO_LOCK			(MUTANT == 10)	/* a second coordinator begins while the first lives */
#define FORGETS_LOSS		(MUTANT == 11)	/* the end of a session means nothing, and nothing has a deadline */
#define SAYS_ONCE		(MUTANT == 12)	/* a node does not say again to a new coordinator what it had said; no deadline */

#define NONE 7
#define DIRS 2

mtype = { WRITE, PREPARED, DURABLE, FAILED };
mtype = { OFF, LOAD, MAKE, COLLECT, LOOK, LINK, SYNC, ASIDE, ASIDE_SYNC, DROP, TELL };
mtype = { IDLE, OPENED, WRITING, DOCUMENT, READY, BROKEN, ENDED };

#define AT(l, n) ((l) * N + (n))
#define ABSENT 0
#define TORN 1
#define WHOLE 2
#define SYNCED 3

/* ---- the store */
typedef directory {
	byte file[N];		/* ABSENT … SYNCED */
	byte version[N];	/* of the bytes */
	byte node[N];		/* the node manifest: ABSENT, WHOLE, SYNCED */
	byte manifest;		/* ABSENT, WHOLE, SYNCED */
	byte vouched[N];	/* the versions that it vouches for */
	byte writer;		/* what it says about who wrote it; 0: nothing */
}
directory dir[DIRS];
byte live = NONE;		/* the directory that has the checkpoint's name */
byte made;			/* directories made so far */
byte renamed = NONE;		/* moved aside, and not fsynced yet */

/* ---- sessions: what each side believes */
chan to_node[LIVES * N] = [2] of { mtype };
chan to_coord[LIVES * N] = [2] of { mtype, byte };
byte nses[N] = NONE;		/* the life that the node has a session with */
bool cses[LIVES * N];

/* ---- the coordinator */
mtype cst[LIVES] = OFF;
bool alive[LIVES];
byte prepared[LIVES * N];	/* the version reported */
bool asked[LIVES * N], answered[LIVES * N];
byte handle[LIVES] = NONE;
mtype outcome[LIVES] = IDLE;
bool late;			/* a link that a dead coordinator had asked for */
byte late_life;

/* ---- nodes */
mtype nst[N] = IDLE;
bool up[N] = true;
bool gone[N];		/* for ever */
bool said[N];
byte opened[N] = NONE;
byte version[N];
mtype told[N] = IDLE;

/* ---- what was promised */
bool durable_told;
byte creations;			/* of MANIFEST.json under the checkpoint's name */
byte crashes, cuts, fails;
hidden byte k;

inline empty_out(c) {
	do
	:: nempty(c) -> c?_
	:: empty(c) -> break
	od
}

inline empty_in(c) {
	do
	:: nempty(c) -> c?_,_
	:: empty(c) -> break
	od
}

/* no_file_missing, durable_stays: after every step that touches the store. */
inline check() {
	d_step {
		if
		:: live != NONE && dir[live].manifest != ABSENT ->
			k = 0;
			do
			:: k < N ->
				assert(dir[live].file[k] == SYNCED && dir[live].node[k] == SYNCED &&
				       dir[live].version[k] == dir[live].vouched[k]); /* no_file_missing */
				k++
			:: else -> break
			od;
			k = 0
		:: else -> skip
		fi;
		assert(!durable_told || (live != NONE && dir[live].manifest != ABSENT)) /* durable_stays */
	}
}

/* link(2) or, in one mutant, rename(2), within the directory that was opened: wherever that is by now. */
inline link_manifest(l) {
	if
	:: dir[handle[l]].manifest == ABSENT || RENAMES ->
		k = 0;
		do
		:: k < N ->
			dir[handle[l]].vouched[k] = prepared[AT(l, k)];
			k++
		:: else -> break
		od;
		k = 0;
		if
		:: handle[l] == live -> creations++
		:: else -> skip
		fi;
		assert(creations < 2); /* one_manifest */
		dir[handle[l]].manifest = WHOLE;
		dir[handle[l]].writer = (IMPURE -> l + 1 : 0)
	:: else -> /* EEXIST: it must be what this one would have written */
		k = 0;
		do
		:: k < N ->
			assert(dir[handle[l]].vouched[k] == prepared[AT(l, k)]); /* same_manifest */
			k++
		:: else -> break
		od;
		k = 0;
		assert(dir[handle[l]].writer == (IMPURE -> l + 1 : 0)) /* same_manifest */
	fi
}

#define PREP(l, n) (prepared[AT(l, n)] != 0)
#if N == 2
#define ALL_PREPARED(l) (PREP(l, 0) && PREP(l, 1))
#define SOME_PREPARED(l) (PREP(l, 0) || PREP(l, 1))
#define HERE(h, n) (dir[h].node[n] == SYNCED)
#define ALL_HERE(h) (HERE(h, 0) && HERE(h, 1))
#else
#define ALL_PREPARED(l) (PREP(l, 0) && PREP(l, 1) && PREP(l, 2))
#define SOME_PREPARED(l) ((PREP(l, 0) && PREP(l, 1)) || (PREP(l, 1) && PREP(l, 2)) || (PREP(l, 0) && PREP(l, 2)))
#define HERE(h, n) (dir[h].node[n] == SYNCED)
#define ALL_HERE(h) (HERE(h, 0) && HERE(h, 1) && HERE(h, 2))
#endif
#define ENOUGH(l) (ALL_PREPARED(l) || (ONE_MISSING && SOME_PREPARED(l)))

#define DEADLINES (!FORGETS_LOSS && !SAYS_ONCE)	/* of the commit */

inline move_aside(h) {
	if
	:: live == h && live != NONE -> live = NONE; renamed = h
	:: else -> skip
	fi;
	check()
}

inline remove(h) {
	dir[h].manifest = ABSENT;
	k = 0;
	do
	:: k < N -> dir[h].file[k] = ABSENT; dir[h].node[k] = ABSENT; dir[h].version[k] = 0; dir[h].vouched[k] = 0; k++
	:: else -> break
	od;
	k = 0;
	check()
}

/* A dead process knows nothing. */
inline forget_life(l) {
	k = 0;
	do
	:: k < N ->
		if
		:: !late || late_life != l -> prepared[AT(l, k)] = 0
		:: else -> skip
		fi;
		empty_in(to_coord[AT(l, k)]);
		asked[AT(l, k)] = false;
		answered[AT(l, k)] = false;
		cses[AT(l, k)] = false;
		k++
	:: else -> break
	od;
	k = 0;
	if
	:: !late || late_life != l -> handle[l] = NONE
	:: else -> skip
	fi;
	outcome[l] = IDLE;
	cst[l] = LOAD
}

/* A link or a rename that was not fsynced is undone. */
inline forget_unsynced() {
	if
	:: live != NONE && dir[live].manifest == WHOLE -> dir[live].manifest = ABSENT; creations--
	:: renamed != NONE && live == NONE -> live = renamed; renamed = NONE
	:: else -> skip
	fi
}

proctype Coordinator(byte l) {
end:	do
	:: atomic { cst[l] == OFF && (l == 0 || NO_LOCK || (cst[l - 1] != OFF && !alive[l - 1])) ->
		alive[l] = true;
		cst[l] = LOAD }
	:: atomic { alive[l] && cst[l] == LOAD ->
		if
		:: BLIND_LOAD && live != NONE -> handle[l] = live; cst[l] = ASIDE
		:: !BLIND_LOAD && live != NONE && dir[live].manifest != ABSENT -> handle[l] = live; cst[l] = SYNC
		:: !BLIND_LOAD && live != NONE && dir[live].manifest == ABSENT -> handle[l] = live; cst[l] = COLLECT
		:: live == NONE && made == 0 -> cst[l] = MAKE
		:: live == NONE && made != 0 -> outcome[l] = FAILED; cst[l] = TELL /* a name is used once */
		fi }
	:: atomic { alive[l] && cst[l] == MAKE ->
		if
		:: live == NONE -> live = made; made++
		:: else -> skip
		fi;
		handle[l] = live;
		cst[l] = COLLECT }
	:: atomic { alive[l] && cst[l] == COLLECT && ENOUGH(l) -> cst[l] = LOOK }
	:: atomic { alive[l] && cst[l] == COLLECT && !ALL_PREPARED(l) && DEADLINES -> cst[l] = ASIDE }
	:: atomic { alive[l] && cst[l] == LOOK ->
		if
		:: ALL_HERE(handle[l]) || ONE_MISSING || NODES_MAKE || PREPARED_BEFORE_FSYNC -> cst[l] = LINK
		:: else -> cst[l] = ASIDE
		fi }
	:: atomic { alive[l] && cst[l] == LINK ->
		link_manifest(l);
		check();
		if
		:: TOLD_BEFORE_SYNC -> outcome[l] = DURABLE; durable_told = true; cst[l] = TELL
		:: else -> cst[l] = SYNC
		fi }
	:: atomic { alive[l] && cst[l] == SYNC ->
		if
		:: dir[handle[l]].manifest == WHOLE -> dir[handle[l]].manifest = SYNCED
		:: else -> skip
		fi;
		outcome[l] = DURABLE;
		durable_told = true; /* the ranks of its own node know at once */
		check();
		cst[l] = TELL }
	:: atomic { alive[l] && cst[l] == ASIDE ->
		move_aside(handle[l]);
		cst[l] = ASIDE_SYNC }
	:: atomic { alive[l] && cst[l] == ASIDE_SYNC -> renamed = NONE; cst[l] = DROP }
	:: atomic { alive[l] && cst[l] == DROP ->
		remove(handle[l]);
		outcome[l] = FAILED;
		cst[l] = TELL }
	:: atomic { alive[l] && l + 1 < LIVES && cst[l] != LOAD -> /* it dies */
		alive[l] = false;
		if
		:: cst[l] == LINK && !late && !NO_LOCK -> late = true; late_life = l
		:: else -> skip
		fi;
		if
		:: skip
		:: forget_unsynced() /* and its machine with it */
		fi;
		check();
		forget_life(l) }
	/* What it had asked the disk for happens late, or never. */
	:: atomic { late && late_life == l -> link_manifest(l); check(); late = false; forget_life(l) }
	:: atomic { late && late_life == l -> late = false; forget_life(l) }
	od
}

/* One node, as a life of the coordinator sees it. */
proctype Peer(byte l; byte n) {
	byte v;
end:	do
	:: atomic { alive[l] && cst[l] == COLLECT && cses[AT(l, n)] && !asked[AT(l, n)] && nfull(to_node[AT(l, n)]) ->
		to_node[AT(l, n)]!WRITE;
		asked[AT(l, n)] = true }
	:: atomic { alive[l] && cses[AT(l, n)] && to_coord[AT(l, n)]?[PREPARED, _] ->
		to_coord[AT(l, n)]?PREPARED, v;
		if
		:: cst[l] == COLLECT -> prepared[AT(l, n)] = v
		:: else -> skip
		fi;
		v = 0 }
	:: atomic { alive[l] && cses[AT(l, n)] && to_coord[AT(l, n)]?[FAILED, _] ->
		to_coord[AT(l, n)]?FAILED, v;
		if
		:: cst[l] == COLLECT -> cst[l] = ASIDE
		:: else -> skip
		fi;
		v = 0 }
	/* The session is gone: a node that had not prepared is lost, a prepared one has kept its word already. */
	:: atomic { alive[l] && cses[AT(l, n)] && nses[n] != l ->
		cses[AT(l, n)] = false;
		empty_in(to_coord[AT(l, n)]);
		asked[AT(l, n)] = false;
		answered[AT(l, n)] = false;
		if
		:: cst[l] == COLLECT && !PREP(l, n) && !FORGETS_LOSS -> cst[l] = ASIDE
		:: else -> skip
		fi }
	:: atomic { alive[l] && cst[l] == TELL && cses[AT(l, n)] && !answered[AT(l, n)] && nfull(to_node[AT(l, n)]) ->
		to_node[AT(l, n)]!outcome[l];
		answered[AT(l, n)] = true }
	/* Net: a session begins; its end reaches the node first. */
	:: atomic { alive[l] && cst[l] != LOAD && cst[l] != MAKE && up[n] && nses[n] == NONE && !cses[AT(l, n)] && (l + 1 == LIVES || !alive[l + 1]) ->
		empty_out(to_node[AT(l, n)]);
		nses[n] = l;
		cses[AT(l, n)] = true }
	:: atomic { nses[n] == l && cses[AT(l, n)] && cuts < CUTS && nst[n] != ENDED ->
		cuts++;
		empty_out(to_node[AT(l, n)]);
		nses[n] = NONE;
		said[n] = (SAYS_ONCE -> said[n] : false) }
	od
}

#define SES(n) (nses[n] != NONE)
#define CH(n) (nses[n] * N + (n))

proctype Node(byte n) {
end:	do
	:: atomic { up[n] && SES(n) && to_node[CH(n)]?[WRITE] ->
		to_node[CH(n)]?WRITE;
		if
		:: nst[n] == IDLE && live == NONE && NODES_MAKE && made < DIRS -> live = made; made++; opened[n] = live; nst[n] = OPENED
		:: nst[n] == IDLE && live == NONE && !(NODES_MAKE && made < DIRS) -> nst[n] = BROKEN
		:: nst[n] == IDLE && live != NONE -> opened[n] = live; nst[n] = OPENED
		:: nst[n] != IDLE -> skip
		fi }
	:: atomic { up[n] && nst[n] == OPENED ->
		dir[opened[n]].file[n] = TORN;
		version[n]++;
		check();
		nst[n] = WRITING }
	:: atomic { up[n] && nst[n] == WRITING ->
		dir[opened[n]].file[n] = WHOLE;
		dir[opened[n]].version[n] = version[n];
		dir[opened[n]].node[n] = WHOLE;
		check();
		nst[n] = (PREPARED_BEFORE_FSYNC -> READY : DOCUMENT) }
	:: atomic { up[n] && nst[n] == DOCUMENT -> /* all of it */
		dir[opened[n]].file[n] = SYNCED;
		dir[opened[n]].node[n] = SYNCED;
		check();
		nst[n] = READY }
	/* The disk fails it; after PREPARED nothing can. */
	:: atomic { up[n] && (nst[n] == OPENED || nst[n] == WRITING || nst[n] == DOCUMENT) && fails < FAILS ->
		fails++;
		nst[n] = BROKEN }
	:: atomic { up[n] && SES(n) && nst[n] == READY && !said[n] && nfull(to_coord[CH(n)]) ->
		to_coord[CH(n)]!PREPARED(version[n]);
		said[n] = true }
	:: atomic { up[n] && SES(n) && nst[n] == BROKEN && !said[n] && nfull(to_coord[CH(n)]) ->
		to_coord[CH(n)]!FAILED(0);
		said[n] = true }
	:: atomic { up[n] && NODE_MOVES_ASIDE && nst[n] == READY && said[n] && opened[n] == live -> /* it was stopped, and wakes up */
		move_aside(opened[n]);
		nst[n] = ENDED }
	:: atomic { up[n] && SES(n) && (to_node[CH(n)]?[DURABLE] || to_node[CH(n)]?[FAILED]) ->
		if
		:: to_node[CH(n)]?DURABLE -> assert(told[n] != FAILED); told[n] = DURABLE /* one_outcome */
		:: to_node[CH(n)]?FAILED -> assert(told[n] != DURABLE); told[n] = FAILED /* one_outcome */
		fi;
		nst[n] = ENDED;
		opened[n] = NONE;
		version[n] = 0 }
	/* The other side is gone. */
	:: atomic { up[n] && SES(n) && (!alive[nses[n]] || !cses[CH(n)]) ->
		empty_out(to_node[CH(n)]);
		nses[n] = NONE;
		said[n] = (SAYS_ONCE -> said[n] : false) }
	:: atomic { up[n] && crashes < CRASHES && nst[n] != ENDED ->
		crashes++;
		up[n] = false;
		if
		:: SES(n) -> empty_out(to_node[CH(n)]); nses[n] = NONE
		:: else -> skip
		fi;
		said[n] = false;
		if /* its machine with it: what it had not fsynced is torn */
		:: opened[n] != NONE && dir[opened[n]].file[n] == WHOLE -> dir[opened[n]].file[n] = TORN; dir[opened[n]].node[n] = ABSENT
		:: skip
		fi;
		check();
		nst[n] = IDLE;
		if
		:: gone[n] = true
		:: skip
		fi }
	:: atomic { !up[n] && !gone[n] -> /* and comes back: what its arenas hold may be written */
		up[n] = true;
		if
		:: live != NONE && dir[live].node[n] != ABSENT && !REWRITES -> opened[n] = live; version[n] = dir[live].version[n]; nst[n] = DOCUMENT
		:: live != NONE && opened[n] == live && REWRITES -> nst[n] = OPENED
		:: else -> opened[n] = NONE
		fi }
	od
}

#define LAST (LIVES - 1)
#define LIVING (alive[LAST] -> LAST : 0)

proctype Judge() {
	timeout -> /* nothing can move: the coordinator has ended it, and all nodes know how */
	assert(cst[LIVING] == TELL); /* ends */
	k = 0;
	do
	:: k < N -> assert(gone[k] || told[k] == outcome[LIVING]); k++ /* ends */
	:: else -> break
	od
}

init {
	byte l, n;
	atomic {
		l = 0;
		do
		:: l < LIVES ->
			run Coordinator(l);
			n = 0;
			do
			:: n < N -> run Peer(l, n); n++
			:: else -> break
			od;
			l++
		:: else -> break
		od;
		n = 0;
		do
		:: n < N -> run Node(n); n++
		:: else -> break
		od;
		run Judge();
		l = 0;
		n = 0
	}
}
