"""demo_torch.py PROGRAMS RANKS STEPS [PYTHON]: the part of scripts/demo with PyTorch, in this directory. Trains docs/examples/train.py (a small
transformer, FSDP2) twice under torchrun, once with a rank that is killed, and compares the digests of all parameters. Then saves and restores are compared
with those of torch.distributed.checkpoint (bench/torch_training.py, of a small state). PYTHON has torch; without it build/venv-torch is made, of 5 GB. Exit
status 1 with a sentence when something was not as it must be."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN, RANKS, STEPS = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
EXAMPLE, BENCH = ROOT / "docs" / "examples" / "train.py", ROOT / "bench" / "torch_training.py"
SOCKET, LIMIT = os.path.abspath("ckptd.sock"), 600
SHOWN = re.compile(r"fresh start|step \d+ from|digest|a rank was lost|^demo: ", re.M)
ROWS = re.compile(r"^(blocked: .*?|restore after a kill: .*?) \| .*? \| (.*?)(?: MISS)?$", re.M)  # the floors are for larger states
ENV = dict(os.environ, PYTHONPATH=os.path.abspath("site"), OMP_NUM_THREADS="1", CKPT_CONFIG="/dev/null", CKPT_SOCKET=SOCKET)
children = []


def end(text):
    sys.exit(f"demo: {text}")


def begin(words, **options):
    process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, text=True, env=ENV, **options)
    children.append(process)
    return process


def end_all():
    """torchrun ends its ranks, and they come before the daemon."""
    for process in reversed(children):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


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


def headline(text):
    print(f"\n==== {text}", flush=True)


# ---- the training

def ranks_of(job):
    """Process and step of each rank, by the daemon's word."""
    done = subprocess.run([BIN / "ckpt", "status", "--socket", SOCKET, "--json"], capture_output=True, text=True, env=ENV, check=False)
    jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
    return {r["rank"]: (r["pid"], r.get("step") or 0) for j in jobs if j["name"] == job for r in j["ranks"] if r.get("pid")}


def kill_at(process, job, victim, step):
    """Kills a rank that has come so far. Returns the step that it was at; None: the run has ended before."""
    ends = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < ends:
        found = ranks_of(job)
        if len(found) == RANKS and found[victim][1] >= step:
            os.kill(found[victim][0], signal.SIGKILL)
            print(f"demo: rank {victim} (process {found[victim][0]}) was killed with SIGKILL at step {found[victim][1]}", flush=True)
            return found[victim][1]
        time.sleep(0.005)
    return None


def show(stream, into):
    for line in stream:
        into.append(line)
        if SHOWN.search(line):
            print(line, end="", flush=True)


def train(name, victim=None):
    """Shows what matters of it. Returns the digest of the end."""
    words = ["-m", "torch.distributed.run", "--nproc-per-node", RANKS, "--max-restarts", 3, "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
             "--rdzv-id", name, EXAMPLE, STEPS]
    print("$ torchrun " + shlex.join(map(str, [*words[2:-2], os.path.relpath(EXAMPLE, ROOT), STEPS])), flush=True)
    process, said = begin([PYTHON, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT), []
    reader = threading.Thread(target=show, args=(process.stdout, said))
    reader.start()
    killed = victim is not None and kill_at(process, f"torch-{name}", victim, STEPS // 2)
    process.wait()
    reader.join()
    text = "".join(said)
    found = re.search(r"digest (\w+)", text)
    if process.returncode or not found:
        end(f"the run {name} ended with status {process.returncode}:\n{text[-3000:]}")
    if victim is not None:
        back = re.search(r"step (\d+) from memory", text)
        if not killed or not back:
            end(f"the run {name} was not killed, or did not go on from memory:\n{text[-3000:]}")
        print(f"ok  a rank was killed at step {killed}, and all went on from step {back[1]}, out of memory")
    return found[1]


def await_daemon(daemon):
    ends = time.monotonic() + LIMIT
    while subprocess.run([BIN / "ckpt", "status", "--socket", SOCKET], capture_output=True, env=ENV, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > ends:
            end(f"ckptd does not answer:\n{pathlib.Path('ckptd.log').read_text()[-2000:]}")
        time.sleep(0.05)


def trainings():
    headline(f"{RANKS} ranks under torchrun train a small transformer with FSDP2 for {STEPS} steps, with one that is killed and without")
    print("$ ckptd --socket ckptd.sock --store store &", flush=True)
    with open("ckptd.log", "wb") as log:
        daemon = begin([BIN / "ckptd", "--socket", SOCKET, "--store", "store"], stdout=log, stderr=log)
    await_daemon(daemon)
    disturbed, undisturbed = train("disturbed", RANKS - 1), train("undisturbed")
    if disturbed != undisturbed:
        end(f"FAILED: the parameters differ: {disturbed} with a killed rank, {undisturbed} without")
    print(f"ok  all parameters have the same bits, with a killed rank and without: {disturbed}", flush=True)
    end_all()


# ---- the comparison

def compare():
    headline("saves and restores beside those of torch.distributed.checkpoint, 64 MiB of state for each of 2 ranks")
    os.mkdir("bench")
    process = begin([sys.executable, BENCH, "--torch", PYTHON, "--programs", BIN, "--dir", "bench", "--mib", 64, "--rounds", 1, "--parts", "saves", "restores"],
                    stdout=subprocess.PIPE)
    text = process.communicate()[0]
    rows = ROWS.findall(text)
    if len(rows) < 3:
        end(f"the comparison ended with status {process.returncode}:\n{text[-3000:]}")
    for figure, measured in rows:
        print(f"{figure}: {measured}")
    print("One round of a small state: docs/reference/performance.md has figures of larger ones.", flush=True)


def stop(number, _):
    sys.exit(128 + number)


signal.signal(signal.SIGTERM, stop)
try:
    PYTHON = python()
    trainings()
    compare()
finally:
    end_all()
