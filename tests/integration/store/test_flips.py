"""Single flipped bits: of the documents, sidecars, headers and marks of a small checkpoint, and of its data. verify must find each, and
a restore must refuse it or, where it does not read what was flipped, give the right bytes. Nightly every bit of the metadata and
1,000,000 of the data; otherwise a sample that CKPT_SEED chooses. Of a checkpoint whose bytes another one has too, each must be mended.
timeout: 1800"""

import os
import random
import re
import subprocess
import sys
import tempfile

from tap import BIN, DEADLINE, NIGHTLY, Cases, expect

STRIDE, PAYLOAD = (1, 1000000) if NIGHTLY else (41, 1500)
MENDED = 20000 if NIGHTLY else 200
NIGHT = 3 * 3600  # seconds, of each kind: it takes about an hour of a core


def flips(seed, stride, payload, *kind):
    top = tempfile.mkdtemp()
    done = subprocess.run([BIN / "flip_bits", f"{top}/store", str(stride), str(payload), str(seed), *kind], capture_output=True, text=True,
                          timeout=NIGHT if NIGHTLY else 2 * DEADLINE)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    for line in done.stdout.splitlines():
        print(f"# {line}")
        flipped, found = map(int, re.search(r"(\d+) flipped, (\d+) found", line).groups())
        expect(flipped == found > 0, line)


def mends(seed, count, *kind):
    top = tempfile.mkdtemp()
    done = subprocess.run([BIN / "mend_bits", f"{top}/store", str(count), str(seed), *kind], capture_output=True, text=True, timeout=NIGHT if NIGHTLY else DEADLINE)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    print(f"# {done.stdout}", end="")
    expect(f" {count} flipped, {count} found by verify, {count} mended" in done.stdout, done.stdout)


def main():
    seed = int(os.environ.get("CKPT_SEED", random.randrange(1 << 32)))
    print(f"# CKPT_SEED={seed}", flush=True)
    cases = Cases()
    cases.run(f"every flipped bit is found: 1 in {STRIDE} of the metadata, {PAYLOAD} of the data", flips, seed, STRIDE, PAYLOAD)
    stride, payload = (1, PAYLOAD) if NIGHTLY else (4 * STRIDE, PAYLOAD // 4)
    cases.run(f"and so of packed files: 1 in {stride} of the metadata, {payload} of the data", flips, seed, stride, payload, "packed")
    cases.run(f"all of {MENDED} bits that flip where an intact copy exists are mended", mends, seed, MENDED)
    cases.run(f"and so of {MENDED} of packed files", mends, seed, MENDED, "packed")
    return cases.end()


sys.exit(main())
