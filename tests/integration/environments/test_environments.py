"""The same small job, a rank killed on the way, in the environments that people really have: private umask, names with blanks, no
privileges, little memlock, io_uring forbidden, process namespaces, little memory, a store in memory. Each must end with the same bits
and an intact store."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import stat
import subprocess
import sys
import tempfile

from launcher import CKPT, ENVIRONMENT, TRAIN, final, top
from tap import DEADLINE, Cases, equal, expect, has

STEPS = 200
cases = Cases()
rows = []
reference = None


def case(name):
    """Such a case runs beside the others, once it is known what a job ends with."""
    return lambda test: rows.append((name, test))


def job(store, prefix=(), ranks=(), more=(), **env):
    """Two ranks of ckpt-train, one of them killed; `prefix` comes before ckpt run, `ranks` before each rank. What it said."""
    done = subprocess.run([*prefix, CKPT, "run", "-n", "2", "--json", "--store", store, "--inject", "kill:rank=1@step=20", *more, "--",
                           *ranks, TRAIN, "--seq", "16", "--steps", str(STEPS), "--save-memory-every", "5", "--save-storage-every", "50"],
                          env={**ENVIRONMENT, "TMPDIR": str(top), **env}, cwd=top, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=DEADLINE)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}")
    document = json.loads(done.stdout)
    equal([document["restarts"], document["fired"], document["recovered"]], [1, 1, 1])
    return done.stderr


def sound(store, prefix=(), **env):
    """The end of the job is there, and every checkpoint of the store is whole."""
    done = subprocess.run([*prefix, CKPT, "verify", "--repo", store, "--all", "--json"], capture_output=True, text=True,
                          env=dict(ENVIRONMENT, **env), timeout=DEADLINE)
    equal(done.returncode, 0, done.stderr)
    steps = [c["step"] for c in json.loads(done.stdout)["checkpoints"]]
    equal(steps[-1], STEPS)


def same(said):
    equal(final(said), reference)


def new_store():
    return pathlib.Path(tempfile.mkdtemp(dir=top)) / "store"


@cases.case("as everywhere else")
def _():
    global reference
    store = new_store()
    reference = final(job(store))
    sound(store)


@case("umask 077: nobody else can look into anything")
def _():
    store = new_store()
    same(job(store, prefix=("sh", "-c", 'umask 077; exec "$@"', "sh")))
    sound(store)
    for path in (store, *store.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        equal(mode & 0o077, 0, f"{path} has mode {mode:o}")


@case("blanks and letters of other languages in every path")
def _():
    folder = top / "ein Ordner für Prüfpunkte"
    folder.mkdir()
    same(job(folder / "my store", TMPDIR=str(folder)))
    sound(folder / "my store")
    to = folder / "restored here"
    done = subprocess.run([CKPT, "restore", "latest", "--repo", folder / "my store", "--to", to], env=ENVIRONMENT, capture_output=True,
                          text=True)
    equal(done.returncode, 0, done.stderr)
    expect(list(to.glob("*.safetensors")), "nothing was restored")


def unprivileged():
    """What takes all capabilities away from root; nobody else needs it."""
    return ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


@case("no capabilities and 8 MiB of memlock")
def _():
    if not shutil.which("setpriv"):
        return "setpriv is not installed"
    store = new_store()
    same(job(store, prefix=(*unprivileged(), "sh", "-c", 'ulimit -l 8192; exec "$@"', "sh"), CKPT_LOG="debug"))
    sound(store)
    return None


@case("no memlock at all")
def _():
    if not shutil.which("setpriv"):
        return "setpriv is not installed"
    store = new_store()
    same(job(store, prefix=(*unprivileged(), "sh", "-c", 'ulimit -l 0; exec "$@"', "sh")))
    sound(store)
    return None


@case("threads in place of io_uring")
def _():
    store = new_store()
    same(job(store, CKPT_DISK_ENGINE="threads"))
    sound(store, CKPT_DISK_ENGINE="threads")


OWN_PROCESSES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def no_namespaces():
    """Why none can be made; None where they can."""
    tried = subprocess.run([*OWN_PROCESSES, "true"], capture_output=True, text=True)
    return f"namespaces cannot be made here: {tried.stderr.strip()}" if tried.returncode else None


@case("each rank in a process namespace of its own")
def _():
    if why := no_namespaces():
        return why
    store = new_store()
    same(job(store, ranks=OWN_PROCESSES))
    sound(store)
    return None


@case("everything in a process namespace, as in a container")
def _():
    if why := no_namespaces():
        return why
    store = new_store()
    same(job(store, prefix=OWN_PROCESSES))
    sound(store, prefix=OWN_PROCESSES)
    return None


@case("a store in memory (tmpfs)")
def _():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        store = pathlib.Path(folder) / "store"
        same(job(store))
        sound(store)


@contextlib.contextmanager
def memory_group(megabytes):
    """A control group with so much memory, of either version; None where none can be made."""
    for parent, file in ((pathlib.Path("/sys/fs/cgroup"), "memory.max"), (pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")):
        group = parent / f"ckpt-test-{os.getpid()}-{megabytes}"  # another one for each case
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / file).exists():  # made by the kernel: else this is a folder like any other
                (group / file).write_text(str(megabytes << 20))
                yield group
                return
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
    yield None


@case("in a control group the default of the memory limit is a share of what it has")
def _():
    with memory_group(512) as group:
        if not group:
            return "no control group with a memory limit can be made here"
        prefix = ("sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh")
        done = subprocess.run([*prefix, CKPT, "config", "--json"], capture_output=True, text=True, env=ENVIRONMENT)
        equal(done.returncode, 0, done.stderr)
        values = {(s["section"], s["key"]): s["value"] for s in json.loads(done.stdout)["settings"]}
        equal(values["node", "memory-limit"], f"{(512 << 20) // 10 * 8 >> 20}M")
        store = new_store()
        same(job(store, prefix=prefix))
        sound(store)
    return None


@case("a rank that the kernel kills for lack of memory is named so")
def _():
    greedy = """import os, sys
