"""Containers by podman, with an image of Debian that is made here: nothing of a registry, and nothing left behind. Needs root, also to play a user
who has none."""

import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

from tap import equal

ROOTLESS = {"podman": "podman", "runc": "runc", "setpriv": "util-linux"}
NEEDED = {"podman": "podman", "runc": "runc", "mmdebstrap": "mmdebstrap"}
RELEASE = "bookworm"  # debian:12


def lacks(needed=NEEDED):
    """Why there can be no containers here, or None."""
    if os.geteuid():
        return "this needs root"
    missing = sorted(package for name, package in needed.items() if not shutil.which(name))
    return f"not installed: {' '.join(missing)}" if missing else None


class Podman:
    """A store of images and containers of its own. docker: a program that takes docker's words. user: whose they are, who has no part in /etc/subuid;
    None: root."""

    def __init__(self, user=None):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="podman-"))
        limits = [word for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
                  for word in ("--ulimit", f"{name}={min(4096, resource.getrlimit(which)[1]) if resource.getrlimit(which)[1] > 0 else 4096}")]
        self.user = user
        self.command = ["podman", "--root", str(self.top / "images"), "--runroot", str(self.top / "run"), "--cgroup-manager=cgroupfs", "--storage-driver=vfs",
                        "--events-backend=file", "--runtime", "runc"]
        if user is not None:
            for folder in ("home", "images", "run"):
                (self.top / folder).mkdir(mode=0o700)
                os.chown(self.top / folder, user, user)
            for folder in (self.top, *self.top.parents[:-1]):
                folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)  # to pass
            self.command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-i", "-C", str(self.top), f"PATH={os.environ['PATH']}", f"HOME={self.top}/home",
                            f"XDG_RUNTIME_DIR={self.top}/run", *self.command]
        (self.top / "bin").mkdir()
        self.docker = self.top / "bin" / "docker"
        self.docker.write_text(f"""#!/bin/sh
case $1 in
build) shift; exec {' '.join(self.command)} build --isolation chroot --pull=never --network host {' '.join(limits)} "$@" ;;
run) shift; exec {' '.join(self.command)} run {' '.join(limits)} "$@" ;;
*) exec {' '.join(self.command)} "$@" ;;
esac
""")
        self.docker.chmod(0o755)

    def __call__(self, *words, code=0, timeout=120):
        done = subprocess.run([self.docker, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        equal(done.returncode, code, f"{words}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
        return done.stdout + done.stderr

    def debian(self):
        """debian:12, as the mirror has it now."""
        archive = self.top / "debian.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", RELEASE, archive], stdin=subprocess.DEVNULL, check=True)
        self("import", archive, "debian:12", timeout=300)
        archive.unlink()

    def programs(self, image, *programs, folders=()):
        """An image of these alone, with the libraries that they load and the folders that they read."""
        root, archive = self.top / "root", self.top / "image.tar"
        for program in programs:
            loads = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            for source, place in [(program, f"/usr/bin/{pathlib.Path(program).name}"), *((path, path) for path in loads.split() if path.startswith("/"))]:
                target = root / place.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for folder in folders:
            shutil.copytree(folder, root / folder.lstrip("/"), symlinks=True)
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        archive.chmod(0o644)
        self("import", archive, image, timeout=300)
        shutil.rmtree(root)
        archive.unlink()

    def group(self, name):
        """The memory's control group of a container."""
        pid = self("inspect", "--format", "{{.State.Pid}}", name).strip()
        lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        path = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"), lines[-1].split(":", 2)[2])
        old = pathlib.Path("/sys/fs/cgroup/memory")
        return (old if old.is_dir() else pathlib.Path("/sys/fs/cgroup")) / path.lstrip("/")

    def close(self):
        subprocess.run([*self.command, "rm", "--all", "--force", "--time", "0"], capture_output=True)
        if self.user is not None:
            subprocess.run([*self.command, "system", "migrate"], capture_output=True)  # ends what holds the user's namespace
        shutil.rmtree(self.top, ignore_errors=True)
