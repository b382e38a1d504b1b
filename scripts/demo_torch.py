"""demo_torch.py PROGRAMS RANKS STEPS [PYTHON]: the part of scripts/demo with PyTorch, in this directory. Trains docs/examples/train.py (a small
transformer, FSDP2) twice, once with a rank that is killed, and compares the digests of all parameters. PYTHON has torch; without it build/venv-torch is
made, of 5 GB. Exit status 1 with a sentence when something was not as it must be."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN, RANKS, STEPS = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
EXAMPLE = ROOT / "docs" / "examples" / "train.py"
SHOWN = re.compile(r"^ckpt run: (injected|rank|epoch)|fresh start|step \d+ from|digest|^EPOCH|^ +\d+  rank", re.M)


def end(text):
    sys.exit(f"demo: {text}")


def python():
    """One that has torch and, in ./site, the package of this tree."""
    if len(sys.argv) > 4:
        given = pathlib.Path(sys.argv[4])
    else:
        folder = ROOT / "build" / "venv-torch"
        if subprocess.run([sys.executable, ROOT / "tests" / "venv.py", folder, ROOT / "tests" / "requirements-torch.txt"], check=False).returncode:
            end("build/venv-torch cannot be made (above)")
        if (folder / "why-not").exists():
            end((folder / "why-not").read_text().strip())
        given = folder / "bin" / "python"
    done = subprocess.run([given, "-m", "pip", "install", "-q", "--target", "site", ROOT / "python", "-C", "build-dir=" + os.path.abspath("wheel"), "-C",
                           f"cmake.define.CKPT_LIBRARIES={BIN.parent / 'lib'}"], check=False)
    if done.returncode:
        end(f"{given} cannot install the package of python/ (above)")
    return given


def train(name, *options):
    """What the run said; shows what matters of it. Returns the digest of the end."""
    words = [BIN / "ckpt", "run", "-n", RANKS, "--job", name, "--store", "store", *options, "--", PYTHON, EXAMPLE, STEPS]
    print("$ " + shlex.join(["ckpt", *map(str, words[1:-3]), "python", os.path.relpath(EXAMPLE, ROOT), str(STEPS)]), flush=True)
    env = dict(os.environ, PYTHONPATH=os.path.abspath("site"), OMP_NUM_THREADS="1", CKPT_CONFIG="/dev/null")
    done = subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                          check=False)
    print("\n".join(line for line in done.stdout.splitlines() if SHOWN.search(line)) + "\n", flush=True)
    found = re.search(r"digest (\w+)", done.stdout)
    if done.returncode or not found:
        end(f"the run {name} ended with status {done.returncode}:\n{done.stdout[-3000:]}")
    if options and not re.search(r"step \d+ from memory", done.stdout):
        end(f"the run {name} did not go on from memory:\n{done.stdout[-3000:]}")
    return found[1]


PYTHON = python()
disturbed = train("disturbed", "--inject", f"kill:rank={RANKS - 1}@step={STEPS // 2}")
undisturbed = train("undisturbed")
if disturbed != undisturbed:
    end(f"FAILED: the parameters differ: {disturbed} with a killed rank, {undisturbed} without")
print(f"ok  all parameters have the same bits, with a killed rank and without: {disturbed}")
