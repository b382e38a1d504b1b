"""ckpt doctor: each lack that can be made here is found, told with its price, and counted in the exit code."""

import json
import os
import pathlib
import platform
import re
import resource
import struct
import subprocess
import sys
import tempfile

import pages
from loopback_cluster import loopback_cluster
from seccomp import EINVAL, forbid, libc
from single_node import Daemon
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

if platform.machine() != "x86_64":
    print("the numbers of system calls in here are those of x86_64")
    sys.exit(77)
cases = Cases()
case = cases.case
top = pathlib.Path(tempfile.mkdtemp())
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_IPC_LOCK = 24, 1, 14


def doctor(*args, set_up=None, **env):
    """(exit code, {name: check})"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    done = subprocess.run([BIN / "ckpt", "doctor", "--json", *map(str, args)], capture_output=True, text=True, timeout=DEADLINE,
                          preexec_fn=set_up, env=dict(clean, CKPT_CONFIG="/dev/null", **env))
    expect(done.stdout, done.returncode, done.stderr)
    document = json.loads(done.stdout)
    equal([document["command"], document["exit"]], ["doctor", done.returncode])
    for check in document["checks"]:
        fine = check["verdict"] == "fine"
        expect((check["costs"] is None) == fine and (check["remedy"] is None) == fine, check)
    return done.returncode, {check["name"]: check for check in document["checks"]}


def code_of(checks):
    verdicts = {check["verdict"] for check in checks.values()}
    return 1 if "broken" in verdicts else 3 if "degraded" in verdicts else 0


def lacks(name, verdict, *args, **more):
    """With that lack the check has this finding, and is told with what it costs and how to mend it."""
    code, checks = doctor(*(args or ("--store", top / "new")), **more)
    equal(code, code_of(checks))
    check = checks[name]
    equal(check["verdict"], verdict, check)
    expect(len(check["costs"]) > 15 and len(check["remedy"]) > 15, check)
    return check


@case("the exit code is that of the worst finding, and nothing is left behind")
def _():
    store = top / "store"
    store.mkdir()
    code, checks = doctor("--store", store)
    equal(code, code_of(checks))
    equal(list(store.iterdir()), [])
    equal({checks[name]["verdict"] for name in ("arenas", "store", "store-write", "file-lock")}, {"fine"})


@case("a store that is not there yet is looked for above")
def _():
    has(doctor("--store", top / "new")[1]["store"]["found"], "will be made")
    expect(not (top / "new").exists(), "made")
    lacks("store", "broken", "--store", top / "no" / "such")


DRIVER = """#include <stdlib.h>
#include <string.h>
static int shut = 1;
int cuDriverGetVersion(int *out) { *out = atoi(getenv("FAKE_CUDA")); return 0; }
int nvmlInitWithFlags(unsigned flags) { shut = 0; return flags != 2; }
int nvmlShutdown(void) { shut = 1; return 0; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { strncpy(out, getenv("FAKE_DRIVER"), size); return shut; }
"""


@case("the driver of a GPU is compared with the CUDA of this build")
def _():
    folder = top / "driver"
    folder.mkdir()
    (folder / "driver.c").write_text(DRIVER)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / name, folder / "driver.c"], check=True)

    def found(cuda, driver):
        return doctor(LD_LIBRARY_PATH=f"{folder}", FAKE_CUDA=str(cuda), FAKE_DRIVER=driver)[1]["gpu"]

    old = found(11080, "520.61.05")
    if "this build has no CUDA" in old["found"]:
        return
    has(old["found"], "driver 520.61.05 for CUDA 11.8; this build has CUDA 1", "and needs driver 5", "or newer")
    equal(old["verdict"], "degraded")
    has(old["remedy"], "Install NVIDIA's driver 5")
    expect(found(99000, "999.1")["verdict"] in ("fine", "note"))


@case("without a store that is a note")
def _():
    equal(doctor()[1]["store"]["verdict"], "note")


@case("a place that cannot be written to is broken")
def _():
    (top / "file").write_text("")
    lacks("store", "broken", "--store", top / "file")
    lacks("store-write", "broken", "--store", "/proc")


@case("a store of another user is told of, with whose it is")
def _():
    if os.geteuid():
        return "this needs root"
    foreign = top / "foreign"
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    check = lacks("store-write", "broken", "--store", foreign, set_up=lambda: libc.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0))
    has(check["found"], "Permission denied", "belongs to user 12345", "this is user 0")
    has(check["remedy"], "NFS")
    return None


@case("memory is no storage")
def _():
    with open("/proc/mounts", encoding="utf-8") as mounts:
        if not any(line.split()[1:3] == ["/dev/shm", "tmpfs"] for line in mounts) or not os.access("/dev/shm", os.W_OK):
            return "/dev/shm is no tmpfs that can be written to"
    has(lacks("store-kind", "degraded", "--store", "/dev/shm")["found"], "tmpfs")
    return None


def on_lustre(layout=None):
    """What is said of a store there, with that default layout of its directory."""
    store = top / "on lustre"
    store.mkdir(exist_ok=True)
    lov = {} if layout is None else {"LUSTRE_LOV": layout.hex()}
    return doctor("--store", store, LD_PRELOAD=str(BIN / "lustre.so"), **lov)[1]["store-kind"]


def plain(stripes, size, magic=0x0BD10BD0, behind=b""):
    """struct lov_user_md of Lustre."""
    return struct.pack("=IIQQIHH", magic, 1, 0, 0, size, stripes, 0xFFFF) + behind


@case("on Lustre the layout of the store's directory is told, and how to set one")
def _():
    for layout, verdict, found in (
            (None, "note", "the default layout"), (plain(0, 0), "note", "the default layout"), (b"\xd0\x0b", "note", "the default layout"),
            (plain(1, 1 << 20), "note", "stripes of 1.0 MiB on 1 server"), (plain(4, 8 << 20), "fine", "stripes of 8.0 MiB on 4 servers"),
            (plain(8, 0, 0x0BD30BD0, b"flash".ljust(16, b"\0")), "fine", "default size on 8 servers"),
            (plain(0xFFFF, 4 << 20), "fine", "4.0 MiB on all servers"), (plain(0, 0, 0x0BD60BD0), "fine", "a layout by size")):
        check = on_lustre(layout)
        equal(check["verdict"], verdict, check)
        has(check["found"], "Lustre", found)
    has(on_lustre()["remedy"], f"lfs setstripe -E 64M -c 1 -S 8M -E -1 -c 4 -S 8M '{top}/on lustre'")


@case("threads in place of io_uring, by choice and by force")
def _():
    lacks("io_uring", "degraded", CKPT_DISK_ENGINE="threads")
    lacks("io_uring", "degraded", set_up=forbid("io_uring_setup"))


@case("what a container forbids is found")
def _():
    lacks("pidfd", "degraded", set_up=forbid("pidfd_open"))
    lacks("arenas", "broken", set_up=forbid("memfd_create"))
    lacks("hard-links", "degraded", set_up=forbid("linkat"))
    lacks("file-lock", "broken", set_up=forbid("flock"))
    lacks("o-direct", "degraded", set_up=forbid("openat", EINVAL, os.O_DIRECT))


@case("limits of locked memory and descriptors are found")
def _():
    def low_memlock():
        libc.prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))

    has(lacks("memlock", "degraded", set_up=low_memlock)["found"], "8.0 MiB")
    lacks("descriptors", "degraded", set_up=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))


@case("a memory limit beyond the machine is found")
def _():
    lacks("memory", "degraded", CKPT_MEMORY_LIMIT="1000T")


def inside(**env):
    """What a rank lacks that has these variables: (exit code, {name: check})."""
    held = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(("SLURM", "OMPI", "PMI", "TORCHELASTIC", "XDG_RUNTIME", "LOCAL_WORLD", "MPI_LOCAL"))}
    try:
        return doctor("--job", **env)
    finally:
        os.environ.update(held)


@case("inside a job: who starts the ranks is found, in the order in which they count")
def _():
    step = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    for env, verdict, found in (({}, "note", "no launcher"), ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, "note", "batch script"),
                                (step, "fine", "a step of Slurm: rank 0 of 2"), ({**step, **mpi}, "fine", "Open MPI: rank 3 of 4"),
                                ({**mpi, "CKPT_RANK": "1", "CKPT_WORLD": "2"}, "fine", "ckpt run: rank 1 of 2")):
        check = inside(**env)[1]["job-launcher"]
        equal(check["verdict"], verdict, check)
        has(check["found"], found)


@case("inside a job: its name, and what a missing or a passing one costs")
def _():
    for env, verdict, found in (({}, "degraded", "default"), ({"TORCHELASTIC_RUN_ID": "none"}, "degraded", "torch-none"),
                                ({"SLURM_JOB_ID": "7"}, "note", "slurm-7"), ({"SLURM_JOB_ID": "7", "CKPT_JOB": "gpt"}, "fine", "gpt")):
        check = inside(**env)[1]["job-name"]
        equal([check["verdict"], check["found"].split(":")[0]], [verdict, found], check)


@case("inside a job: the daemon that does not answer is told of, with what to do in this place; one that answers is fine")
def _():
    for env, remedy in (({}, "Start ckptd"), ({"SLURM_JOB_ID": "7"}, "prolog"), ({"KUBERNETES_SERVICE_HOST": "x"}, "Mount"),
                        ({"OMPI_COMM_WORLD_RANK": "0"}, "mpirun -x")):
        code, checks = inside(CKPT_SOCKET=str(top / "nobody"), **env)
        equal([code, checks["job-daemon"]["verdict"]], [1, "broken"])
        has(checks["job-daemon"]["found"], "nobody")
        has(checks["job-daemon"]["remedy"], remedy)
    daemon = Daemon(store=False).start()
    try:
        code, checks = inside(CKPT_SOCKET=str(daemon.socket), CKPT_JOB="gpt")
        equal([code, checks["job-daemon"]["verdict"], checks["job-store"]["verdict"]], [0, "fine", "note"], checks)
    finally:
        daemon.close()


@case("inside a job: ranks on several nodes whose ckptd is alone will never meet, and that is told before they start")
def _():
    daemon = Daemon().start()
    spread = ({"SLURM_STEP_NUM_NODES": "2"}, {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "2"},
              {"MPI_LOCALNRANKS": "1", "PMI_SIZE": "2"})
    near = ({}, {"SLURM_STEP_NUM_NODES": "1"}, {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "4"}, {"MPI_LOCALNRANKS": "2", "PMI_SIZE": "2"})
    try:
        for env, code, verdict in (*((env, 1, "broken") for env in spread), *((env, 0, "fine") for env in near)):
            found = inside(CKPT_SOCKET=str(daemon.socket), CKPT_JOB="gpt", **env)
            equal([found[0], found[1]["job-nodes"]["verdict"], found[1]["job-store"]["verdict"]], [code, verdict, "fine"], env)
        says = pages.command_line().split("drain a node on which ranks could not work:")[1].split("\n\n")[1].strip()
        (daemon.top / "user").mkdir()
        (daemon.top / "user" / "ckptd.sock").symlink_to(daemon.socket)
        for nodes, code in (("1", 0), ("2", 1)):
            env = {**os.environ, "dir": str(daemon.top), "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null", "SLURM_STEP_NUM_NODES": nodes}
            equal(subprocess.run(["sh", "-c", says], env=env).returncode, code, says)
    finally:
        daemon.close()


@case("inside a job: a node of the cluster that is missing is told of")
def _():
    with loopback_cluster("ab") as daemons:
        code, checks = inside(CKPT_SOCKET=str(daemons["a"].socket), CKPT_JOB="gpt", SLURM_STEP_NUM_NODES="2")
        equal([code, checks["job-nodes"]["verdict"], checks["job-nodes"]["found"]], [0, "fine", "2 of 2 nodes of the cluster are there"], checks)
        daemons["b"].kill()
        until(lambda: not all(n["up"] for n in daemons["a"].status()["cluster"]["nodes"]), "b is missed")
        code, checks = inside(CKPT_SOCKET=str(daemons["a"].socket), CKPT_JOB="gpt")
        equal([code, checks["job-nodes"]["verdict"]], [3, "degraded"], checks)


@case("inside a job: a PID namespace of its own on an old kernel is told of")
def _():
    own = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*own, "setarch", "--uname-2.6", "true"], capture_output=True).returncode:
        return "no namespaces, or no setarch, here"
    for under, verdict in ((own, "fine"), ([*own, "setarch", "--uname-2.6"], "degraded"), (["setarch", "--uname-2.6"], "fine")):
        done = subprocess.run([*under, BIN / "ckpt", "doctor", "--job", "--json", "--socket", top / "nobody"], capture_output=True, text=True)
        equal(next(c["verdict"] for c in json.loads(done.stdout)["checks"] if c["name"] == "job-processes"), verdict, under)
    return None


@case("the page names every check, and no other")
def _():
    page = pages.command_line().split("## ckpt doctor")[1].split("\n## ")[0]
    inner = set(re.findall(r"^\| `(job-[a-z]+)`", page, re.M))
    daemon = Daemon().start()
    try:
        equal(inner, set(inside(CKPT_SOCKET=str(daemon.socket))[1]))
    finally:
        daemon.close()
    named = set(re.findall(r"`([a-z_-]+)`", page.split("The checks are")[1].split("JSON:")[0]))
    equal(named, set(doctor("--store", top / "new")[1]))


sys.exit(cases.end())
