"""A cluster on one machine: each node has a network and a process namespace of its own, is joined to a bridge by a cable (a veth pair), and
runs a ckptd and whatever a test starts beside it. One roster, one key, one store for all, or none.

Needs root and iproute2. The namespaces have no names and live as long as the test: however that ends, nothing stays. All waits are for
something that happens, with a deadline."""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

from single_node import Daemon
from tap import BIN, DEADLINE, Failure, expect, until

CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
PORT = 7470
NOWHERE = "02:00:00:00:00:fe"  # no card has this address
INIT = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--mount-proc",
        "sh", "-c", "trap '' CHLD; echo; exec sleep infinity")  # nobody else reaps what loses its parent
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "setpriv": "util-linux"}

libc = ctypes.CDLL(None, use_errno=True)


def system_call(name, *args):
    if getattr(libc, name)(*args):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def unshared(kind, flag):
    """A descriptor of a new namespace of this thread, which stays in its own."""
    with opened(f"/proc/thread-self/ns/{kind}") as home:
        system_call("unshare", flag)
        try:
            return os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            system_call("setns", home, flag)


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def children_in(where=None):
    """Processes that are started meanwhile are in that process namespace; None: in a new one, the first of them its init."""
    with opened("/proc/thread-self/ns/pid") as home:
        if where:
            with opened(where) as fd:
                system_call("setns", fd, CLONE_NEWPID)
        else:
            system_call("unshare", CLONE_NEWPID)
        try:
            yield
        finally:
            system_call("setns", home, CLONE_NEWPID)


class Net:
    """A network namespace."""

    def __init__(self):
        self.fd = unshared("net", CLONE_NEWNET)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"

    def run(self, *command):
        done = subprocess.run(["nsenter", f"--net={self.path}", *map(str, command)], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 0, *command, ":", done.stderr.strip())
        return done.stdout

    def ip(self, *lines):
        for line in lines:
            self.run("ip", *line.split())

    def listener(self, port):
        """A socket of this process that listens there, on the loopback."""
        with opened("/proc/thread-self/ns/net") as home:
            system_call("setns", self.fd, CLONE_NEWNET)
            try:
                return socket.create_server(("127.0.0.1", port))
            finally:
                system_call("setns", home, CLONE_NEWNET)

    def close(self):
        os.close(self.fd)


