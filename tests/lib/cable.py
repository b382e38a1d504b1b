"""A cable of a node to its cluster that takes time: two TAP devices, and a thread that carries frames from one to the other. Needs /dev/net/tun;
netem of the kernel does the same, but few kernels of test machines have it."""

import collections
import contextlib
import fcntl
import os
import select
import struct
import threading
import time

from cluster import CLONE_NEWNET, Net, opened, system_call

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_MAX, QUEUE_MAX = 65536, 4096  # frames on their way; what is more is lost, as in any cable


def tap(net, name):
    """A descriptor of a new TAP device in that network; the device lives as long."""
    with opened("/proc/thread-self/ns/net") as home:
        system_call("setns", net.fd, CLONE_NEWNET)
        try:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
            return fd
        finally:
            system_call("setns", home, CLONE_NEWNET)


class Cable:
    """Joins a node that has not booted yet. delay: seconds in each direction; it may be changed at any time."""

    def __init__(self, cluster, node):
        self.delay, self.way = 0, collections.deque()
        node.net = Net()
        self.ends = tap(node.net, "eth0"), tap(cluster.bridge, node.port)
        cluster.bridge.ip(f"link set {node.port} master bridge up")
        node.net.ip("link set lo up", f"address add {node.address}/24 dev eth0", "link set eth0 up")
        self.stop = os.eventfd(0)
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def take(self, fd):
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = os.read(fd, FRAME_MAX)
                if len(self.way) < QUEUE_MAX:
                    self.way.append((time.monotonic() + self.delay, self.ends[fd == self.ends[0]], frame))

    def give(self):
        while self.way and self.way[0][0] <= time.monotonic():
            _, fd, frame = self.way.popleft()
            with contextlib.suppress(BlockingIOError):
                os.write(fd, frame)

    def carry(self):
        """Until close, or until a device is gone."""
        with contextlib.suppress(OSError):
            while True:
                wait = max(0, self.way[0][0] - time.monotonic()) if self.way else None
                ready = select.select([*self.ends, self.stop], [], [], wait)[0]
                if self.stop in ready:
                    return
                for fd in ready:
                    self.take(fd)
                self.give()

    def close(self):
        os.eventfd_write(self.stop, 1)
        self.thread.join()
        for fd in (*self.ends, self.stop):
            os.close(fd)


def why_not():
    """Why no such cable can be made here; None: one can."""
    try:
        with contextlib.closing(Net()) as net:
            os.close(tap(net, "eth0"))
    except OSError as error:
        return f"no TAP device: {error}"
    return None