if os.environ["CKPT_RANK"] == "1":
    print("rank 1 has", len(bytearray(1 << 30)))
while "oom_kill 0" in open(sys.argv[1]).read():  # and rank 0 ends while the other one is taken down
    pass"""
    with memory_group(256) as group:
        if not group:
            return "no control group with a memory limit can be made here"
        kills = next(file for file in (group / "memory.oom_control", group / "memory.events") if file.exists())
        done = subprocess.run(["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh", CKPT, "run", "-n", "2", "--max-restarts", "0",
                               "--store", new_store(), "--", sys.executable, "-c", greedy, kills], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    has(done.stderr, "rank 1: the kernel has killed a process in this control group for lack of memory, its limit is 256.0 MiB",
        "rank 1 was killed by signal 9 (Killed)")
    expect("rank 0: the kernel" not in done.stderr, done.stderr)
    return None


@case("a read-only store is an error that says so")
def _():
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "setpriv is not installed"
    folder = pathlib.Path(tempfile.mkdtemp(dir=top))
    folder.chmod(0o555)
    done = subprocess.run([*unprivileged(), CKPT, "run", "--store", folder / "store", "--", "true"], capture_output=True, text=True,
                          env=dict(ENVIRONMENT, TMPDIR=str(top)), timeout=DEADLINE)
    expect(done.returncode not in (0, 2), f"exit {done.returncode}: {done.stderr}")
    has(done.stderr, str(folder / "store"), "Permission denied")
    return None


@case("a limit of processes that leaves no thread for io_uring is named")
def _():
    if os.geteuid() or not shutil.which("setpriv"):
        return "it needs root, which becomes a user without other processes, and setpriv"
    folder = pathlib.Path(tempfile.mkdtemp(dir=top))
    folder.chmod(0o777)
    model = folder / "model.safetensors"
    header = b'{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    model.write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    model.chmod(0o644)
    command = ("import", ".", "--format", "hf", "--repo", "store")  # that user may not look into the folders above
    here = json.loads(subprocess.run([CKPT, "doctor", "--json"], capture_output=True, env=ENVIRONMENT, timeout=DEADLINE).stdout)
    if any(check["name"] == "io_uring" and check["verdict"] != "fine" for check in here["checks"]):
        return "io_uring is not allowed here"
    user = ("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups")
    done = subprocess.run([*user, CKPT, *command], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE, cwd=folder,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)))
    if done.returncode in (126, 127):
        return f"another user cannot start {CKPT}"
    expect(done.returncode and "cancel" not in done.stderr, done)
    has(done.stderr, "cannot start a thread for io_uring: raise the limit of processes (ulimit -u")
    return None


OWNER = 12345  # another user; nobody has to know him
SQUASHED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")  # root as an NFS server with root_squash sees him


@case("a store that belongs to another user: said, with what to do")
def _():
    if os.geteuid() or not shutil.which("setpriv"):
        return "this needs root and setpriv"
    store = new_store()
    store.mkdir()
    os.chown(store, OWNER, OWNER)
    environment = dict(ENVIRONMENT, TMPDIR=str(top))
    sentence = (f"belongs to user {OWNER}, with mode 755, and this is user 0: work as user {OWNER}", "root_squash")
    done = subprocess.run([*SQUASHED, CKPT, "run", "--store", store, "--", "true"], capture_output=True, text=True, env=environment,
                          timeout=DEADLINE)
    expect(done.returncode not in (0, 2), f"exit {done.returncode}: {done.stderr}")
    has(done.stderr, *sentence)
    done = subprocess.run([*SQUASHED, CKPT, "run", "--store", store / "below", "--", "true"], capture_output=True, text=True,
                          env=environment, timeout=DEADLINE)
    expect(done.returncode not in (0, 2), f"exit {done.returncode}: {done.stderr}")
    has(done.stderr, "cannot make the repository", *sentence)
    os.chown(store, 0, 0)
    job(store)
    for path in (store, *store.rglob("*")):
        os.chown(path, OWNER, OWNER)
    for command in (["pin", "latest"], ["tag", "latest", "best"], ["forget", "--keep-last", "1"]):
        done = subprocess.run([*SQUASHED, CKPT, *command, "--repo", store], capture_output=True, text=True, env=environment)
        equal(done.returncode, 1, done.stderr)
        has(done.stderr, *sentence)
    store.chmod(0o700)
    done = subprocess.run([*SQUASHED, CKPT, "list", "--repo", store], capture_output=True, text=True, env=environment)
    equal(done.returncode, 1, done.stderr)
    has(done.stderr, "cannot open the directory", f"belongs to user {OWNER}, with mode 700", "root_squash")
    return None


cases.run_beside(rows)


@cases.case("no private directory is left behind")
def _():
    equal(list(top.glob("ckpt-run-*")), [])


sys.exit(cases.end())