class Node(Daemon):
    """local: ranks of a job that run here."""

    def __init__(self, cluster, number, name, options=()):
        (cluster.top / name).mkdir()
        super().__init__(cluster.top / name)
        self.cluster, self.number, self.name, self.local = cluster, number, name, 1
        self.address, self.port = f"10.77.0.{number + 1}", f"port{number}"
        self.options = ["--node", name, "--cluster", cluster.roster, "--cluster-key", cluster.key, *map(str, options)]
        self.store, self.pace = cluster.store, cluster.top / "pace"
        if cluster.shared:
            self.options += ["--store", cluster.store]
        self.net, self.init, self.processes, self.life = None, None, [], 0

    def environment(self, **more):
        return super().environment(**{"CKPT_LOCAL_WORLD": str(self.local), **more})

    # ---- power

    def boot(self):
        """Nothing runs yet but what reaps orphans."""
        if not self.net:
            self.net = self.cluster.connect(self)
        with children_in():
            self.init = subprocess.Popen(["nsenter", f"--net={self.net.path}", *INIT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
        if not self.init.stdout.readline():
            why = self.init.stderr.read().strip()
            self.strike()
            raise Failure(f"node {self.name} does not boot: {why}")

    def strike(self):
        """SIGKILL to everything in the node, at once. Its kernel lives on and closes the connections."""
        if not self.init:
            return
        self.init.kill()
        for process in self.processes:
            process.wait(DEADLINE)
        self.init.wait(DEADLINE)
        self.init.stdout.close()
        self.init.stderr.close()
        self.init, self.processes = None, []

    def lose_power(self):
        """Nobody says anything any more."""
        if self.net:
            self.cluster.disconnect(self)
        self.strike()
        if self.net:
            self.net.close()
        self.net = None

    def start(self, failpoints="", ready=True):
        self.life = len(self.text())
        return super().start(failpoints, ready)

    def close(self):
        self.lose_power()

    # ---- what runs in it

    def spawn(self, command, **how):
        if not self.init:
            self.boot()
        spaces = f"/proc/{self.init.pid}/ns"
        with children_in(f"{spaces}/pid"):
            process = subprocess.Popen(["nsenter", f"--net={spaces}/net", f"--mount={spaces}/mnt", f"--wd={self.top}", "--",
                                        *map(str, command)], **how)
        self.processes.append(process)
        return process

    def run(self, *command, seconds=DEADLINE):
        """A command, to its end: exit status, stdout, stderr."""
        process = self.spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=self.environment())
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err

    def ckpt(self, *args, seconds=DEADLINE):
        return self.run(BIN / "ckpt", *args, seconds=seconds)

    # ---- its way to the others

    def unplug(self):
        self.cluster.bridge.ip(f"link set {self.port} down")

    def plug(self):
        self.cluster.bridge.ip(f"link set {self.port} up")

    def link_down(self):
        self.net.ip("link set eth0 down")

    def link_up(self):
        self.net.ip("link set eth0 up")

    def mute(self, *others):
        """What this node sends to them is lost; what they send arrives."""
        for other in others:
            self.net.ip(f"neigh replace {other.address} lladdr {NOWHERE} dev eth0 nud permanent")

    def unmute(self, *others):
        for other in others:
            self.net.ip(f"neigh del {other.address} dev eth0")

    def slow(self, rate):
        """Both ways; a rate of tc, such as 20mbit. None: as fast as it goes."""
        for net, device in ((self.net, "eth0"), (self.cluster.bridge, self.port)):
            what = ("replace", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
            net.run("tc", "qdisc", *(what if rate else ("del", "dev", device, "root")))

    # ---- what its daemon says of the others

    def said(self, since=None):
        """Its log in this life, or since a length that text() had."""
        return self.text()[self.life if since is None else since:]

    def news_of(self, other):
        """"there" and "lost", in turn. What is told of a job may say the same in other lines."""
        expect(self.alive(), f"the daemon of {self.name} has ended:", self.said()[-500:])
        return re.findall(rf'(?:ckptd: |"text":")node {other.name} is (there|lost)', self.said())

    def sees(self, *others):
        return all(self.news_of(other)[-1:] == ["there"] for other in others)

    def losses(self, other):
        return self.news_of(other).count("lost")

    def until_said(self, text, since=None, seconds=DEADLINE, pause=0.02):
        until(lambda: text in self.said(since), f"node {self.name} says '{text}'", seconds, pause)


class Cluster:
    """labels: {name: "rack=r1"}, what the roster says of a node."""

    def __init__(self, names="abc", store=True, options=(), labels=None):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="cluster-"))
        self.roster, self.key, self.store, self.shared = self.top / "roster", self.top / "key", self.top / "store", store
        self.nodes = [Node(self, number, name, options) for number, name in enumerate(names)]
        self.roster.write_text("".join(f"{n.name} {n.address}:{PORT} {(labels or {}).get(n.name, '')}\n" for n in self.nodes))
        self.key.write_text(os.urandom(32).hex())
        self.key.chmod(0o600)
        self.bridge = Net()
        self.bridge.ip("link add bridge type bridge", "link set bridge up")

    def __getitem__(self, name):
        return next(node for node in self.nodes if node.name == name)

    def others(self, *nodes):
        return [node for node in self.nodes if node not in nodes]

    def connect(self, node):
        net = Net()
        hardware = f"02:00:00:00:01:{node.number + 1:02x}"
        self.bridge.ip(f"link add {node.port} type veth peer name eth0 address {hardware} netns {net.path}",
                       f"link set {node.port} master bridge up")
        net.ip("link set lo up", f"address add {node.address}/24 dev eth0", "link set eth0 up")
        return net

    def disconnect(self, node):
        self.bridge.ip(f"link del {node.port}")

    def start(self):
        for node in self.nodes:
            node.start()
        self.meet()
        return self

    def meet(self, *nodes):
        """Waits until these (all) see each other."""
        for node in nodes or self.nodes:
            until(lambda node=node: node.sees(*(o for o in nodes or self.nodes if o is not node)), f"node {node.name} sees the others")

    def part(self, left, right):
        """Waits until none of the left sees one of the right, nor the other way."""
        for one, other in [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]:
            until(lambda one=one, other=other: not one.sees(other), f"node {one.name} has lost {other.name}")

    def logs(self):
        return "".join(f"---- {path.relative_to(self.top)}\n{path.read_text(errors='replace')[-3000:]}"
                       for path in sorted(self.top.glob("*/*")) if path.is_file() and not path.is_relative_to(self.store))

    def close(self):
        for node in self.nodes:
            node.close()
        self.bridge.close()
        shutil.rmtree(self.top, ignore_errors=True)


@contextlib.contextmanager
def cluster(*args, **options):
    made = Cluster(*args, **options)
    try:
        yield made
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}\n{made.logs()}") from error
    finally:
        made.close()


def why_not():
    """Why no cluster can be made here; None: one can."""
    missing = [f"{tool} ({package})" for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "namespaces need root"
    try:
        with contextlib.closing(Cluster("a")) as made:
            made["a"].boot()
    except (OSError, Failure) as error:
        return f"no namespaces here: {error}"
    return None
