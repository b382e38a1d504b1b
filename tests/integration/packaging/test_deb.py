"""The Debian packages: what is in them, what they depend on, and that they are installed, removed and purged cleanly in a root of
their own. A CUDA toolkit on the building machine makes no package depend on a driver."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tap import BIN, DEADLINE, NIGHTLY, Cases, equal, expect, has

BUILD = BIN.parent
NAMES = ["ckpt", "ckptd", "libckpt-dev", "libckpt0", "libckptreader0"]
# Said by lintian and known: the library lies in /usr/lib, not in the folder of one architecture.
TOLERATED = {"pkg-config-unavailable-for-cross-compilation"}
DPKG_FORCE = ["--force-depends", "--force-script-chrootless", "--force-not-root", "--force-bad-path"]

top = pathlib.Path(tempfile.mkdtemp())
root = top / "root"
cases = Cases()


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240, **more)
    expect(done.returncode == 0, *command, ": exit", done.returncode, done.stdout)
    return done.stdout


def deb(name):
    return next(top.glob(f"{name}_*.deb"))


def field(name, which):
    return run("dpkg-deb", "-f", deb(name), which).strip()


def depends(name):
    return {entry.split()[0] for entry in field(name, "Depends").split(",") if entry.strip()}


def files(name):
    """Regular files and links that it brings."""
    lines = run("dpkg-deb", "-c", deb(name)).splitlines()
    return {line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")}


def dpkg(*args):
    as_root = [] if os.geteuid() == 0 else ["unshare", "-r"]
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return run(*as_root, "dpkg", f"--root={root}", "--log=/dev/null", *DPKG_FORCE, *args, env=env)


def installed(*command):
    """A program of the root, with what is there."""
    env = dict(os.environ, LD_LIBRARY_PATH=str(root / "usr/lib"), PATH=f"{root}/usr/bin:/usr/bin:/bin", CKPT_CONFIG="/dev/null")
    return run(*command, env=env)


def leftovers():
    """Files of the root that are not dpkg's own."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_relative_to(root / "var/lib/dpkg") and not p.is_dir())


def folders():
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir() and not str(p).startswith(str(root / "var")))


if not shutil.which("dpkg-shlibdeps") or not shutil.which("cpack"):
    print("no dpkg-dev or cpack here")
    sys.exit(77)
if os.geteuid() != 0 and subprocess.run(["unshare", "-r", "true"], stderr=subprocess.DEVNULL).returncode != 0:
    print("not root, and unshare -r is refused: dpkg cannot install into a root of its own")
    sys.exit(77)


@cases.case("cpack makes four packages")
def _():
    quick = [] if NIGHTLY else ["-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"]  # by day nobody fetches them
    run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", top, *quick)
    equal(sorted(p.name.split("_")[0] for p in top.glob("*.deb")), NAMES)
    shutil.rmtree(top / "_CPack_Packages")


@cases.case("they are of one version, the program's")
def _():
    equal({field(name, "Version") for name in NAMES}, {run(BIN / "ckptd", "--version").split()[1]})


@cases.case("dependencies are what the binaries need, and no driver")
def _():
    expect({"libc6", "liburing2", "libsqlite3-0"} <= depends("ckptd"), "ckptd:", depends("ckptd"))
    expect({"libc6", "libckpt0"} <= depends("ckpt"), "ckpt:", depends("ckpt"))
    expect("libc6" in depends("libckpt0"), "libckpt0:", depends("libckpt0"))
    equal(depends("libckpt-dev"), {"libckpt0", "libckptreader0"}, "libckpt-dev")
    expect({"libc6", "liburing2", "libzstd1"} <= depends("libckptreader0"), "libckptreader0:", depends("libckptreader0"))
    for name in NAMES:
        for other in depends(name):
            expect(not re.search("cuda|nvidia|nvml|libgl", other), name, "depends on", other)
    control = run("dpkg-deb", "-I", deb("libckpt0"), "shlibs", "symbols", "triggers")
    has(control, "libckpt 0 libckpt0 (>= ", "ckpt_begin@CKPT_0.1", "activate-noawait ldconfig")
    control = run("dpkg-deb", "-I", deb("libckptreader0"), "shlibs", "symbols", "triggers")
    has(control, "libckptreader 0 libckptreader0 (>= ", "ckpt_reader_open@CKPT_READER_0.1", "activate-noawait ldconfig")


@cases.case("each has what belongs to it")
def _():
    for name, some in (("libckpt0", {"/usr/lib/libckpt.so.0"}), ("libckptreader0", {"/usr/lib/libckptreader.so.0"}),
                       ("libckpt-dev", {"/usr/include/ckpt.h", "/usr/lib/libckpt.so", "/usr/lib/pkgconfig/ckpt.pc",
                                        "/usr/lib/cmake/ckpt/ckptConfig.cmake", "/usr/share/man/man3/libckpt.3.gz",
                                        "/usr/include/ckpt_reader.h", "/usr/lib/libckptreader.so", "/usr/lib/pkgconfig/ckptreader.pc",
                                        "/usr/share/man/man3/libckptreader.3.gz", "/usr/share/doc/libckpt-dev/examples/train.c",
                                        "/usr/share/doc/libckpt-dev/examples/read.c"}),
                       ("ckptd", {"/usr/bin/ckptd", "/etc/ckpt/ckpt.conf", "/usr/share/man/man8/ckptd.8.gz",
                                  "/usr/share/man/man5/ckpt.conf.5.gz", "/usr/lib/systemd/user/ckptd.service",
                                  "/usr/lib/systemd/user/ckptd.socket", "/usr/lib/systemd/system/ckptd@.service",
                                  "/usr/lib/systemd/system/ckptd@.socket", "/usr/lib/systemd/system/ckptd-system.service",
                                  "/usr/lib/systemd/system/ckptd-system.socket"}),
                       ("ckpt", {"/usr/bin/ckpt", "/usr/share/man/man1/ckpt-run.1.gz",
                                 "/usr/share/bash-completion/completions/ckpt", "/usr/share/zsh/vendor-completions/_ckpt",
                                 "/usr/share/fish/vendor_completions.d/ckpt.fish"})):
        expect(some <= files(name), name, "lacks", some - files(name))
    every = [f for name in NAMES for f in files(name)]
    equal(len(every), len(set(every)), "a file is in two packages")


