"""Ten mixed faults in one run, drawn by the seed: it ends with the bits of an undisturbed one. The program is bench/faults.py."""

import os
import pathlib
import sys
import tempfile
from types import SimpleNamespace

from tap import BIN, Cases, equal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
import faults  # noqa: E402

NIGHTLY = os.environ.get("CKPT_NIGHTLY") == "1"
cases = Cases()


@cases.case("every seed draws another mixture, and the same again")
def _():
    drawn = [faults.draw(seed, 10, 120) for seed in range(1, 51)]
    equal(len(set(drawn)), 50)
    equal(drawn[6], faults.draw(7, 10, 120))
    kinds = {part.partition(":")[0].partition("@")[0] for each in drawn for part in each.split(",")}
    equal(kinds, set(faults.KINDS))


@cases.case("runs with ten mixed faults end with the bits of an undisturbed one")
def _():
    with tempfile.TemporaryDirectory() as folder:
        rows = faults.measure(SimpleNamespace(seeds=50 if NIGHTLY else 2, first=int(os.environ.get("CKPT_SEED", "1")), faults=10, steps=120, dir=folder,
                                              programs=BIN))
    equal([(seed, fired) for seed, alike, fired, *_ in rows if not alike or fired < 8], [])


sys.exit(cases.end())
