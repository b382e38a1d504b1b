"""Pairs of runs on several nodes: as on one node (generator.py), with places of ranks, copies, and the loss of a node."""

import random

import generator
from generator import KINDS as CHANGES, MEMORY, STORAGE, Pair

PLACES = ("ab", "ab", "aab", "abb", "aabb", "abc", "abc", "bc", "aabbcc", "abcc", "bbc")
ALONE = ("a", "b", "aa", "bb")
ENDS = ("close", "kill all", "kill in the midst", "kill one", "a node", "a node", "a node", "the first node", "the first node", "another node", "daemon back", "machine")


def move(program, where):
    return program.but(where=where, world=len(where))


def other(pair, fits=lambda where: True, places=PLACES):
    old = pair.second.program
    return move(old, pair.rng.choice([where for where in places if where != old.where and fits(where)]))


def another_world(pair):
    world = pair.second.program.world
    pair.second.program = other(pair, lambda where: len(where) != world)


def other_places(pair):
    """As many ranks."""
    where = pair.rng.choice((("ab", "bc"), ("aab", "abb"), ("abb", "aab"), ("abc", "aab"), ("aabb", "abcc"), ("bbc", "abc"), ("ab", "ba")))
    for run in pair.runs:
        run.program = move(run.program, where[run is pair.second])


def onto_one_node(pair):
    pair.second.program = other(pair, places=ALONE)


def from_one_node(pair):
    pair.first.program = move(pair.first.program, pair.rng.choice(ALONE))


def change(name):
    return CHANGES[name]


def rules(**chosen):
    return generator.set_rules([0, 1, 2], **chosen)


def no_store(pair):
    for run in pair.runs:
        run.store = ""


def stays_away(pair):
    """A node is lost for good, and the job goes on without it."""
    pair.first.end = "a node for good"
    pair.second.program = other(pair, lambda where: set(where) <= set("ab"), places=(*PLACES, *ALONE))


def both(*changes):
    def apply(pair):
        for each in changes:
            each(pair)
    return apply


KINDS = {
    "nothing changed": generator.nothing,
    "another world": another_world,
    "ranks on other nodes": other_places,
    "onto one node": onto_one_node,
    "from one node": from_one_node,
    "a node that stays away": stays_away,
    "another world and other cuts": both(another_world, change("other cuts")),
    "other cuts": change("other cuts"),
    "another order": change("another order"),
    "a tensor renamed": change("a tensor renamed"),
    "a tensor added": change("a tensor added"),
    "a tensor dropped": change("a tensor dropped"),
    "another dtype of another size": change("another dtype of another size"),
    "a blob of another size": change("a blob of another size"),
    "a blob dropped": change("a blob dropped"),
    "a tensor added, in another world": both(another_world, change("a tensor added")),
    "a tensor dropped, in another world": both(another_world, change("a tensor dropped")),
    "two copies": rules(copies=2),
    "no copies": rules(copies=0),
    "no store": no_store,
    "no store, a tensor renamed": both(no_store, change("a tensor renamed")),
    "no store, other cuts": both(no_store, change("other cuts")),
    "no store, another world": both(no_store, another_world),
    "a program that never asks": generator.never_asks,
    "the newest healthy": change("the newest healthy"),
    "a step by its number": change("a step by its number"),
}
NAMES_OF_KINDS = list(KINDS)


def some_run(rng, made, settings, first=False):
    run = generator.some_run(rng, made, settings, first)
    run.goes_on = False  # what one node had loaded when another refused leaves the state of its ranks undefined
    run.end = rng.choice(ENDS)
    run.targets = tuple(rng.choice((MEMORY, MEMORY, STORAGE)) for _ in run.gaps)
    run.levels = tuple(rng.choice((1, 2, 2, 2, 3) if target == STORAGE else (1, 2, 2)) for target in run.targets)
    return run


def make(seed):
    rng = random.Random(f"nodes {seed}")
    kind = NAMES_OF_KINDS[seed % len(KINDS)]
    made, settings = move(generator.program(rng), rng.choice(PLACES)), generator.settings(rng)
    pair = Pair(seed, kind, rng, [some_run(rng, made, dict(settings), first=n == 0) for n in range(3)])
    KINDS[kind](pair)
    third = pair.runs[2]
    again = pair.second if kind == "a node that stays away" or rng.random() < 0.25 else pair.first
    third.program, third.store = again.program, again.store
    if rng.random() < 0.3:
        del pair.runs[2]
    return pair
