"""Pairs of runs of one job, drawn from a seed: what is changed between the two, how each ends, what is restored."""

import dataclasses
import random

from oracle import HEALTHY, LATEST
from programs import CUTS, DTYPES, JOB_BLOB, RANK_BLOB, SIZES, Blob, Program, Tensor

MEMORY, STORAGE = 1, 2
NEVER = None  # the program does not ask for what is there
NAMED = "named"  # the newest step that must be there by its number
ENDS = ("close", "kill all", "kill all", "kill in the midst", "kill one", "kill one and close", "daemon back", "machine", "machine", "stop")


@dataclasses.dataclass
class Run:
    program: Program
    settings: dict
    store: str = "a"  # "": none
    asks: object = LATEST
    goes_on: bool = False  # although it was refused
    gaps: tuple = ()  # steps between its saves
    targets: tuple = ()
    levels: tuple = ()
    base: int = 0  # before its first step, where nothing was restored
    healthy: bool = False  # calls one of its saves so
    end: str = "kill all"
    closes: bool = False  # says goodbye after a refusal
    tampering: str = ""  # of the store, before it


@dataclasses.dataclass
class Pair:
    seed: int
    kind: str
    rng: random.Random
    runs: list

    @property
    def first(self):
        return self.runs[0]

    @property
    def second(self):
        return self.runs[1]


# ---- programs ------------------------------------------------------------------------------------------------------

def shape(rng, cut):
    if cut in ("last", "replicated", "first") and rng.random() < 0.2:
        return ()
    dims = 1 if cut in ("flat", "blocks") and rng.random() < 0.5 else rng.randint(1, 3)
    return tuple(rng.choice((1, 2, 3, 5, 8, 13, 40)) for _ in range(dims))


def tensor(rng, number):
    cut = rng.choice(CUTS)
    return Tensor(f"layer.{number}.w", rng.choice(list(DTYPES)), shape(rng, cut), cut, rng.choice(("-", "-", "optim")))


def big(rng):
    """Enough for several leaves of 64 KiB."""
    return Tensor("embedding", "F32", (rng.randint(60, 200), 256), rng.choice(("rows", "columns", "flat", "replicated")))


def sized(rng, name):
    """A blob of changing size, now and then of several leaves."""
    most = rng.choice((1, 40, 40, 200000))
    return Blob(name, rng.choice((JOB_BLOB, RANK_BLOB)), most + rng.choice((3, 60000)), most)


def program(rng):
    entries = [tensor(rng, number) for number in range(rng.randint(1, 4))]
    entries += [big(rng)] * (rng.random() < 0.15)
    entries += [Blob("step", JOB_BLOB, rng.choice((8, 24)))] * (rng.random() < 0.6)
    entries += [Blob("rng", RANK_BLOB, rng.choice((16, 100)))] * (rng.random() < 0.5)
    entries += [sized(rng, "queue")] * (rng.random() < 0.4)
    return Program("main", rng.choice((1, 2, 2, 3, 3, 4, 4, 6, 8)), tuple(entries))


def settings(rng):
    rules = rng.choice([{"keep-last": 1}] * 6 + [{"keep-last": 2}, {"keep-within": "1ms"}, {"keep-last": 1, "keep-every": 10}])
    more = {"verify": rng.choice(("yes", "no"))}
    return {**rules, **more, **rng.choice([{}] * 5 + [{"compress": "zstd"}, {"full-every": 2}, {"full-every": 1}])}


def some_run(rng, made, rules, first=False):
    count = rng.randint(1 if first else 0, 5)
    return Run(made, rules, gaps=tuple(rng.choice((1, 1, 5, 10)) for _ in range(count)),
               targets=tuple(rng.choice((MEMORY, STORAGE)) for _ in range(count)),
               levels=tuple(rng.choice((1, 3, 3, 4)) for _ in range(count)), base=rng.choice((0, 0, 3)), healthy=rng.random() < 0.2,
               end=rng.choice(ENDS), closes=rng.random() < 0.3, goes_on=rng.random() < 0.4)


# ---- what is changed: each takes the pair, and changes its second run ----------------------------------------------------

def change_world(pair, local=False):
    old = pair.second.program
    new = pair.rng.choice([n for n in range(1, 9) if n != old.world])
    pair.second.program = old.but(world=new, says_local=local)


