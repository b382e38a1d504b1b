#!/usr/bin/env python3
"""Tries to make the service forget work that it has acknowledged: two runs of one job, of which the second is another program, in another world,
under other settings, over another store or what another release has left there; then often the first program again. Retention is at its tightest.
Each pair is drawn from a seed, has a daemon of its own, and is held against what was acknowledged (oracle.py).

    tests/loss/test_pairs.py              CKPT_SEED, or 1, and those after it; CKPT_PAIRS of them
    tests/loss/test_pairs.py SEED…        these, telling what happens
timeout: 900"""

import concurrent.futures
import contextlib
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CKPT_BUILD", str(ROOT / "build" / "release" / "bin"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import generator  # noqa: E402
from play import Play  # noqa: E402
from tap import BIN, NIGHTLY, Failure  # noqa: E402

PAIRS = int(os.environ.get("CKPT_PAIRS", 6000 if NIGHTLY else 560))
BESIDE = 5


def describe(pair):
    return f"seed {pair.seed}, {pair.kind}"


def again(seed):
    """The command that plays it once more."""
    command = ["python3", pathlib.Path(__file__).resolve().relative_to(ROOT), str(seed)]
    if BIN != ROOT / "build" / "release" / "bin":
        command.insert(0, f"CKPT_BUILD={BIN}")
    return f"again: {shlex.join(map(str, command))}"


def play(seed, tell=lambda text: None):
    """None, or how it failed."""
    pair = generator.make(seed)
    top = pathlib.Path(tempfile.mkdtemp(prefix="pair-"))
    done = Play(pair, top, tell)
    try:
        done.play()
        return pair, None
    except Exception as error:  # what else goes wrong is told as well
        what = str(error) if isinstance(error, Failure) else traceback.format_exc()
        return pair, f"{describe(pair)}: {what}\n{again(seed)}"
    finally:
        with contextlib.suppress(Exception):
            tell(done.service.text())
        done.service.close()
        shutil.rmtree(top, ignore_errors=True)


def report(results):
    """A case for each kind that was met."""
    failed = 0
    met = [kind for kind in generator.NAMES if any(pair.kind == kind for pair, _ in results)]
    for number, kind in enumerate(met, 1):
        of = [(pair, why) for pair, why in results if pair.kind == kind]
        bad = [why for _, why in of if why]
        for why in bad:
            print("".join(f"# {line}\n" for line in why.splitlines()), end="")
        failed += bool(bad)
        print(f"{'not ok' if bad else 'ok'} {number} - {kind}: {len(of)} pairs{f', {len(bad)} failed' if bad else ''}")
    print(f"1..{len(met)}")
    return 1 if failed or not met else 0


def main():
    if sys.argv[1:]:
        failures = [why for seed in map(int, sys.argv[1:]) for _, why in [play(seed, print)] if why]
        print("\n".join(failures) or "nothing was lost")
        return 1 if failures else 0
    first = int(os.environ.get("CKPT_SEED", 1))
    print(f"# seeds {first} to {first + PAIRS - 1}, programs of {BIN}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(BESIDE) as pool:
        return report(list(pool.map(play, range(first, first + PAIRS))))


if __name__ == "__main__":
    sys.exit(main())
