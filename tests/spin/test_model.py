"""The models of a commit across nodes, of their epochs, of who coordinates them, and of plans, checked by spin: every state within the bounds below, and every mutant must be killed
by the property that is named here. docs/explanation/reliability.md has the table; with CKPT_ARTEFACTS the figures are left there.

timeout: 1800"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import tap

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 3000 if tap.NIGHTLY else 600  # seconds that one check may take

# What a checker is told when it begins, instead of being made anew for each: its mutant, and bounds that no array depends on. Each is a
# number that stands for it in the checker, until it is known.
TOLD = {name: 1999999900 + i for i, name in enumerate(
    ["MUTANT", "AWAYS", "CRASHES", "CUTS", "FAILS", "HANDS", "LAPSES", "LOSSES", "MISSES", "PLANS", "RESTARTS"])}
NAMES = {number: name for name, number in TOLD.items()}
TOLD_H = "int atoi(const char *);\nchar *getenv(const char *);\n" + "".join(f"static int told_{name};\n" for name in TOLD) + (
    "__attribute__((constructor)) static void be_told(void)\n{\n" + "".join(f'told_{name} = atoi(getenv("{name}"));\n' for name in TOLD) + "}\n")

TWO_LIVES = {"LIVES": 2, "CUTS": 1, "CRASHES": 0}
ONE_LIFE = {"LIVES": 1, "CUTS": 0, "CRASHES": 1}
LOST, CUT, RESTARTED = {"CRASHES": 1}, {"CUTS": 1}, {"RESTARTS": 1}
LAPSED, LAPSED_TWICE, RANK_LOST, FAILED = {"LAPSES": 1}, {"LAPSES": 2}, {"LOSSES": 1}, {"FAILS": 1}
HANDED_OVER, AWAY = {"HANDS": 1, "LAPSES": 0}, {"AWAYS": 1} | LAPSED

# The bounds: (model, macros). At night the larger one, too.
BOUNDS = [
    ("commit", TWO_LIVES),
    ("commit", ONE_LIFE),
    ("epoch", {"IDS": 3, "MISSES": 1} | LOST),
    ("epoch", RESTARTED),
    ("epoch", LOST | CUT),
    ("term", RESTARTED | {"LAPSES": 0}),
    ("term", LAPSED | RANK_LOST | FAILED),
    ("term", HANDED_OVER | RANK_LOST),
    ("term", AWAY),
    ("plan", LAPSED),
]
# Those that take longest: what a change of a model can break, a mutant breaks within the bounds above.
NIGHTLY_BOUNDS = [
    ("epoch", CUT | RESTARTED),
    ("epoch", LOST | RESTARTED),
    ("term", LAPSED | RESTARTED),
    ("epoch", {"IDS": 3} | LOST | CUT),
    ("epoch", {"IDS": 3} | LOST | RESTARTED),
    ("commit", {"LIVES": 2, "CUTS": 1, "CRASHES": 1, "FAILS": 1}),
    ("term", HANDED_OVER | LAPSED),
    ("term", HANDED_OVER | {"HANDS": 2}),
    ("term", LAPSED_TWICE),
    ("plan", LAPSED_TWICE | {"PLANS": 4}),
]

# (model, number, the property that must kill it, macros). Each is checked with bounds within which the model without it is sound.
MUTANTS = [
    ("commit", 1, "no_file_missing", ONE_LIFE),
    ("commit", 2, "no_file_missing", TWO_LIVES),
    ("commit", 3, "durable_stays", TWO_LIVES),
    ("commit", 4, "no_file_missing", ONE_LIFE),
    ("commit", 5, "durable_stays", TWO_LIVES),
    ("commit", 6, "same_manifest", TWO_LIVES),
    ("commit", 7, "one_manifest", TWO_LIVES),
    ("commit", 8, "no_file_missing", TWO_LIVES),
    ("commit", 9, "durable_stays", TWO_LIVES),
    ("commit", 10, "durable_stays", TWO_LIVES),
    ("commit", 11, "ends", ONE_LIFE),
    ("commit", 12, "ends", TWO_LIVES),
    ("epoch", 1, "given_once", CUT | RESTARTED),
    ("epoch", 2, "given_once", LOST | RESTARTED),
    ("epoch", 3, "sound", CUT),
    ("epoch", 4, "all_heard", LOST | CUT),
    ("epoch", 5, "sound", LOST),
    ("epoch", 6, "replicated_stays", LOST),
    ("epoch", 7, "replicated_stays", LOST),
    ("epoch", 8, "replicated_stays", {"IDS": 3, "MISSES": 1} | LOST),
    ("epoch", 9, "fenced", CUT),
    ("epoch", 10, "replicated_stays", LOST),
    ("epoch", 11, "sound", CUT),
    ("epoch", 12, "ends", LOST),
    ("epoch", 13, "replicated_stays", {"IDS": 3} | LOST | RESTARTED),
    ("epoch", 14, "replicated_stays", {"IDS": 3} | LOST | RESTARTED),
    ("term", 1, "acts_alone", LAPSED),
    ("term", 2, "acts_alone", LAPSED),
    ("term", 3, "newest", LAPSED_TWICE),
    ("term", 4, "newest", LAPSED),
    ("term", 5, "ends", LAPSED_TWICE | RANK_LOST),
    ("term", 6, "recorded_once", LAPSED | RANK_LOST),
    ("term", 7, "given_once", LAPSED | RANK_LOST),
    ("term", 8, "recorded_once", LAPSED | RANK_LOST),
    ("term", 9, "goes_on", LAPSED | RANK_LOST),
    ("term", 10, "durable_stays", LAPSED | FAILED),
    ("term", 11, "durable_stays", LAPSED),
    ("term", 12, "acts_alone", LAPSED | RESTARTED),
    ("term", 13, "acts_alone", LAPSED),
    ("term", 14, "no_file_missing", LAPSED),
    ("term", 15, "no_file_missing", LAPSED),
    ("term", 16, "no_file_missing", LAPSED),
    ("term", 17, "no_file_missing", LAPSED | FAILED),
    ("term", 18, "acts_alone", HANDED_OVER),
    ("term", 19, "acts_alone", HANDED_OVER),
    ("term", 20, "acts_alone", HANDED_OVER | LAPSED),
    ("term", 21, "ends", HANDED_OVER),
    ("term", 22, "newest", AWAY),
    ("term", 23, "ends", AWAY),
    ("term", 24, "one_of_a_term", LAPSED | RESTARTED),
    ("plan", 1, "one_of_a_number", LAPSED),
    ("plan", 2, "recorded_once", LAPSED),
    ("plan", 3, "ends", LAPSED),
    ("plan", 4, "recorded_once", LAPSED),
    ("plan", 5, "ends", LAPSED),
    ("plan", 6, "one_of_a_number", LAPSED),
]


# What no mutant breaks so far.
UNBROKEN = {("commit", "one_outcome"), ("epoch", "entered_once"), ("term", "one_outcome")}


def each_can_break():
    """A property that no mutant breaks may be one that nothing looks at."""
    for model in sorted({model for model, _ in BOUNDS}):
        text = (HERE / f"{model}.pml").read_text()
        held = set(re.findall(r"assert\(.*\).*/\* (\w+) \*/", text)) | set(re.findall(r"\);?\s*/\* (\w+) \*/", text))
        broken = {name for of, _, name, _ in MUTANTS if of == model} | {name for of, name in UNBROKEN if of == model}
        tap.equal(sorted(broken), sorted(held), f"the properties of {model} that a mutant breaks")


def missing():
    """Why nothing can be checked here; None where it can."""
    for command in ("spin", "cc"):
        if not shutil.which(command):
            return f"there is no {command}: scripts/deps installs it"
    return None


def name_of(macros):
    return " ".join(f"{key.lower()}={value}" for key, value in macros.items())


def properties(model):
    """{line: property}: an assertion, of one line or several, names what it holds in a comment at its end."""
    found, name = {}, None
    for number, line in reversed(list(enumerate((HERE / f"{model}.pml").read_text().splitlines(), 1))):
        if comment := re.search(r"/\* (\w+) \*/", line):
            name = comment.group(1)
        if name:
            found[number] = name
        if "assert(" in line:
            name = None
    return found


def mutant_text(model, number):
    found = re.search(rf"#define (\w+)\s+\(MUTANT == {number}\)\s*(?:/\* (.*?) \*/)?", (HERE / f"{model}.pml").read_text())
    tap.expect(found, f"{model}.pml has no mutant {number}")
    return found.group(1)


def defined(mutant, macros):
    return [f"-D{key}={value}" for key, value in {"MUTANT": mutant, **macros}.items()]


@functools.cache
def checker(model, made_for):
    """The folder of the program that checks the model, with what it is made for, within the bounds that its environment names: most of the
    time of a check would go into making it."""
    folder = tempfile.mkdtemp(dir=made)
    run(folder, ["spin", "-a", *(f"-D{key}={value}" for key, value in TOLD.items()), *made_for, HERE / f"{model}.pml"])
    for part in pathlib.Path(folder).glob("pan.*"):
        part.write_text(re.sub(r"\b19999999\d\d\b", lambda found: f"told_{NAMES[int(found.group())]}", part.read_text()))
    (pathlib.Path(folder) / "told.h").write_text(TOLD_H)
    run(folder, ["cc", "-O1", "-w", "-DSAFETY", "-DVECTORSZ=2048", "-include", "told.h", "-o", "pan", "pan.c"])
    return folder


def told(model, mutant, macros):
    """The environment of a checker: what the model itself says where nothing is given; 0 for what it does not know."""
    text = (HERE / f"{model}.pml").read_text()
    given = {"MUTANT": mutant} | macros
    own = {name: re.search(rf"^#define {name} (\d+)", text, re.M) for name in TOLD}
    return {name: str(given.get(name, own[name].group(1) if own[name] else 0)) for name in TOLD}


def check(model, mutant, macros):
    """(the property that failed or None, states, seconds)"""
    begin = time.monotonic()
    folder = checker(model, tuple(f"-D{key}={value}" for key, value in sorted(macros.items()) if key not in TOLD))
    out = run(folder, ["./pan", "-m1000000", "-w22"], **told(model, mutant, macros))
    tap.expect("max search depth too small" not in out, out)
    errors, states = re.search(r"errors: (\d+)", out), re.search(r"(\d+(?:\.\d+)?(?:e\+\d+)?) states, stored", out)
    tap.expect(errors and states, out)
    tap.expect(int(errors.group(1)) or "Search not completed" not in out, out)
    broken = None
    if int(errors.group(1)):
        tap.expect("assertion violated" in out, out)
        trail = run(folder, ["spin", "-p", "-k", f"{model}.pml.trail", *defined(mutant, macros), HERE / f"{model}.pml"], may_fail=True)
        line = re.search(rf"{model}\.pml:(\d+), Error: assertion violated", trail)
        tap.expect(line, trail[-tap.SHOWN:])
        broken = properties(model)[int(line.group(1))]
    return broken, int(float(states.group(1))), time.monotonic() - begin


def run(folder, command, may_fail=False, **environment):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=os.environ | environment)
    tap.expect(may_fail or done.returncode == 0, done.stdout, done.stderr)
    return done.stdout + done.stderr


def note(line):
    print(f"# {line}", flush=True)
    if folder := os.environ.get("CKPT_ARTEFACTS"):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        with open(pathlib.Path(folder) / "models.txt", "a") as out:
            out.write(line + "\n")


def sound(model, macros):
    broken, states, seconds = check(model, 0, macros)
    tap.expect(not broken, f"{model} breaks {broken}")
    note(f"| `{model}` | {name_of(macros)} | {states:,} | {seconds:.0f} s |")


def killed(model, number, due, macros):
    broken, states, _ = check(model, number, macros)
    tap.equal(broken, due, f"what mutant {number} of {model} breaks")
    note(f"| `{model}` {number} | {mutant_text(model, number)} | {broken} | {states:,} |")


def main():
    why = missing()
    if why:
        print(why)
        return 77
    cases = tap.Cases()
    cases.run("each property is one that a mutant breaks", each_can_break)
    for model, macros in BOUNDS + (NIGHTLY_BOUNDS if tap.NIGHTLY else []):
        cases.run(f"{model} holds with {name_of(macros)}", sound, model, macros)
    for model, number, due, macros in MUTANTS:
        cases.run(f"mutant {number} of {model} breaks {due}", killed, model, number, due, macros)
    return cases.end()


with tempfile.TemporaryDirectory() as made:
    raise SystemExit(main())
