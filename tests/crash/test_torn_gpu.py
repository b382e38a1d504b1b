"""A step of the optimiser without the fence, of a rank whose state is on a GPU (a fake one), or on two and on the host: the daemon finds the torn
snapshot by the digests that the device made at begin, names the tensor, and commits nothing; with the fence every save is durable, has the bytes
of what is frozen as of what changes, and is restored to where it was."""

import json
import struct
import subprocess
import sys

import single_node
from tap import BIN, DEADLINE, Cases, expect

EBADMSG, EUCLEAN = -74, -117
STEPS, THAWS = 16, 4
DEVIATION = 5  # after which one of three replicas differs for a step


def tensors(folder):
    """{name: the one value of all its bytes} of a checkpoint; None: there are several"""
    found = {}
    for path in folder.glob("rank-*.safetensors"):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                values = set(data[8 + length + begin:8 + length + end])
                found[name] = values.pop() if len(values) == 1 else None
    return found


def rank(daemon, how):
    done = subprocess.run([BIN / "torn", how, str(STEPS)], env=daemon.environment(), capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 0, f"the rank: {done.returncode} {done.stdout} {done.stderr}")
    return done.stdout


def saves(how, then=None):
    """The lines of the rank, by step: (code, sentence); what is committed, by step; the daemon's log, or what another process says `then`."""
    with single_node.daemon() as daemon:
        daemon.start()
        lines = [line.split(" ", 2) for line in rank(daemon, how).splitlines()]
        committed = {int(path.parent.name.split("-")[1].split(".")[0]): tensors(path.parent)
                     for path in daemon.store.glob("main/step-*/MANIFEST.json")}
        return {int(step): (int(code), text) for step, code, text in lines}, committed, rank(daemon, then) if then else daemon.log.read_text()


def has_the_bytes(committed, several):
    for step, found in committed.items():
        due = {"biases": 0, "weights": step - 1, "base": (step - 1) // THAWS * THAWS}
        due |= {"moments": step - 1, "table": step - 1} if several else {}
        expect(found == due, f"step {step} has {found}, not {due}")


def careless(how, tensor):
    steps, committed, log = saves(how)
    torn = [step for step, (code, _) in steps.items() if code == EBADMSG]
    expect(torn, f"no snapshot was torn, or none was found: {steps}")
    expect(set(code for code, _ in steps.values()) <= {0, EBADMSG}, steps)
    for step in torn:
        expect(step not in committed, f"step {step} is torn and committed")
    expect(set(committed) == set(steps) - set(torn), f"committed {committed}, torn {torn}")
    has_the_bytes(committed, how.startswith("several"))
    expect(tensor in log, f"the tensor is not named: {log[-2000:]}")


def careful(how, then=None):
    steps, committed, said = saves(how, then)
    expect(all(code == 0 for code, _ in steps.values()), steps)
    expect(set(committed) == set(range(1, STEPS + 1)), committed)
    has_the_bytes(committed, how.startswith("several"))
    expect(not then or said == "the same\n", said)


def deviates():
    """Replicas on a GPU are compared without being asked to."""
    with single_node.daemon() as daemon:
        daemon.start()
        ranks = [subprocess.Popen([BIN / "torn", "deviates", str(STEPS)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=daemon.environment(CKPT_RANK=str(r), CKPT_WORLD="3")) for r in range(3)]
        for r, rank in enumerate(ranks):
            out, err = rank.communicate(timeout=DEADLINE)
            expect(rank.returncode == 0, f"rank {r}: {rank.returncode} {out} {err}")
            steps = {int(step): (int(code), text) for step, code, text in (line.split(" ", 2) for line in out.splitlines())}
            for step, (code, text) in steps.items():
                expect(code == (0 if step <= DEVIATION else EUCLEAN), f"rank {r}: {steps}")
            expect("replicas differ: rank 1 deviates from the others in weights" in steps[DEVIATION + 1][1], steps)
            expect(f"it comes after step {DEVIATION + 1}, in which replicas differed" in steps[DEVIATION + 2][1], steps)
        committed = {int(path.parent.name.split("-")[1].split(".")[0]) for path in daemon.store.glob("main/step-*/MANIFEST.json")}
        expect(committed == set(range(1, DEVIATION + 1)), committed)


cases = Cases()
cases.run("a step without the fence is found, named and not committed", careless, "careless", "weights")
cases.run("with the fence every save is durable", careful, "careful")
cases.run("so it is on a second GPU, on its default stream", careless, "several-careless", "moments")
cases.run("with the fence every save of several GPUs and the host is durable, and restored", careful, "several", "restored")
cases.run("a replica that differs on one rank is found, named and not committed, nor is what comes after it", deviates)
sys.exit(cases.end())
