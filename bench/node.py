"""A node to measure: a ckptd of its own and the ranks of one job, and fio beside them. For the benchmarks of this folder."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

DEADLINE = 300  # seconds, of one answer of a rank
TARGET = {"1": "memory", "2": "peer", "3": "storage"}


class Failed(Exception):
    pass


def wait(condition, what, pause=0.01):
    """What the condition gives, once it gives something; it is asked again after each pause, in seconds."""
    limit = time.monotonic() + DEADLINE
    while not (found := condition()):
        if time.monotonic() > limit:
            raise Failed(f"{what} did not come")
        time.sleep(pause)
    return found


def machine(folder):
    """One line that names what was measured on."""
    cpu = next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    memory = int(next(line for line in open("/proc/meminfo")).split()[1]) >> 20
    source, kind = subprocess.run(["findmnt", "-no", "SOURCE,FSTYPE", "-T", folder], capture_output=True, text=True,
                                  check=True).stdout.split()[:2]
    return (f"{cpu}, {os.cpu_count()} CPUs, {memory} GiB, Linux {os.uname().release}, {kind} on {source}, "
            f"{pool_pages()} huge pages in the pool")


def median(values, scale=1.0, digits=2):
    """median (min .. max)"""
    return (f"{statistics.median(values) * scale:.{digits}f} "
            f"({min(values) * scale:.{digits}f} .. {max(values) * scale:.{digits}f})")


def options(check=True, **numbers):
    """The parser that the scripts share: where, with what, whether a missed floor is a failure, and numbers with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="/tmp")
    parser.add_argument("--programs", default="build/release/bin")
    if check:
        parser.add_argument("--check", action="store_true")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


def check_memory(mib):
    """Fails when less is available: nobody else's work is to be killed for a measurement."""
    with open("/proc/meminfo") as file:
        have = int(next(line for line in file if line.startswith("MemAvailable")).split()[1]) >> 10
    if have < mib:
        raise Failed(f"{mib} MiB of memory are needed, {have} are available")


def ahead_of_others():
    """Makes a negative nice value count against the whole machine: where the kernel groups processes by session (autogroup), it
    counts only among those of ours."""
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write(str(os.nice(0)))
    except OSError:
        pass  # no such grouping here, or no right to it


class Rank:
    """A process that answers lines with lines; one that does not answer in time is killed and is a failure."""

    def __init__(self, program, arguments, environment):
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        timer = threading.Timer(DEADLINE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            raise Failed(f"a rank ended with status {self.process.wait()}")
        return line.split()

    def fields(self):
        words = self.answer()
        return dict(zip(words[0::2], (int(w) for w in words[1::2])))

    def end(self):
        if self.process.poll() is not None:
            return
        try:
            self.tell("quit")
            self.process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Node:
    """with Node(programs, folder, world, rank_arguments) as node: ranks that have joined."""

    def __init__(self, programs, folder, world=1, arguments=(), verify=False, slots=3, store=None, huge_pages="auto",
                 full_every=1, options=(), program="bench_rank"):
        self.programs, self.world, self.arguments = programs, world, list(arguments)
        self.home = tempfile.mkdtemp(prefix="ckpt-bench-", dir=folder)
        self.store = store or os.path.join(self.home, "store")
        self.options = ["--huge-pages", huge_pages, "--full-every", str(full_every)] + ([] if verify else ["--no-verify"])
        self.options += options
        self.slots, self.program = slots, program
        self.ranks, self.daemon = [], None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        socket = os.path.join(self.home, "ckptd.sock")
        self.log = open(os.path.join(self.home, "ckptd.log"), "a+")
        self.daemon = subprocess.Popen([os.path.join(self.programs, "ckptd"), "--store", self.store, "--socket", socket,
                                        "--node", "bench", *self.options], stderr=self.log)
        for rank in range(self.world):
            environment = {"CKPT_SOCKET": socket, "CKPT_JOB": "bench", "CKPT_RANK": str(rank), "CKPT_SLOTS": str(self.slots),
                           "CKPT_WORLD": str(self.world), "CKPT_LOCAL_WORLD": str(self.world)}
            self.ranks.append(Rank(os.path.join(self.programs, self.program), self.arguments, environment))
        self.ready = [rank.answer() for rank in self.ranks]
        self.bytes = sum(int(words[1]) for words in self.ready)
        self.settle()

    def pages(self):
        """Bytes of the pages of each arena."""
        out = subprocess.run([os.path.join(self.programs, "ckpt"), "status", "--json", "--socket", os.path.join(self.home, "ckptd.sock")],
                             capture_output=True, text=True, check=True).stdout
        return [rank["page_bytes"] for job in json.loads(out)["jobs"] for rank in job["ranks"]]

    def settle(self):
        """Until the daemon has nothing to do: arenas are faulted in and registered in the background."""
        quiet, last = 0, -1
        for _ in range(600):
            with open(f"/proc/{self.daemon.pid}/stat") as f:
                now = sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])
            quiet = quiet + 1 if now == last else 0
            if quiet >= 5:
                return
            last = now
            time.sleep(0.1)
        raise Failed("ckptd does not come to rest")

    def all(self, line):
        """The answers of all ranks, as words."""
        for rank in self.ranks:
            rank.tell(line)
        return [rank.answer() for rank in self.ranks]

    def save(self, step, target, pause_ms=0):
        """Times of the job in seconds since the first begin: of the last rank each. Between begin and fence of each rank pass
        pause_ms; "blocked" is what begin and fence together kept the calling thread, at the most."""
        for rank in self.ranks:
            rank.tell(f"save {step} {target} {pause_ms}")
        times = [rank.fields() for rank in self.ranks]
        start = min(t["begin"] for t in times)
        blocked = max(t["begun"] - t["begin"] + t["fenced"] - t["fence"] for t in times) / 1e9
        return {"blocked": blocked, **{key: (max(t[key] for t in times) - start) / 1e9 for key in times[0]}}

    def restore(self, step):
        answers = self.all(f"restore {step}")
        fields = [dict(zip(a[1::2], a[2::2])) for a in answers]
        if any(int(f["step"]) != step for f in fields):
            raise Failed(f"step {step} was not what came back: {fields}")
        early = sum(int(f.get("early", 0)) for f in fields) / sum(int(f["bytes"]) for f in fields)
        return {"source": TARGET[fields[0]["source"]], "early": early, **{key: max(int(f[key]) for f in fields) / 1e9
                                                          for key in ("fetch_ns", "load_ns", "took_ns")}}

    def forget(self, step):
        """Deletes a checkpoint and waits until the disk has done with it: freeing blocks costs the next run."""
        for name in os.listdir(os.path.join(self.store, "bench")):
            if name.startswith(f"step-{step:012d}."):
                shutil.rmtree(os.path.join(self.store, "bench", name))
        rest(self.store)

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.ranks, self.daemon = [], None
        shutil.rmtree(self.home, ignore_errors=True)