def change_entry(pair, tensors, make):
    """Of some of its tensors or blobs; adds one where there is none."""
    old = pair.second.program
    entries = old.tensors() if tensors else old.blobs()
    if not entries:
        entry = tensor(pair.rng, 9) if tensors else Blob("loader", pair.rng.choice((JOB_BLOB, RANK_BLOB)), 32)
        pair.first.program = pair.first.program.but(entries=(*pair.first.program.entries, entry))
        old, entries = old.but(entries=(*old.entries, entry)), [entry]
    entry = pair.rng.choice(entries)
    pair.second.program = old.with_entry(entry, *make(entry))


def of_tensor(**changes):
    """changes: how to make the new value of a field out of the pair's generator and the tensor."""
    def change(pair):
        change_entry(pair, True, lambda t: [dataclasses.replace(t, **{k: make(pair.rng, t) for k, make in changes.items()})])
    return change


def of_blob(**changes):
    def change(pair):
        change_entry(pair, False, lambda b: [dataclasses.replace(b, **{k: make(pair.rng, b) for k, make in changes.items()})])
    return change


def other_cut(rng, t):
    return rng.choice([cut for cut in CUTS if cut != t.cut and (t.shape or cut in ("first", "last", "replicated"))])


def other_dtype(rng, t, same_size):
    fitting = [d for d in DTYPES if d != t.dtype and (SIZES[d] == SIZES[t.dtype]) == same_size]
    return rng.choice(fitting or [d for d in DTYPES if d != t.dtype])


def other_shape(rng, t):
    grown = (*t.shape[:-1], t.shape[-1] + rng.choice((1, 7))) if t.shape else (2,)
    turned = t.shape[::-1]
    shapes = [grown, (*t.shape, 2), turned if turned != t.shape else grown]
    return rng.choice(shapes)


def add_tensor(pair):
    old = pair.second.program
    pair.second.program = old.but(entries=(*old.entries, tensor(pair.rng, 10 + len(old.entries))))


def add_blob(pair):
    old = pair.second.program
    new = Blob(f"sampler{len(old.entries)}", pair.rng.choice((JOB_BLOB, RANK_BLOB)), 40)
    pair.second.program = old.but(entries=(*old.entries, new))


def drop(tensors):
    def change(pair):
        if tensors:
            add = tensor(pair.rng, 8)
            pair.first.program = pair.first.program.but(entries=(*pair.first.program.entries, add))
        else:
            change_entry(pair, False, lambda b: [])
    return change


def change_order(pair):
    entries = list(pair.second.program.entries)
    pair.rng.shuffle(entries)
    pair.second.program = pair.second.program.but(entries=tuple(entries))


def all_other_cuts(pair):
    old = pair.second.program
    entries = tuple(dataclasses.replace(e, cut=other_cut(pair.rng, e)) if isinstance(e, Tensor) else e for e in old.entries)
    pair.second.program = old.but(entries=entries)


def variables(**chosen):
    def change(pair):
        pair.second.program = pair.second.program.but(variables=tuple(chosen.items()))
    return change


def job(*names):
    def change(pair):
        pair.second.program = pair.second.program.but(job=pair.rng.choice(names))
    return change


def set_rules(which, **chosen):
    """which: the numbers of the runs."""
    def change(pair):
        for number in which:
            run = pair.runs[number]
            run.settings = {**run.settings, **{name.replace("_", "-"): value for name, value in chosen.items()}}
    return change


def elsewhere(where):
    def change(pair):
        pair.second.store = where
    return change


def tamper(how):
    def change(pair):
        pair.second.tampering = how
        pair.first.end = "machine"
        pair.first.targets = (STORAGE,) * len(pair.first.targets)
        pair.first.levels = (3,) * len(pair.first.levels)
    return change


def nothing(_pair):
    pass


def never_asks(pair):
    pair.second.asks = NEVER


def never_asks_in_memory(pair):
    """A run that nothing in the store tells of, and one that goes on with it into the store."""
    never_asks(pair)
    first, second, third = pair.runs
    first.gaps, first.targets, first.levels, first.end = (1,), (STORAGE,), (3,), "kill all"
    second.gaps, second.targets, second.levels, second.end = (1,), (MEMORY,), (1,), "kill all"
    third.asks, third.gaps, third.targets, third.levels = LATEST, (1, 1, 1), (STORAGE,) * 3, (3, 3, 3)


