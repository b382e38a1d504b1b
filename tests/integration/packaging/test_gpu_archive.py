"""The archive of scripts/offline-deps --binaries runs where nothing of this machine is but the C library and the compiler's: a job of two ranks
saves and ends there, the programs for a GPU start, and scripts/gpu-check takes them. The Python package is used by a Python that has nothing else.
Nightly also in another release of Debian, by its own Python."""
# timeout: 1500

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from tap import NIGHTLY, SHOWN, Cases, Failure, equal, expect, has

ROOT = pathlib.Path(__file__).resolve().parents[3]
ARCHIVE = ROOT / "offline" / "ckpt-gpu-check.tar.gz"
LIMIT = 64 << 20
LOADER = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
FOLDERS = [pathlib.Path(name) for name in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")]
SYSTEM = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libgcc_s.so.1", "libstdc++.so.6")
INSIDE = 'root=$1; shift; mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" && PATH=$PATH:/usr/sbin:/sbin exec chroot "$root" "$@"'
BIN = "/ckpt-gpu-check/build/release/bin"
OTHER_RELEASE = "trixie"  # from the mirror that mmdebstrap takes by itself
# Saves, and tells which libraries it has done that with.
USE = """
import ckpt
with ckpt.Session() as session:
    session.register("state", bytearray(b"s" * 70000))
    session.join()
    save = session.begin(1, ckpt.STORAGE)
    save.fence()
    save.wait(ckpt.DURABLE)
print({line.split()[-1] for line in open("/proc/self/maps") if "/libckpt" in line})
"""
NO_GPU, SKIPPED = 3, 77


def skip(why):
    print(why)
    sys.exit(SKIPPED)


def inside(root, *command):
    done = subprocess.run(["unshare", "--mount", "sh", "-c", INSIDE, "sh", root, *map(str, command)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/tmp", "CKPT_DEVICE": "host"})
    return done.returncode, done.stdout[-SHOWN:]


def unpack(root):
    for folder in ("proc", "dev", "tmp", "store"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", ARCHIVE, "-C", root], check=True)
    return root


def bare():
    """What every system has, and nothing else."""
    root = pathlib.Path(tempfile.mkdtemp(dir=top))
    for at in [LOADER, *(next((f / name for f in FOLDERS if (f / name).exists()), None) for name in SYSTEM)]:
        if at:
            to = root / "lib64" / at.name if at == LOADER else root / "lib/x86_64-linux-gnu" / at.name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(at.resolve(), to)
    return unpack(root)


def runs(root):
    (root / "text").write_text("".join(page.read_text() for page in sorted((ROOT / "docs").glob("*/*.md"))))
    status, said = inside(root, f"{BIN}/ckpt", "run", "-n", 2, "--store", "/store", "--", f"{BIN}/ckpt-train", "--steps", 20, "--data", "/text", "--save-memory-every", 5,
                          "--save-storage-every", 10)
    expect(status == 0, status, said)
    has(said, "final step=20 ")
    status, said = inside(root, f"{BIN}/ckpt", "list", "--repo", "/store")
    equal(status, 0, said)
    has(said, "verified")


def start(root):
    programs = sorted((root / BIN[1:]).iterdir())
    expect(len(programs) >= 9, programs)
    for program in programs:
        at = f"{BIN}/{program.name}"
        if "gpu" in program.name:
            status, said = inside(root, at)
            equal(status, SKIPPED, f"{at}: {said}")
            has(said, "no GPU: not measured (")
        else:
            status, said = inside(root, at, "--version" if program.name != "ckpt-train" else "--help")
            equal(status, 0, f"{at}: {said}")


def package(at, python, run):
    """Without what else is installed for that Python: site-packages are left out. run: calls a command where the archive is."""
    status, said = run("/usr/bin/env", f"PYTHONPATH={at}/build/release/python", f"{at}/build/release/bin/ckpt", "run", "-n", 1, "--store", f"{at}/store", "--",
                       python, "-s", "-S", "-c", USE)
    equal(status, 0, said)
    has(said, *(f"{at}/build/release/lib/{name}.so.0" for name in ("libckpt", "libckptreader")))


def here(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout[-SHOWN:]


def checked(folder, status, *words):
    done = subprocess.run([sys.executable, folder / "scripts" / "gpu-check", "--no-build"], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/")
    equal(done.returncode, status, done.stdout + done.stderr)
    has(done.stdout + done.stderr, *words)


if platform.machine() != "x86_64":
    skip("the C library's files are looked for as x86-64 has them")
if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
    skip("there may be no other root directory here (unshare --mount)")
packed = subprocess.run([ROOT / "scripts" / "offline-deps", "--binaries"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
if packed.returncode == 3:
    skip(packed.stderr.strip())
without_package = re.search("^offline-deps: (.* cannot be fetched.*|.*no Python package.*)", packed.stdout, re.M)
cases = Cases()
case = cases.case
top = pathlib.Path(tempfile.mkdtemp())


@case("it is packed, and less than 64 MiB")
def _():
    equal(packed.returncode, 0, packed.stdout + packed.stderr)
    expect(1 << 20 < ARCHIVE.stat().st_size < LIMIT, ARCHIVE.stat().st_size)


@case("all programs start where only the C library and the compiler's are")
def _():
    start(bare())


@case("a job saves and ends there")
def _():
    runs(bare())


@case("without a library that was packed they do not, so it is looked at in the right place")
def _():
    root = bare()
    (root / BIN[1:] / "../lib/libxxhash.so.0").unlink()
    status, said = inside(root, f"{BIN}/ckpt", "--version")
    expect(status not in (0, NO_GPU), status, said)
    has(said, "libxxhash.so.0")


@case("a Python that has nothing else saves with the package of the archive")
def _():
    if without_package:
        return without_package[1]
    package(bare() / "ckpt-gpu-check", sys.executable, here)


@case("scripts/gpu-check of the archive says that there is no GPU")
def _():
    if pathlib.Path("/dev/nvidiactl").exists():
        return
    checked(bare() / "ckpt-gpu-check", NO_GPU, "no GPU: not measured (")


if NIGHTLY and shutil.which("mmdebstrap"):
    @case(f"the same in Debian's {OTHER_RELEASE}, by its own Python")
    def _():
        root = top / OTHER_RELEASE
        made = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3", OTHER_RELEASE, root], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if made.returncode:
            raise Failure(f"{OTHER_RELEASE} cannot be fetched: {made.stderr[-SHOWN:]}")
        unpack(root)
        start(root)
        runs(root)
        status, said = inside(root, "/usr/bin/python3", "/ckpt-gpu-check/scripts/gpu-check", "--no-build")
        equal(status, NO_GPU, said)
        has(said, "no GPU: not measured (")
        if not without_package:
            package("/ckpt-gpu-check", "/usr/bin/python3", lambda *command: inside(root, *command))


sys.exit(cases.end())
