"""The last epoch that has a name in a store: a job ends there in good order, and nothing is written that nobody could read."""

import os
import pathlib
import sqlite3
import subprocess
import tempfile

PROGRAMS = pathlib.Path(os.environ["CKPT_BUILD"])
LAST, DEADLINE = 9999, 60
store = pathlib.Path(tempfile.mkdtemp()) / "store"
problems = []


def run(*options, steps):
    command = [PROGRAMS / "ckpt", "run", "-n", "2", "--job", "old", "--store", store, *options, "--", PROGRAMS / "ckpt-train",
               "--steps", steps, "--save-storage-every", "10"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    return subprocess.run([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE)


def case(number, name, done, code, text):
    good = (done.returncode == 0) == (code == 0) and text in done.stdout + done.stderr
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if not good:
        problems.append(name)
        print("".join(f"# {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="")


run(steps=10)
with sqlite3.connect(store / "catalog.sqlite") as catalog:
    catalog.execute("UPDATE epoch SET last = ?", [LAST - 1])
done = run("--inject", "kill:rank=1@step=25", "--max-restarts", "1", steps=40)
case(1, "the last epoch is as good as any", done, 1, f"epoch {LAST}: 2 ranks go on from storage at step 10")
case(2, "after a loss in it saves to storage fail with the reason", done, 1, f"epoch {LAST + 1} has no name in a store")
case(3, "beyond it a job does not start", run(steps=50), 1, f"job 'old' has used up its {LAST} epochs in this store")
verify = subprocess.run([PROGRAMS / "ckpt", "verify", "--all", "--repo", store], capture_output=True, text=True, timeout=DEADLINE)
case(4, "all that was committed can be read", verify, 0, f"step-000000000020.e{LAST}")
print("1..4")
raise SystemExit(bool(problems))
