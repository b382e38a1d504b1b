"""Who may look into a store is decided by store-mode, and not by the umask of whoever starts ckptd; stores that are there keep theirs."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

import single_node
from single_node import BIN, Cases
from tap import equal

cases = Cases()
case = cases.case
UMASKS = (0o022, 0o077, 0o002)


def mode(path):
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def save(umask, *options, before=None):
    """The store of a daemon that was started with that umask, after a save."""
    top = pathlib.Path(tempfile.mkdtemp())
    was = os.umask(umask)
    try:
        with single_node.daemon(top=top, options=options) as d:
            if before:
                d.store.mkdir()
                d.store.chmod(before)
            d.start()
            for rank in d.world(2, "--steps", 4, "--storage", 2, "--wait", "durable"):
                equal(rank.wait(), 0)
            equal(d.stop(), 0)
            return d.store, {p: mode(p) for p in d.store.rglob("*")}
    finally:
        os.umask(was)


@case("a store that is made is its user's alone")
def _():
    for umask in UMASKS:
        store, inside = save(umask)
        equal(mode(store), "0700", f"umask {umask:03o}")
        equal([p for p, m in inside.items() if int(m, 8) & 0o022], [], f"umask {umask:03o}")


@case("with store-mode a group reads it, and writes there, whatever the umask")
def _():
    for umask in UMASKS:
        for option, folder, file in (("0750", "0750", "0640"), ("0770", "0770", "0660"), ("2770", "2770", "0660"), ("0755", "0755", "0644")):
            store, inside = save(umask, "--store-mode", option)
            equal(mode(store), option, f"umask {umask:03o}")
            folders, files = {m for p, m in inside.items() if p.is_dir()}, {mode(p) for p in inside
                                                                        if p.is_file() and "sqlite" not in p.name and not p.name.endswith("lock")}
            equal((folders, files), ({folder}, {file}), f"umask {umask:03o}, {option}")
            locks = {mode(p) for p in inside if p.name.endswith("lock")}  # to read one is to be able to lock it
            equal(locks, {"0660" if file == "0660" else "0600"}, f"locks, umask {umask:03o}, {option}")
            equal([m for p, m in inside.items() if int(m, 8) & ~int(option, 8) & 0o777], [], f"umask {umask:03o}, {option}")


@case("a directory that is there keeps its mode")
def _():
    for umask in UMASKS:
        for before in (0o755, 0o710, 0o2770):
            store, _ = save(umask, "--store-mode", "0700" if before != 0o710 else "0770", before=before)
            equal(mode(store), f"{before:04o}", f"umask {umask:03o}")


@case("what ckpt import makes is the user's alone, and another mode is refused")
def _():
    top = pathlib.Path(tempfile.mkdtemp())
    subprocess.run([BIN / "make_store", top / "a", "1"], check=True)
    subprocess.run([BIN / "ckpt", "export", "1", "--to", top / "hf", "--format", "hf", "--repo", top / "a"], check=True, capture_output=True)
    subprocess.run([BIN / "ckpt", "import", top / "hf", "--format", "hf", "--repo", top / "b"], check=True, capture_output=True, umask=0o022)
    equal(mode(top / "b"), "0700")
    done = subprocess.run([BIN / "ckptd", "--store", top / "c", "--store-mode", "0777"], capture_output=True, text=True)
    equal((done.returncode, "0700, 0750" in done.stderr), (2, True), done.stderr)


sys.exit(cases.end())
