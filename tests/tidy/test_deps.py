"""scripts/deps on machines of every kind: each is a folder of commands that is the whole PATH."""

import pathlib
import shutil
import subprocess
import tempfile

import tidy

TOOLS = ("sh", "env", "mktemp", "cat", "rm", "true", "sed", "sort")
COMPLETE = {name: "exit 0" for name in ("cc", "make", "nm", "cmake", "ninja", "pkg-config", "git", "python3", "clang-format", "groff", "openssl", "clang",
                                             "strace", "spin", "sphinx-build", "etcd", "etcdctl", "munged", "slurmctld", "slurmd", "srun", "mpirun",
                                             "ssh", "ssh-keygen", "sshd")}
ROOT, USER = {"id": "echo 0"}, {"id": "echo 1000"}
# Knows no package before its first update, as in a container.
APT = {"apt-get": 'echo "apt $*" >>"$LOG"\ncase $* in *update*) : >"$LOG.updated" ;; *) [ -e "$LOG.updated" ] ;; esac'}
APT_FAILS = {"apt-get": "echo E: no network; exit 100"}
SUDO = {"sudo": 'echo "sudo $*" >>"$LOG"\nexec "$@"'}
SUDO_REFUSES = {"sudo": 'echo "sudo $*" >>"$LOG"\necho "sudo: a password is required" >&2\nexit 1'}


def run(commands, nightly):
    """What scripts/deps did on a machine with these commands: its status, what it said, what was called."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bin"
        path.mkdir()
        for name in TOOLS:
            (path / name).symlink_to(shutil.which(name))
        for name, text in commands.items():
            (path / name).write_text(f"#!/bin/sh\n{text}\n")
            (path / name).chmod(0o755)
        log = pathlib.Path(folder) / "log"
        log.touch()
        done = subprocess.run([shutil.which("bash"), tidy.ROOT / "scripts" / "deps"], stdin=subprocess.DEVNULL, text=True,
                              env={"PATH": str(path), "LOG": str(log), "TMPDIR": folder, **({"CKPT_NIGHTLY": "1"} if nightly else {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout, log.read_text()


def case(name, commands, status, said, called, nightly=False):
    """said: words of the output, None when it must be silent. called: beginnings of the lines of the log, in order."""
    returned, output, log = run(commands, nightly)
    problems = [] if returned == status else [f"exit status {returned}"]
    problems += [f"not said: {word}" for word in said or () if word not in output]
    if said is None and output:
        problems.append("not silent")
    lines = log.splitlines()
    if len(lines) != len(called) or not all(line.startswith(start) for line, start in zip(lines, called)):
        problems.append(f"called: {lines}")
    return name, problems + (output.splitlines() if problems else [])


INSTALL, UPDATE = "apt -q -y -o DPkg::Lock::Timeout=120 install", "apt -q -y -o DPkg::Lock::Timeout=120 update"
# Its names of packages, in no order.
CACHE = {"apt-cache": 'printf "%s\\n" "$2"14 "$2"9 "$2"11 "$2"11-base "$2"doc'}
tidy.report([
    case("nothing is missing: silent, and nobody is asked", {**COMPLETE, **ROOT, **APT}, 0, None, []),
    case("one is missing: that one is installed",
         {**{name: text for name, text in COMPLETE.items() if name != "ninja"}, **ROOT, "apt-get": 'echo "apt $*" >>"$LOG"'}, 0,
         ["installing ninja-build\n"], [f"{INSTALL} --no-install-recommends ninja-build"]),
    case("the service of etcd is neither started nor enabled",
         {**{name: text for name, text in COMPLETE.items() if name != "etcd"}, **ROOT,
          "apt-get": 'echo "apt $SYSTEMD_OFFLINE $*" >>"$LOG"', "systemctl": 'echo "systemctl $*" >>"$LOG"'}, 0,
         ["installing etcd-server\n"], ["apt 1 -q", "systemctl disable etcd.service"]),
    case("nightly: the oldest and the newest compilers that there are",
         {**COMPLETE, **ROOT, **CACHE, "chromium": "exit 0", "gcc-14": "exit 0", "apt-get": 'echo "apt $*" >>"$LOG"'}, 0,
         ["installing mmdebstrap systemd-container podman runc gcc-9 clang-9 clang-14\n"], [f"{INSTALL} --no-install-recommends mmdebstrap systemd-container podman runc gcc-9 clang-9 clang-14"], nightly=True),
    case("a bare machine: the list is fetched, then all is installed", {**ROOT, **APT}, 0,
         ["installing build-essential cmake", "libcriterion-dev"], [INSTALL, UPDATE, INSTALL]),
    case("a user with sudo", {**USER, **APT, **SUDO}, 0, ["installing build-essential"],
         ["sudo true", "sudo env", INSTALL, "sudo env", UPDATE, "sudo env", INSTALL]),
    case("sudo refuses: asked once", {**USER, **APT, **SUDO_REFUSES}, 1,
         ["a password is required", "sudo refuses", "run scripts/deps as root"], ["sudo true"]),
    case("a user without sudo", {**USER, **APT}, 1, ["libcriterion-dev", "there is no sudo here: run scripts/deps as root"], []),
    case("the installation fails: apt's words are shown", {**ROOT, **APT_FAILS}, 1, ["E: no network", "cannot install"], []),
    case("no apt-get", ROOT, 1, ["build-essential", "there is no apt-get"], []),
])
