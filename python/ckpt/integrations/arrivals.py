"""Tells other processes that a step is on storage: they ask at a port, and get the answer when it is there. A line of JSON asks, a line answers."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from typing import Any

ASKING = 64  #: others that may wait at a time
LINE = 4096  #: the longest line
WAIT = 3600.0  #: the longest wait in seconds


class Arrivals:
    """The steps of one process. ``address``: under which others reach this host."""

    def __init__(self, address: str) -> None:
        self._condition = threading.Condition()
        self._step, self._answer = -1, {"error": "no step was announced"}
        self._done, self._closed = False, False
        self._server = _Server(("", 0), self._handler())
        self.address = f"{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="ckpt-arrivals", daemon=True)
        self._thread.start()

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        arrivals = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10.0  # until it has asked

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    self.wfile.write(json.dumps(arrivals._asked(self.rfile.readline(LINE))).encode() + b"\n")

        return Handler

    def _asked(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line)
            step, seconds = int(question["step"]), min(float(question["seconds"]), WAIT)
        except (ValueError, KeyError, TypeError):
            return {"error": "a step and seconds are wanted"}
        with self._condition:
            there = self._condition.wait_for(lambda: self._closed or self._step > step or (self._step == step and self._done), seconds)
            if self._closed or not there:
                return {"error": f"step {step} timed out: it is not sent" if not there else "the sender has ended"}
            return self._answer if self._step == step else {"error": f"step {step} is over: step {self._step} is what is sent now"}

    def begin(self, step: int) -> None:
        """This is the step that will be there."""
        with self._condition:
            self._step, self._done = step, False
            self._condition.notify_all()

    def there(self, **answer: Any) -> None:
        """It is there, or there is an error: what those that asked get to know."""
        with self._condition:
            self._answer, self._done = answer, True
            self._condition.notify_all()

    def close(self) -> None:
        """Those that wait get an error."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    """A thread for each that asks, and no more than there are places."""

    daemon_threads, block_on_close, request_queue_size = True, False, ASKING
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(ASKING)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.sendall(json.dumps({"error": f"{ASKING} others are asking: ask again"}).encode() + b"\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An asker that is gone is no error of this process."""


def ask(address: str, step: int, seconds: float) -> dict[str, Any]:
    """What the process at an address says of a step, as soon as that is there. Raises TimeoutError, or RuntimeError with what it said."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + seconds
    with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as s, s.makefile("rb") as file:
        s.sendall(json.dumps({"step": step, "seconds": seconds}).encode() + b"\n")
        s.settimeout(max(until - time.monotonic(), 0.001))
        line = file.readline(LINE)
    answer = json.loads(line) if line else {"error": "it has ended"}
    if "error" in answer:
        kind = TimeoutError if "timed out" in answer["error"] else RuntimeError
        raise kind(f"step {step} from {address}: {answer['error']}")
    return dict(answer)