def sectors():
    """Discarded, written and read sectors of all disks, and requests in flight."""
    total = [0, 0]
    for line in open("/proc/diskstats"):
        f = line.split()
        if f[2].startswith(("loop", "ram", "dm-")):
            continue
        total[0] += int(f[9]) + (int(f[16]) if len(f) > 16 else 0)
        total[1] += int(f[11])
    return total


def rest(folder):
    """Commits what is dirty, then waits (bounded) until the disk is quiet: discards run on after an unlink."""
    subprocess.run(["sync", "-f", folder], check=True)
    quiet, last = 0, None
    for _ in range(40):
        now = sectors()
        quiet = quiet + 1 if last and now[0] - last[0] < 2048 and not now[1] else 0
        if quiet >= 3:
            return
        last = now
        time.sleep(0.1)


def fio(folder, files, sizes, *options, huge=False):
    """Bytes per second of one job over these files (relative to folder), 8 MiB at depth 8, fixed buffers, direct. huge: its
    buffers lie in huge pages, which makes the requests to the disk larger (fio itself has no option for that)."""
    total = sum(sizes)
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if huge else None
    out = subprocess.run(["fio", "--name=bench", "--direct=1", "--ioengine=io_uring", "--fixedbufs=1", "--bs=8M", "--iodepth=8",
                          f"--directory={folder}", "--filename=" + ":".join(files), f"--size={total}", "--mem=malloc",
                          "--scramble_buffers=0", "--output-format=json", *options], capture_output=True, text=True,
                         check=True, env=environment).stdout
    job = json.loads(out[out.index("{"):])["jobs"][0]
    side = job["write"] if job["write"]["io_bytes"] else job["read"]
    if side["io_bytes"] != total // len(files) // (8 << 20) * (8 << 20) * len(files) and side["io_bytes"] != total:
        raise Failed(f"fio moved {side['io_bytes']} of {total} bytes")
    return side["bw_bytes"]


def fio_write(folder, sizes, fallocate="native", huge=False):
    """New files, fsynced. fio allocates their blocks before its clock starts (fallocate=native, its default), or not (none)."""
    files = [f"fio.{i}" for i in range(len(sizes))]
    try:
        return fio(folder, files, sizes, "--rw=write", "--end_fsync=1", f"--fallocate={fallocate}",
                   "--file_service_type=roundrobin", huge=huge)
    finally:
        for name in files:
            if os.path.exists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))
        rest(folder)


def pool_pages():
    """Free huge pages that are reserved for whoever asks (vm.nr_hugepages)."""
    return next((int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("HugePages_Free")), 0)
