#!/usr/bin/env python3
"""Tries to make the service forget work that it has acknowledged: two runs of one job, of which the second is another program, in another world,
under other settings, over another store or what another release has left there; then often the first program again. Retention is at its tightest.
Each pair is drawn from a seed, has a daemon of its own, and is held against what was acknowledged (oracle.py).

    tests/loss/test_pairs.py              CKPT_SEED, or 1, and those after it; CKPT_PAIRS of them
    tests/loss/test_pairs.py SEED…        these, telling what happens
timeout: 900"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CKPT_BUILD", str(ROOT / "build" / "release" / "bin"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import generator  # noqa: E402
from play import Play  # noqa: E402
from runner import Runner  # noqa: E402
from tap import NIGHTLY  # noqa: E402

EACH = 6  # of each kind; nightly has more, since another of a kind is rarely another case
PAIRS = int(os.environ.get("CKPT_PAIRS", 6000 if NIGHTLY else EACH * len(generator.NAMES)))

if __name__ == "__main__":
    sys.exit(Runner(__file__, generator.make, Play, generator.NAMES, beside=5).main(PAIRS))