@cases.case("lintian finds nothing new")
def _():
    if not shutil.which("lintian"):
        return "no lintian here"
    out = subprocess.run(["lintian", "--allow-root", *map(str, top.glob("*.deb"))], capture_output=True, text=True, timeout=240).stdout
    said = [line for line in out.splitlines() if line[:2] in ("E:", "W:") and line.split()[2] not in TOLERATED]
    expect(not said, *said)
    return None


@cases.case("they are installed")
def _():
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    dpkg("-i", *top.glob("*.deb"))
    for name in NAMES:
        has(dpkg("-s", name), "Status: install ok installed")


@cases.case("the installed programs run")
def _():
    version = field("ckpt", "Version")
    has(installed(root / "usr/bin/ckpt", "version"), version)
    equal(installed(root / "usr/bin/ckptd", "--version"), f"ckptd {version}\n")
    expect("RUNPATH" not in run("readelf", "-d", root / "usr/bin/ckpt"), "a path of libraries is left in ckpt")


@cases.case("systemd takes the installed units without a word")
def _():
    if not shutil.which("systemd-analyze"):
        return "no systemd-analyze here"
    # The man pages are not in the manual path of this machine, the targets that units are ordered by not in the root.
    units = [*(root / "usr/lib/systemd/system").iterdir(), *(root / "usr/lib/systemd/user").iterdir()]
    equal(len(units), 6, "units")
    (top / "units").mkdir()
    for unit in units:
        text = unit.read_text()
        has(text, "ExecStart=ckptd\n" if unit.suffix == ".service" else "ListenSequentialPacket=")
        (top / "units" / unit.name).write_text(text.replace("ExecStart=ckptd", f"ExecStart={root}/usr/bin/ckptd"))
    for unit in sorted((top / "units").iterdir()):
        equal(run("systemd-analyze", "verify", "--man=no", unit), "", unit.name)
    (top / "units/wrong@.service").write_text("[Service]\nExecStart=/nowhere\nWatchDogSec=1\n")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", top / "units/wrong@.service"], capture_output=True, text=True,
                          timeout=DEADLINE)
    has(done.stderr, "'WatchDogSec'")
    return None


@cases.case("the system's units are confined, and GPUs stay usable")
def _():
    if not shutil.which("systemd-analyze"):
        return "no systemd-analyze here"
    for name in ("ckptd@.service", "ckptd-system.service"):
        path = root / "usr/lib/systemd/system" / name
        out = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", path], capture_output=True, text=True,
                             timeout=DEADLINE)
        if "ffline" in out.stderr:
            return "this systemd-analyze looks at running services only"
        expect(out.returncode == 0, out.stdout, out.stderr)
        unit = path.read_text()
        has(unit, "DeviceAllow=char-nvidia rw", "LimitMEMLOCK=infinity", "FileDescriptorStoreMax=")
        expect("PrivateDevices" not in unit, "PrivateDevices takes the GPUs away")
    return None


@cases.case("a program is built with the installed header and library")
def _():
    env = dict(os.environ, PKG_CONFIG_PATH=str(root / "usr/lib/pkgconfig"), LD_LIBRARY_PATH=str(root / "usr/lib"), CKPT_TIMEOUT_MS="50",
               CKPT_SOCKET=str(top / "nobody"))
    flags = run("pkg-config", "--cflags", "--libs", "ckpt", env=env).split()
    run("cc", root / "usr/share/doc/libckpt-dev/examples/train.c", *flags, "-o", top / "train", env=env)
    done = subprocess.run([top / "train"], env=env, capture_output=True, text=True, timeout=DEADLINE)
    has(done.stdout, f"libckpt {field('libckpt0', 'Version')}")


@cases.case("the configuration names every setting, and its values are the defaults")
def _():
    conf = (root / "etc/ckpt/ckpt.conf").read_text()
    listed = installed(root / "usr/bin/ckptd", "--help")
    expect(all(line.startswith("#") or line.startswith("[") or not line for line in conf.splitlines()), "something is set")
    equal(len(re.findall(r"^#[a-z-]+ =", conf, re.M)), len(re.findall(r"^  --", listed, re.M)) - 2, "settings")
    given = re.sub(r"^#([a-z-]+ = .)", r"\1", conf, flags=re.M)
    (top / "given.conf").write_text(given)
    installed(root / "usr/bin/ckpt", "config", "--check", top / "given.conf")


@cases.case("a changed configuration survives an upgrade and a removal")
def _():
    conf = root / "etc/ckpt/ckpt.conf"
    conf.write_text("[node]\nwrite-bandwidth = 1G\n")
    dpkg("-i", "--force-confdef", "--force-confold", deb("ckptd"))
    has(conf.read_text(), "write-bandwidth = 1G")
    dpkg("-r", *NAMES)
    equal(leftovers(), ["etc/ckpt/ckpt.conf"])


@cases.case("a purge leaves nothing")
def _():
    dpkg("-P", "ckptd")
    equal(leftovers() + folders(), [])
    expect("Package:" not in (root / "var/lib/dpkg/status").read_text(), "dpkg still knows of a package")


shutil.rmtree(top, ignore_errors=True)
sys.exit(cases.end())
