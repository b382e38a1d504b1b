"""Programs that stand on pages of the documentation, and jobs that run them."""

import os
import pathlib
import re
import subprocess
import sys

BIN = pathlib.Path(os.environ["CKPT_BUILD"])
DOCS = pathlib.Path(__file__).parents[3] / "docs"
LIMIT = 600


def program(page, name, folder):
    """Writes the program that a page shows behind `name`."""
    found = re.search(rf"`{re.escape(name)}`, complete:\n\n((?:    [^\n]*\n|\n)+)", (DOCS / page).read_text())
    path = folder / name
    path.write_text(re.sub(r"^    ", "", found[1], flags=re.M))
    return path


def environment(**more):
    """Without what a test has set for itself: XLA_FLAGS gives a process of JAX as many devices as a job of the page does not have."""
    env = {k: v for k, v in os.environ.items() if (not k.startswith("CKPT_") or k == "CKPT_BUILD") and k != "XLA_FLAGS"}
    return env | {"CKPT_CONFIG": "/dev/null", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"} | more


def run(ranks, job, store, *words, inject=None):
    """What the job says, once it has ended well."""
    fault = ["--inject", inject] if inject else []
    done = subprocess.run([str(w) for w in (BIN / "ckpt", "run", "-n", ranks, "--job", job, "--store", store, *fault, "--", sys.executable, *words)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def end(said):
    """What the program said last: where it is, and the digest of its parameters."""
    return re.search(r"step .*digest \w+", said)[0]
