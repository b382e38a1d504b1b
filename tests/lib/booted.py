"""A machine of Debian with systemd, booted in a container of systemd-nspawn from a root file system that is made here, with packages installed. Needs root."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from tap import Failure, equal, until

NEEDED = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux"}
RELEASE, MIRROR = "bookworm", "http://deb.debian.org/debian"  # whatever its age
INCLUDED = ("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "polkitd", "procps")


def lacks():
    """Why there can be none here, or None."""
    if os.geteuid():
        return "this needs root"
    missing = sorted({package for name, package in NEEDED.items() if not shutil.which(name)})
    return f"not installed: {' '.join(missing)}" if missing else None


def depends(packages):
    """Names of packages that these need, but for one another."""
    own = {package.name.split("_")[0] for package in packages}
    lines = ",".join(subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout for package in packages)
    return {entry.split()[0] for entry in lines.split(",") if entry.strip()} - own


class Machine:
    """packages: files, which are installed. programs: files, which are copied to /usr/local/bin. user: an account that it has."""

    def __init__(self, packages, programs, user):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="booted-"))
        self.root, self.log = self.top / "root", self.top / "console"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(sorted({*INCLUDED, *depends(packages)}))}",
                        "--aptopt=Acquire::Check-Valid-Until \"false\"", RELEASE, self.root, MIRROR], stdin=subprocess.DEVNULL, check=True, timeout=900)
        for package in packages:
            shutil.copy(package, self.root / "srv")
        for program in programs:
            shutil.copy(program, self.root / "usr" / "local" / "bin")
        self.chroot("dpkg --install /srv/*.deb")
        self.chroot(f"useradd --create-home --shell /bin/sh {user}")
        self.boot()

    def chroot(self, line):
        done = subprocess.run(["chroot", self.root, "sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        equal(done.returncode, 0, f"{line}: {done.stdout} {done.stderr}")

    def boot(self):
        with open(self.log, "wb") as log:
            self.nspawn = subprocess.Popen(["systemd-nspawn", "--quiet", f"--directory={self.root}", f"--machine={self.top.name.replace('_', '-')}", "--boot", "--register=no",
                                            "--keep-unit"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        children = pathlib.Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children")
        self.leader = int(until(lambda: self.nspawn.poll() is None and children.read_text().split(), "the machine's first process")[0])

        def up():
            if self.nspawn.poll() is not None:
                raise Failure(f"the machine does not boot: {self.log.read_text(errors='replace')[-2000:]}")
            return self.spawn("systemctl is-system-running", stdout=subprocess.PIPE, text=True).communicate()[0].strip() in ("running", "degraded")
        until(up, "the machine is up", pause=0.2)

    def spawn(self, line, user=None, **how):
        """A command line of root's, or of a user's who logs in for it."""
        words = ["sh", "-c", line] if user is None else ["su", "--login", user, "-c", line]
        return subprocess.Popen(["nsenter", f"--target={self.leader}", "--all", *words], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **how)

    def __call__(self, line, user=None, code=0):
        done = self.spawn(line, user, stdout=subprocess.PIPE, text=True)
        said, _ = done.communicate(timeout=300)
        equal(done.returncode, code, f"{line}: {said}")
        return said

    def close(self):
        if self.nspawn.poll() is None:
            os.kill(self.leader, signal.SIGKILL)
        self.nspawn.wait()
        shutil.rmtree(self.top, ignore_errors=True)
