"""The transport of torchft: torchft's own test of transports, and the program of the page, whose replica is killed and comes back."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent import futures
from datetime import timedelta

import pages
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

pytest.importorskip("torchft", reason="torchft is not installed")
from torchft._torchft import LighthouseServer  # noqa: E402
from torchft.checkpointing.transport_test import run_multi_recovery_test  # noqa: E402

import ckpt  # noqa: E402
from ckpt.integrations.arrivals import ASKING, Arrivals, ask  # noqa: E402
from ckpt.integrations.torchft import Transport  # noqa: E402

PAGE = "howto/train-with-torchft.md"
TIME = timedelta(seconds=60)


def transport(service, job, **options):
    return Transport(job, socket=service.socket, store=service.store, address="localhost", **options)


def test_what_torchft_asks_of_a_transport(service):
    class Case:
        assertEqual = staticmethod(lambda a, b: (_ for _ in ()).throw(AssertionError((a, b))) if a != b else None)
        assertRaisesRegex = staticmethod(lambda kind, match: pytest.raises(kind, match=match))

    try:
        run_multi_recovery_test(Case(), lambda rank, world: transport(service, f"own.{rank}", mesh=DeviceMesh("cpu", 1)), torch.device("cpu"))
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@pytest.fixture
def mesh():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    yield DeviceMesh("cpu", [[0]], mesh_dim_names=("replicate", "shard"))
    torch.distributed.destroy_process_group()


def state_of(mesh, seed):
    torch.manual_seed(seed)
    kinds = {str(t): torch.randn(5, 3).to(t) for t in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex128)}
    local = torch.randn(4, 6)
    return {"kinds": kinds, "number": torch.tensor(1.5), "empty": torch.zeros(0, 2), "turned": torch.randn(3, 4).t(), "parameter": torch.nn.Parameter(local),
            "cut": DTensor.from_local(local, mesh, [Replicate(), Shard(1)]), "optim": {"state": {0: {"step": torch.tensor(3.0)}, 1: {"mean": torch.randn(2)}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1]}]}, "text": "t", "none": None, "bytes": b"\x00"}


def equal(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, DTensor):
        return isinstance(b, DTensor) and a.placements == b.placements and a.device_mesh == b.device_mesh and equal(a.to_local(), b.to_local())
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b


def test_each_bit_arrives_also_when_the_state_has_changed_its_form(service, mesh):
    sender, receiver = transport(service, "sender", mesh=mesh), transport(service, "receiver", mesh=mesh)
    for step, state in enumerate([{"x": torch.ones(2)}, state_of(mesh, 1), state_of(mesh, 2)]):
        sender.send_checkpoint([1], step, state, TIME)
        got = receiver.recv_checkpoint(0, sender.metadata(), step, TIME)
        sender.disallow_checkpoint()
        assert equal(state, got) and (step == 0 or not equal(state_of(mesh, 3 - step), got))
    sender.shutdown()
    receiver.shutdown()


def test_the_state_may_change_behind_disallow(service):
    sender = transport(service, "changes")
    state = {"x": torch.full((1 << 22,), 5.0)}
    sender.send_checkpoint([1], 5, state, TIME)
    sender.disallow_checkpoint()
    state["x"] += 1
    assert (sender.recv_checkpoint(0, sender.metadata(), 5, TIME)["x"] == 5).all()
    sender.shutdown()


class Opaque:
    pass


@pytest.mark.parametrize("make, sentence", [(lambda mesh: Opaque(), r"state\.user\[0\]\.it is a .*Opaque"),
                                            (lambda mesh: DTensor.from_local(torch.ones(2), mesh, [Replicate(), Partial()]), r"state\.user\[0\]\.it is a DTensor"),
                                            (lambda mesh: torch.ones(2).to_sparse(), r"state\.user\[0\]\.it is a .*sparse")])
def test_what_cannot_be_sent_is_refused_by_its_path_and_others_hear_of_it(service, mesh, make, sentence):
    sender = transport(service, "refused")
    with pytest.raises((ckpt.TreeError, TypeError), match=sentence):
        sender.send_checkpoint([1], 3, {"user": [{"it": make(mesh)}]}, TIME)
    with pytest.raises(RuntimeError, match=sentence):
        sender.recv_checkpoint(0, sender.metadata(), 3, TIME)
    sender.shutdown()


def test_another_step_and_an_end_are_errors_and_no_wait():
    arrivals = Arrivals("localhost")
    arrivals.begin(7)
    arrivals.there(checkpoint="7.e0001")
    assert ask(arrivals.address, 7, 60) == {"checkpoint": "7.e0001"}
    with pytest.raises(RuntimeError, match="step 6 is over: step 7"):
        ask(arrivals.address, 6, 60)
    with pytest.raises(TimeoutError, match="timed out"):
        ask(arrivals.address, 8, 0.05)
    failures, begun = [], threading.Event()

    def wait():
        begun.set()
        try:
            ask(arrivals.address, 9, 60)
        except (RuntimeError, OSError) as e:
            failures.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    begun.wait(60)
    arrivals.close()
    waiting.join(60)
    assert failures


@pytest.mark.parametrize("said", [b"", b"x\n", b"[]\n", b'{"step": "x", "seconds": 1}\n', b'{"step": 1}\n', b"y" * 100_000])
def test_what_is_no_question_is_an_error(said):
    arrivals = Arrivals("localhost")
    with socket.create_connection(("localhost", int(arrivals.address.rpartition(":")[2])), 60) as s:
        s.sendall(said)
        s.shutdown(socket.SHUT_WR)
        try:
            assert b"error" in s.makefile("rb").readline()
        except ConnectionResetError:
            assert len(said) > 4096
    with pytest.raises(TimeoutError):
        ask(arrivals.address, 1, 0.01)
    arrivals.close()


def test_those_that_ask_nothing_take_no_more_than_the_places():
    arrivals = Arrivals("localhost")
    arrivals.begin(7)
    arrivals.there(checkpoint="7.e0001")
    silent = [socket.create_connection(("localhost", int(arrivals.address.rpartition(":")[2])), 60) for _ in range(ASKING)]
    with pytest.raises(RuntimeError, match=f"{ASKING} others are asking"):
        ask(arrivals.address, 7, 60)
    for s in silent:
        s.shutdown(socket.SHUT_WR)
        s.makefile("rb").read()  # its end: the place is free, or about to be
        s.close()
    arrivals.close()


def test_a_send_that_failed_does_not_stop_the_next(service):
    sender = transport(service, "again")
    sender.send_checkpoint([1], 1, {"x": torch.ones(2)}, TIME)
    sender.disallow_checkpoint()
    sender._end.result(60)
    sender._end = futures.Future()
    sender._end.set_exception(ckpt.Error(5, "the disk"))
    sender.send_checkpoint([1], 2, {"x": torch.ones(3)}, TIME)
    assert equal(sender.recv_checkpoint(0, sender.metadata(), 2, TIME), {"x": torch.ones(3)})
    sender._end = futures.Future()
    with pytest.raises(TimeoutError, match="before step 3 is still on its way"):
        sender.send_checkpoint([1], 3, {"x": torch.ones(3)}, timedelta(seconds=0.01))
    sender.shutdown()


# ---- the program of the page


class Replica:
    """A replica under torchrun, and what it says."""

    def __init__(self, number, program, last, env):
        with socket.socket() as s:
            s.bind(("", 0))
            port = s.getsockname()[1]
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "1", "--master-addr", "localhost", "--master-port",
                 str(port), "--max-restarts", "3", program, str(last)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=env | {"REPLICA_GROUP_ID": str(number)}, start_new_session=True)
        self.lines, self.condition = [], threading.Condition()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with self.process.stdout as out:
            for line in out:
                with self.condition:
                    self.lines.append(line)
                    self.condition.notify_all()
        with self.condition:
            self.lines.append("")
            self.condition.notify_all()

    def said(self, pattern):
        """The first group of what it says, as soon as it has said it."""
        with self.condition:
            assert self.condition.wait_for(lambda: re.search(pattern, "".join(self.lines)) or "" in self.lines, pages.LIMIT), "".join(self.lines)[-4000:]
            found = re.search(pattern, "".join(self.lines))
        assert found, "".join(self.lines)[-4000:]
        return found[1]

    def end(self):
        self.said(r"(digest) \w+")
        assert self.process.wait(pages.LIMIT) == 0
        return pages.end("".join(self.lines))


def train(service, top, kill=None):
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=2, join_timeout_ms=10000, quorum_tick_ms=100)
    program = pages.program(PAGE, "train.py", top)
    port = lighthouse.address().rpartition(":")[2]
    env = pages.environment(CKPT_SOCKET=service.socket, CKPT_REPO=str(service.store), CKPT_ADDRESS="localhost", TORCHFT_LIGHTHOUSE=f"http://localhost:{port}")
    replicas = [Replica(number, program, 30, env) for number in (0, 1)]
    try:
        if kill is not None:
            replicas[1].said(f"replica 1 has finished (step {kill})\n")
            os.kill(int(replicas[1].said(r"replica 1 is process (\d+)")), signal.SIGKILL)
        return [r.end() for r in replicas], "".join(replicas[1].lines)
    finally:
        for r in replicas:
            if r.process.poll() is None:
                os.killpg(r.process.pid, signal.SIGKILL)
                r.process.wait(60)
            r.thread.join(60)
        lighthouse.shutdown()


def test_a_replica_that_was_killed_gets_the_state_of_another(service, tmp_path):
    alone, _ = train(service, tmp_path)
    killed, said = train(service, tmp_path, 10)
    assert len({*alone, *killed}) == 1 and alone[0].startswith("step 30"), (alone, killed)
    assert said.count("replica 1 is process") == 2
    names = [c.step for c in ckpt.checkpoints(service.store, "gpt.0.0")]
    assert any(step >= 10 for step in names), names
