"""Process groups for ranks that come and go: each epoch of the job has a store of its own."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import select
import threading
from typing import Any

import torch.distributed as distributed

from ..address import address_of
from ..job import job_name
from ..session import Session

_log = logging.getLogger("ckpt")
dist: Any = distributed


class Group:
    """The default process group of an epoch. As a context it ends with it; if a rank is lost, its collectives are ended."""

    def __init__(self, session: Session, store: Any, epoch: int) -> None:
        self.session, self.epoch, self._store = session, epoch, store
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._wait, name="ckpt-epoch", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        poll = select.poll()
        fd = self.session.epoch_fd()
        poll.register(fd, select.POLLIN)
        poll.register(self._read, select.POLLIN | select.POLLHUP)
        if fd not in dict(poll.poll()):
            return
        _log.warning("epoch %d is over, a rank was lost: collectives are ended", self.epoch)
        with contextlib.suppress(Exception):
            dist.distributed_c10d._abort_process_group()

    @property
    def is_over(self) -> bool:
        """Whether a rank was lost."""
        return bool(select.select([self.session.epoch_fd()], [], [], 0)[0])

    def close(self) -> None:
        """Ends the process group and its session."""
        os.close(self._write)
        self._thread.join()
        os.close(self._read)
        if dist.is_initialized():
            dist.destroy_process_group()
        self.session.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.session.abandon()


def init_process_group(backend: str | None = None, *, job: str | None = None, socket: str | None = None,
                       timeout: datetime.timedelta | None = None, **options: Any) -> Group:
    """In place of torch.distributed.init_process_group. Needs neither MASTER_ADDR nor MASTER_PORT: the daemon brings the ranks together.

    The ranks meet as a job of their own, named as the job with ".ranks" behind it. It saves nothing."""
    session = Session(f"{job_name(job)[:57]}.ranks", socket)
    rank, world = session.rank, session.world
    server, address = None, b""
    if rank == 0:
        host = address_of(world)
        server = dist.TCPStore(host, 0, None, True, wait_for_workers=False)
        address = f"{host}:{server.port}".encode()
    view = session.join(address)
    host, _, port = view.addresses[0].decode().rpartition(":")
    store = server or dist.TCPStore(host, int(port), None, False)
    if timeout is not None:
        options["timeout"] = timeout
    dist.init_process_group(backend, store=dist.PrefixStore(f"epoch-{view.epoch}", store), rank=rank, world_size=world, **options)
    return Group(session, store, view.epoch)
