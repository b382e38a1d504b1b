"""A program in which one allocation, or one call for another resource, fails (tests/crash/tools/starve.c)."""

import contextlib
import mmap
import os
import struct

from tap import BIN

COUNT, FAIL_AT, FAILED, COUNTED = 0, 8, 16, 24
ALLOCATIONS, RESOURCES = 0, 1


class Starved:
    """The file that the program and the test share."""

    def __init__(self, path, counted=ALLOCATIONS):
        self.path = path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        struct.pack_into("=Q", self.map, COUNTED, counted)

    def get(self, at):
        return struct.unpack_from("=Q", self.map, at)[0]

    def arm(self, number):
        """From now on the call of that number fails; 0: none, but they are counted."""
        struct.pack_into("=QQQ", self.map, 0, 0, number, 0)

    def disarm(self):
        struct.pack_into("=Q", self.map, FAIL_AT, 0)

    @property
    def count(self):
        return self.get(COUNT)

    @property
    def failed(self):
        return self.get(FAILED)

    def environment(self):
        return {"LD_PRELOAD": str(BIN / "starve.so"), "CKPT_STARVE": str(self.path)}


@contextlib.contextmanager
def preloaded(variables):
    """What is started inside has them in its environment."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
