"""Apptainer of Debian's newest release, in a root file system of its own, where one folder of this machine is, too. Needs root; what is called is called by
a user without rights."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from tap import equal

NEEDED = {"mmdebstrap": "mmdebstrap", "nsenter": "util-linux", "setpriv": "util-linux"}
RELEASE, MIRROR = "sid", "http://deb.debian.org/debian"  # the only release that has it
# A user namespace cannot be made in a chroot: this root becomes that of the mount namespace.
ENTER = """
set -e
mount --bind "$1" "$1"
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mkdir -p "$1/old" "$1/$2"
mount --bind "$2" "$1/$2"
cd "$1"
pivot_root . old
umount -l /old
echo there
exec sleep infinity
"""


def lacks():
    """Why there can be none here, or None."""
    if os.geteuid():
        return "this needs root"
    missing = sorted({package for name, package in NEEDED.items() if not shutil.which(name)})
    return f"not installed: {' '.join(missing)}" if missing else None


class Apptainer:
    def __init__(self, user, folder):
        """folder: where the user may write, at the same place inside."""
        self.user, self.folder = user, folder
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="apptainer-"))
        root = self.top / "root"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=apptainer", "--aptopt=Acquire::Check-Valid-Until \"false\"", RELEASE, root, MIRROR],
                       stdin=subprocess.DEVNULL, check=True, timeout=600)
        with open(root / "etc" / "passwd", "a", encoding="utf-8") as accounts:
            accounts.write(f"user:x:{user}:{user}::{folder}:/bin/sh\n")
        (root / "etc" / "hosts").touch()
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", ENTER, "sh", root, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        equal(self.holder.stdout.readline(), "there\n", "the root file system of Apptainer")

    def spawn(self, line, **how):
        """A command line of the user's, in the folder."""
        # A shell of this machine's root would begin in its own file system.
        return subprocess.Popen(["nsenter", f"--target={self.holder.pid}", "--mount", "setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "env", "-i",
                                 "-C", str(self.folder), f"HOME={self.folder}", "PATH=/usr/bin:/bin", "sh", "-c", line], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **how)

    def __call__(self, line, timeout=300):
        done = self.spawn(line, stdout=subprocess.PIPE, text=True)
        said, _ = done.communicate(timeout=timeout)
        equal(done.returncode, 0, f"{line}: {said[-2000:]}")
        return said

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        shutil.rmtree(self.top, ignore_errors=True)
