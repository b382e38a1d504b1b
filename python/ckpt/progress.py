"""A bar for a restore that takes long, on a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from .session import Session

AFTER, EVERY = 0.5, 0.2  # seconds until it appears, and between two looks
WIDTH = 30


def bar(done: int, total: int, seconds: float) -> str:
    """One line. What is left is guessed from what was."""
    filled = WIDTH * done // total
    left = f", {seconds * (total - done) / done:.0f} s left" if 0 < done < total else ""
    return f"restoring [{'#' * filled}{'.' * (WIDTH - filled)}] {done / 2**30:.1f} of {total / 2**30:.1f} GiB{left}"


def _show(session: Session, over: threading.Event, out: TextIO, after: float, every: float) -> None:
    began, shown = time.monotonic(), 0
    if over.wait(after):
        return
    while True:
        done, total = session.restore_progress
        line = bar(done, total, time.monotonic() - began) if total else "restoring: looks for a checkpoint"
        out.write(f"\r{line:{shown}}")
        out.flush()
        shown = len(line)
        if over.wait(every):
            out.write(f"\r{'':{shown}}\r")
            out.flush()
            return


@contextlib.contextmanager
def shown(session: Session, out: TextIO | None = None, after: float = AFTER, every: float = EVERY) -> Iterator[None]:
    """Around a restore: rank 0 shows how far it is, if stderr is a terminal. The line is gone at the end."""
    out = sys.stderr if out is None else out
    if session.rank or not out.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(session, over, out, after, every), name="ckpt-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
