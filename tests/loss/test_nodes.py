#!/usr/bin/env python3
"""Tries to make a cluster of three nodes forget work that it has acknowledged: pairs of runs as in test_pairs.py, of jobs whose ranks are on
several nodes, with copies in the memory of other nodes, and the loss of one node. What was replicated survives that.

    tests/loss/test_nodes.py              CKPT_SEED, or 1, and those after it; CKPT_PAIRS of them
    tests/loss/test_nodes.py SEED…        these, telling what happens
timeout: 900"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CKPT_BUILD", str(ROOT / "build" / "release" / "bin"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import node_generator  # noqa: E402
from node_play import NodePlay  # noqa: E402
from runner import Runner  # noqa: E402
from tap import NIGHTLY  # noqa: E402

PAIRS = int(os.environ.get("CKPT_PAIRS", 1000 if NIGHTLY else 78))

if __name__ == "__main__":
    sys.exit(Runner(__file__, node_generator.make, NodePlay, node_generator.NAMES_OF_KINDS, beside=4).main(PAIRS))
