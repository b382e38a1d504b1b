"""A cluster over TCP needs no libfabric, sealed or not: it is not loaded, and need not be there. RDMA without it is a clear error."""

import pathlib
import subprocess
import sys
import tempfile

from loopback_cluster import Cluster, loopback_cluster
from scripted_ranks import MEMORY, Puppet, gather, save
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

REPLICATED = 2
TOP = pathlib.Path(tempfile.mkdtemp())
(TOP / "libfabric.so.1").write_bytes(b"")  # the loader finds this one first, and takes it for no library
HIDDEN = {"LD_LIBRARY_PATH": str(TOP)}


def mapped(daemon):
    return "libfabric" in pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()


def copies(hidden, *options):
    """The memory of one node reaches another one, also anew when the holder is lost."""
    variables = {name: HIDDEN for name in "abc"} if hidden else {}
    with loopback_cluster("abc", variables, **{name: options for name in "abc"}) as daemons:
        equal({d.status()["cluster"]["sealed"] for d in daemons.values()}, {not options})
        ranks = [Puppet(daemons["a"], number, 2) for number in range(2)]
        gather(ranks, 100_000)
        save(ranks, 7, 3, target=MEMORY, level=REPLICATED)
        holder = next(name for name in "bc" if daemons[name].held())
        expect(not any(mapped(d) for d in daemons.values()), "a daemon has loaded libfabric")
        daemons[holder].kill()
        other = daemons["c" if holder == "b" else "b"]
        until(lambda: other.held() and not daemons["a"].job()["copies"]["ranks_missing"], "the other node holds the copy")
        save(ranks, 8, 4, target=MEMORY, level=REPLICATED)
        expect(not mapped(daemons["a"]) and not mapped(other), "a daemon has loaded libfabric")


def rdma_is_refused():
    cluster = Cluster(["a"])
    daemon = cluster.daemon("a")
    done = subprocess.run([BIN / "ckptd", "--socket", cluster.top / "s", *daemon.options, "--fabric-provider", "verbs"], capture_output=True, text=True,
                          timeout=DEADLINE, env=daemon.environment(**HIDDEN))
    expect(done.returncode == 1, done.returncode, done.stderr)
    has(done.stderr, "RDMA", "fabric-provider", "libfabric.so.1", "install libfabric1")


cases = Cases()
cases.run_beside([("sealed copies are made where libfabric cannot be loaded", lambda: copies(True)),
                  ("copies that are not sealed are made where libfabric cannot be loaded", lambda: copies(True, "--seal-copies", "never")),
                  ("nobody loads libfabric for TCP where it is installed", lambda: copies(False, "--seal-copies", "never"))])
cases.run("RDMA without libfabric is refused with what to do", rdma_is_refused)
sys.exit(cases.end())
