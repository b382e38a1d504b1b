"""The last epoch that has a name in a store: a job ends there in good order, and nothing is written that nobody could read."""

import pathlib
import sqlite3
import subprocess
import tempfile

from launcher import ENVIRONMENT
from tap import BIN, DEADLINE, Cases, expect, has

LAST = 9999
store = pathlib.Path(tempfile.mkdtemp()) / "store"
cases = Cases()


def run(*options, steps):
    command = [BIN / "ckpt", "run", "-n", "2", "--job", "old", "--store", store, *options, "--", BIN / "ckpt-train",
               "--steps", steps, "--save-storage-every", "10"]
    return subprocess.run([str(word) for word in command], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE)


def ends(done, code, text):
    expect((done.returncode == 0) == (code == 0), f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    has(done.stdout + done.stderr, text)


run(steps=10)
with sqlite3.connect(store / "catalog.sqlite") as catalog:
    catalog.execute("UPDATE epoch SET last = ?", [LAST - 1])
done = run("--inject", "kill:rank=1@step=25", "--max-restarts", "1", steps=40)
cases.run("the last epoch is as good as any", ends, done, 1, f"epoch {LAST}: 2 ranks go on from storage at step 10")
cases.run("after a loss in it saves to storage fail with the reason", ends, done, 1, f"epoch {LAST + 1} has no name in a store")
cases.run("beyond it a job does not start", ends, run(steps=50), 1, f"job 'old' has used up its {LAST} epochs in this store")
verify = subprocess.run([BIN / "ckpt", "verify", "--all", "--repo", store], capture_output=True, text=True, timeout=DEADLINE)
cases.run("all that was committed can be read", ends, verify, 0, f"step-000000000020.e{LAST}")
raise SystemExit(cases.end())
