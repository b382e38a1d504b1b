"""scripts/demo with few steps: what it must have shown before it says that it passed, that its proof can fail, and what it leaves."""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import time

from etcd import why_not
from tap import BIN, DEADLINE, Cases

DEMO = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "demo"
OK, FAILED, USAGE, TERMINATED = 0, 1, 2, 143


@contextlib.contextmanager
def folder():
    yield pathlib.Path(tempfile.mkdtemp())


cases = Cases(folder)
case = cases.case


def environment(folder):
    return dict(os.environ, TMPDIR=str(folder))


def demo(folder, *options, code=OK, **more):
    """Runs the demo; its output, stderr after stdout."""
    done = subprocess.run([DEMO, *map(str, options)], env=dict(environment(folder), **more), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != code:
        raise AssertionError(f"exit status {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def has(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, re.M):
            raise AssertionError(f"{pattern!r} is not in:\n{text}")


def lacks(text, pattern):
    if re.search(pattern, text, re.M):
        raise AssertionError(f"{pattern!r} is in:\n{text}")


def empty(folder):
    left = [path.name for path in folder.iterdir()]
    if left:
        raise AssertionError(f"left behind: {left}")


SHOWN = (r"^\$ ckpt run .*--inject kill:rank=2@step=38\b", r"^\$ ckpt list ", r"^\$ ckpt verify ", r"^\$ ckpt restore latest ",
         r"^ok  disturbed/step-000000000060\.e0002: ", r"^disturbed +60 +2 .* verified ",
         r"^ok  params: \d+ bytes, all the same", r"^ok  optimizer: \d+ bytes, all the same",
         r"^ok  fingerprint of the parameters: (\w{16}) after the kill, \1 undisturbed", r"^ok  rank 2 was killed and replaced",
         r"^ok  the state came from memory", r"^ok  all ranks were at work again after \d+\.\d ms",
         r"^detect +\d+\.\d ms", r"^decide +\d+\.\d ms", r"^restore +\d+\.\d ms", r"^steps lost +\d+", r"^stall per save +\d+\.\d ms",
         r"^demo: passed in \d+ s$")


@case("a killed run ends with the bits of the undisturbed one, and nothing is left behind")
def passes(folder):
    # Of a stranger's job, daemon and store nothing may be used.
    text = demo(folder, "--steps", 60, CKPT_JOB="other", CKPT_STORE="/nonexistent", CKPT_SOCKET="/nonexistent", CKPT_RANK="7")
    has(text, *SHOWN)
    lacks(text, "NOT OK|FAILED")
    empty(folder)


@case("a lost node's ranks go on on a spare, out of the memory of another node, with the same bits")
def nodes(folder):
    text = demo(folder, "--nodes", 2, "--ranks", 4, "--steps", 300, CKPT_JOB="other", CKPT_CLUSTER="/nonexistent", CKPT_RANK="7")
    has(text, r"^\$ ckptd --node spare ", r"^\$ ckpt run --nodes 2 -n 2 .*--spare ", r"^demo: node-1 is lost", r"^\$ ckpt recoveries ",
        r"^disturbed +spare .* from peer ", r"^disturbed +300 +2 .* verified ", r"^ok  params: \d+ bytes, all the same",
        r"^ok  fingerprint of the parameters: (\w{16}) after the kill, \1 undisturbed",
        r"^ok  node-1 was killed, and the spare runs its ranks: [23] [23]$", r"^ok  their state came from peer",
        r"^ok  all ranks were at work again after \d+\.\d ms", r"^detect +\d+\.\d ms", r"^steps lost +\d+", r"^demo: passed in \d+ s$")
    lacks(text, "NOT OK|FAILED")
    empty(folder)


@case("when the coordinator's node is lost another one is elected, and the bits are the same")
def coordinator(folder):
    why = why_not()
    if why:
        return why
    text = demo(folder, "--nodes", 3, "--lose", "coordinator", "--steps", 300, CKPT_REGISTRY="/nonexistent")
    has(text, r"^\$ etcd ", r"^\$ ckptd --node node-2 .*--registry etcd://", r"^demo: (node-\d) coordinates the job$[^~]*^demo: \1 is lost",
        r"^demo: \S+ coordinates the job now", r"^disturbed +300 +[23] .* verified ", r"^ok  params: \d+ bytes, all the same",
        r"^ok  fingerprint of the parameters: (\w{16}) after the kill, \1 undisturbed",
        r"^ok  (node-\d) was killed, and the spare runs its ranks: \d$", r"^ok  (node-\d) coordinated the job, and (?!\1)\S+ does since",
        r"^ok  their state came from (peer|storage)", r"^elected +\d+\.\d ms", r"^steps lost +\d+", r"^demo: passed in \d+ s$")
    lacks(text, "NOT OK|FAILED")
    empty(folder)
    return None


@case("when the runs differ the proof fails")
def spoiled(folder):
    text = demo(folder, "--steps", 60, "--spoil", code=FAILED)
    has(text, r"^NOT OK  params: they differ", r"^NOT OK  optimizer: they differ", r"^NOT OK  fingerprint",
        r"^ok  rank 2 was killed", r"^demo: FAILED: ")
    lacks(text, "passed")
    empty(folder)


@case("one rank, a text of one's own, and a folder that is kept")
def kept(folder):
    text, keep = folder / "a text's name", folder / "kept"
    text.write_bytes(bytes(range(256)) * 4)
    has(demo(folder, "--ranks", 1, "--steps", 20, "--data", text, DEMO, "--keep", keep), r"kill:rank=0@step=13",
        r"^demo: passed", f"^kept: {keep}$")
    for name in ("store/disturbed", "restored-disturbed/params.safetensors", "disturbed.json", "undisturbed.jsonl"):
        if not (keep / name).exists():
            raise AssertionError(f"{name} was not kept")
    has(demo(folder, "--keep", keep, code=USAGE), "is not empty")


@case("what cannot work is refused at once, in a sentence")
def refused(folder):
    (folder / "empty").touch()
    (folder / "short").write_text("0123456789")
    for options, why in ((["--data", folder / "missing"], "no such file"), (["--data", folder / "empty"], "0 bytes are too few"),
                         (["--data", folder / "short"], "10 bytes are too few"), (["--data", folder], "not a regular file"),
                         (["--data"], "needs a value"), (["--ranks", "0"], "from 1 to 64"),
                         (["--nodes", "1"], "from 2 to 16"), (["--lose", "coordinator"], "needs --nodes"),
                         (["--nodes", "2", "--lose", "x"], "last or coordinator is wanted"), (["--nodes", "2", "--ranks", "3"], "as many are wanted on each of the 2 nodes"), (["--steps", "x"], "whole number"),
                         (["--unknown"], "unknown option"), (["word"], "unknown option")):
        has(demo(folder, *options, code=USAGE), f"^demo: FAILED: .*{why}")


@case("without room for temporary files, or without programs, it says what to do")
def unable(folder):
    has(demo(folder, TMPDIR=str(folder / "missing"), code=FAILED), "^demo: FAILED: .*set TMPDIR")
    has(demo(folder, CKPT_BUILD=str(folder), code=FAILED), "^demo: FAILED: .*/ckpt is missing")
    empty(folder)


@case("a training that fails ends it")
def training(folder):
    tools = folder / "programs"
    tools.mkdir()
    for name in ("ckpt", "ckptd"):
        (tools / name).symlink_to(BIN.resolve() / name)
    (tools / "ckpt-train").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (tools / "ckpt-train").chmod(0o755)
    has(demo(folder, CKPT_BUILD=str(tools), code=FAILED), "broken", "^demo: FAILED: the training did not end well")


@case("GPUs are used where there are some, and where not all is as it should be that is said")
def gpus(folder):
    tools = folder / "programs"
    tools.mkdir()
    for name in ("ckpt", "ckptd"):
        (tools / name).symlink_to(BIN.resolve() / name)
    for name, text in (("nvidia-smi", 'seq "$GPUS" | sed "s/^/GPU /"'),
                       ("ckpt-train", 'if [ "$*" = "--steps 1" ]; then echo "$TROUBLE" >&2; else echo "on $CKPT_DEVICE, shared: $CKPT_SHARE_GPU."; fi; exit 1')):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for count, trouble, options, said, then in (
            (0, "", [], None, "^on , shared: .$"),
            (4, "", [], "^demo: a GPU for each of the 4 ranks, of 4$", "^on cuda, shared: .$"),
            (1, "", [], r"^demo: 4 ranks share the GPUs that there are \(1\)$", "^on cuda, shared: 1.$"),
            (2, "ckpt-train: --device cuda: no driver", [], r"^demo: on the processors, although there are GPUs \(2\): no driver$",
             "^on host, shared: .$"),
            (2, "", ["--nodes", 2], r"^demo: on the processors, .*: the nodes are all on this machine", "^.*on host, shared: .$")):
        text = demo(folder, *options, code=FAILED, CKPT_BUILD=str(tools), GPUS=str(count), TROUBLE=trouble,
                    PATH=f"{tools}:{os.environ['PATH']}")
        has(text, then, *([said] if said else []))
        if not said:
            lacks(text, "GPU")


def interrupted(folder, said, *options):
    run = subprocess.Popen([DEMO, "--steps", "1000000", *options], env=environment(folder), stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    text, limit = b"", time.monotonic() + DEADLINE
    try:
        while b"/1000000  loss" not in text:
            if not select.select([run.stderr], [], [], limit - time.monotonic())[0]:
                raise AssertionError("no progress line")
            more = os.read(run.stderr.fileno(), 65536)
            if not more:
                raise AssertionError(f"it ended early:\n{text.decode()}")
            text += more
        run.send_signal(signal.SIGTERM)
        rest = run.communicate(timeout=DEADLINE)[1].decode()
    finally:
        run.kill()
        run.wait()
    if run.returncode != TERMINATED:
        raise AssertionError(f"exit status {run.returncode}")
    has(rest, said, "^demo: interrupted$")
    empty(folder)


@case("a signal in mid-run ends everything, and nothing is left behind")
def interrupted_ranks(folder):
    interrupted(folder, "take a last checkpoint")


@case("the same with nodes")
def interrupted_nodes(folder):
    interrupted(folder, "the ranks go to other nodes, or the job ends", "--nodes", "2")


raise SystemExit(cases.end())