def asks_for(what):
    def change(pair):
        pair.second.asks = what
        pair.first.healthy = True
    return change


KINDS = {
    "nothing changed": nothing,
    "another world": change_world,
    "another world, that says local_world": lambda pair: change_world(pair, local=True),
    "other cuts": all_other_cuts,
    "one tensor cut otherwise": of_tensor(cut=other_cut),
    "another world and other cuts": lambda pair: (change_world(pair), all_other_cuts(pair)),
    "another order": change_order,
    "a tensor renamed": of_tensor(name=lambda rng, t: t.name + rng.choice(("2", ".moved"))),
    "a tensor added": add_tensor,
    "a tensor dropped": drop(True),
    "another dtype of the same size": of_tensor(dtype=lambda rng, t: other_dtype(rng, t, True)),
    "another dtype of another size": of_tensor(dtype=lambda rng, t: other_dtype(rng, t, False)),
    "another shape": of_tensor(shape=other_shape, cut=lambda rng, t: rng.choice(("first", "flat", "rows")) if t.shape else "first"),
    "another group": of_tensor(group=lambda rng, t: "optim" if t.group == "-" else "frozen"),
    "a blob of another size": of_blob(size=lambda rng, b: b.size + rng.choice((-3, 8))),
    "a blob added": add_blob,
    "a blob of changing size": of_blob(most=lambda rng, b: 0 if b.most else b.size - 3),
    "a blob dropped": drop(False),
    "a blob of another scope": of_blob(scope=lambda rng, b: 3 - b.scope),
    "another job": job("other"),
    "a name that begins alike": job("main2", "mai", "main.1", "main-"),
    "a name in other letters": job("Main", "MAIN"),
    "four slots": variables(CKPT_SLOTS="4"),
    "strict": variables(CKPT_STRICT="1"),
    "vote": variables(CKPT_VOTE="1"),
    "keep-last tightened": set_rules([1, 2], keep_last=1),
    "keep-within of a moment": set_rules([1, 2], keep_last=0, keep_within="1ms"),
    "keep-every": set_rules([0, 1, 2], keep_last=0, keep_every=7),
    "compressed": set_rules([1, 2], compress="zstd"),
    "compressed no more": set_rules([0], compress="zstd"),
    "persist-every": set_rules([0, 1], persist_every=3),
    "saves refused by policy": set_rules([0, 1, 2], save_policy="refuse"),
    "not read back": set_rules([1, 2], verify="no"),
    "every file written anew": set_rules([1], full_every=1),
    "less memory": set_rules([1], memory_limit="tight"),
    "another store": elsewhere("b"),
    "no store": elsewhere(""),
    "manifests of an older release": tamper("older"),
    "the newest of a release to come": tamper("newer"),
    "files that nobody knows": tamper("strange"),
    "a program that never asks": never_asks,
    "a program that never asks, in memory alone": never_asks_in_memory,
    "the newest healthy": asks_for(HEALTHY),
    "a step by its number": asks_for(NAMED),
}
NAMES = list(KINDS)
ALSO = ("another world", "other cuts", "another order", "one tensor cut otherwise", "a tensor renamed", "a tensor added", "another group",
        "four slots", "compressed", "a blob added")


def make(seed):
    """Kinds come in turn, so that each is met as often."""
    rng = random.Random(seed)
    kind = NAMES[seed % len(NAMES)]
    made, rules = program(rng), settings(rng)
    pair = Pair(seed, kind, rng, [some_run(rng, made, rules, first=True), some_run(rng, made, dict(rules)), some_run(rng, made, dict(rules))])
    pair.runs[1].asks = rng.choice([LATEST] * 8 + [HEALTHY, NAMED])
    KINDS[kind](pair)
    if rng.random() < 0.25:
        KINDS[rng.choice(ALSO)](pair)
    third = pair.runs[2]  # mostly the first program comes back
    again = pair.second if rng.random() < 0.25 else pair.first
    third.program, third.store = again.program, again.store
    if rng.random() < 0.1:
        del pair.runs[2]
    return pair
