"""Several users of one machine, for tests that root runs: programs that all of them can start, processes of theirs, and accounts that
exist for the test alone."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import single_node
from single_node import BIN

ANN, BOB, EVE = 45001, 45002, 45003
NAMES = {ANN: "ann", BOB: "bob", EVE: "eve"}
PRIVATE = 0o077  # UMask= of the units

top = None  # folders between the file system's root and the programs may be closed to them


def settle():
    """Or skips the test."""
    global top
    if os.geteuid() != 0:
        print("not root: only root can start processes of two users")
        sys.exit(77)
    top = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o711)
    shutil.copytree(BIN.parent / "lib", top / "lib", symlinks=True)
    (top / "bin").mkdir()
    for name in ("ckptd", "ckpt", "drive", "puppet"):
        shutil.copy(BIN / name, top / "bin" / name)
    return top


def accounts():
    """Starts the script again, in a mount namespace where the users have accounts. Or skips it."""
    if "CKPT_TEST_ACCOUNTS" in os.environ:
        return
    if os.geteuid() != 0:
        print("not root: only root can serve several users")
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    users = "".join(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n" for uid, name in NAMES.items())
    groups = "".join(f"{name}:x:{uid}:\n" for uid, name in NAMES.items()) + f"team:x:45100:{NAMES[EVE]}\n"
    (folder / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() + users)
    (folder / "group").write_text(pathlib.Path("/etc/group").read_text() + groups)
    mounts = " && ".join(f"mount --bind {folder}/{name} /etc/{name}" for name in ("passwd", "group"))
    if subprocess.run(["unshare", "--mount", "sh", "-c", mounts], check=False, capture_output=True).returncode:
        shutil.rmtree(folder)
        print("no mount namespace can be made here, for accounts that exist in the test alone")
        sys.exit(77)
    done = subprocess.run(["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", sys.executable, *sys.argv], check=False,
                          env=dict(os.environ, CKPT_TEST_ACCOUNTS=str(folder)))
    shutil.rmtree(folder)
    sys.exit(done.returncode)


class Person(single_node.Daemon):
    """Ranks of one user, and a daemon of his own if it is started."""

    def __init__(self, uid):
        super().__init__(top=tempfile.mkdtemp(dir=top))
        os.chown(self.top, uid, uid)
        self.top.chmod(0o711)  # so that what keeps others out is what ckptd makes
        self.uid = uid

    def spawn(self, command, **how):
        program = top / "bin" / pathlib.Path(command[0]).name
        if (self.top / "pace").exists():
            os.chown(self.top / "pace", self.uid, self.uid)
        return super().spawn([program, *command[1:]], user=self.uid, group=self.uid, extra_groups=[], umask=PRIVATE, **how)

    def environment(self, **more):
        return dict(super().environment(**more), LD_LIBRARY_PATH=str(top / "lib"), HOME=str(self.top))

    def run(self, *words):
        """A program of ckpt's: (exit status, what it said)."""
        with open(self.top / "said", "w+b") as said:
            os.chown(self.top / "said", self.uid, self.uid)
            process = self.spawn(words, stdin=said, stdout=said, stderr=said, env=self.environment(CKPT_CONFIG="/dev/null"))
            code = process.wait(single_node.DEADLINE)
        return code, (self.top / "said").read_text()


def child(uid, what, *args):
    """What the function returns (a text) when that user calls it, or the name of its exception."""
    out, end = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            text = str(what(*args))
        except BaseException as error:
            text = type(error).__name__
        os.write(end, text.encode())
        os._exit(0)
    os.close(end)
    with os.fdopen(out) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return text
