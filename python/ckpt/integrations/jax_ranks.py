"""Processes of JAX that come and go: the daemon brings them together, and a process ends with its epoch."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket as sockets
import threading
from typing import Any

import jax

from ..address import address_of
from ..job import job_name
from ..session import Session

_log = logging.getLogger("ckpt")
LOST = 75  #: what a process ends with when a rank was lost: EX_TEMPFAIL


def _free_port() -> int:
    with contextlib.closing(sockets.socket()) as s:
        s.bind(("", 0))
        return int(s.getsockname()[1])


class Ranks:
    """The processes of an epoch. As a context it ends with the training."""

    def __init__(self, session: Session, epoch: int) -> None:
        self.session, self.epoch = session, epoch
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
        _log.warning("epoch %d is over, a rank was lost: this process ends, its launcher starts it again", self.epoch)
        os._exit(LOST)  # a collective of JAX cannot be ended otherwise

    def close(self) -> None:
        """Ends the meeting: this process has finished."""
        os.close(self._write)
        self._thread.join()
        os.close(self._read)
        jax.distributed.shutdown()
        self.session.close()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.session.abandon()


def initialize(*, job: str | None = None, socket: str | None = None, **options: Any) -> Ranks:
    """In place of jax.distributed.initialize. Needs no address: the daemon brings the processes together. Other options go to JAX.

    They meet as a job of their own, named as the job with ".ranks" behind it. It saves nothing. When a rank is lost, the process ends at once with status
    75: neither a collective of JAX nor its meeting can go on without that rank. Under ``ckpt run`` it is started again."""
    session = Session(f"{job_name(job)[:57]}.ranks", socket)
    address = f"{address_of(session.world)}:{_free_port()}".encode() if session.rank == 0 else b""
    view = session.join(address)
    jax.distributed.initialize(view.addresses[0].decode(), view.world, view.rank, **options)
    return Ranks(session, view.epoch)
