"""Somebody in the middle: between a process that is led there (tests/integration/tools/detour.c) and the place that it means to reach."""

import contextlib
import socket
import threading

from tap import BIN


def flipped(chunk):
    at = len(chunk) // 2
    return chunk[:at] + bytes([chunk[at] ^ 4]) + chunk[at + 1:]


TRICKS = {"changed": flipped, "said twice": lambda chunk: chunk + chunk, "left out": lambda chunk: b"",
          "cut": lambda chunk: chunk[:len(chunk) // 2], "in another order": lambda chunk: chunk[len(chunk) // 2:] + chunk[:len(chunk) // 2],
          "put in between": lambda chunk: chunk[:1000] + bytes(1000) + chunk[1000:]}


class Middle:
    """Carries bytes both ways. play() does something once to what the one who is led here says, on a connection that carries much."""

    MUCH = 1 << 20

    def __init__(self, place):
        self.place, self.trick, self.played, self.lock = place, None, 0, threading.Lock()
        self.said = []  # by those who are led here, what each connection begins with
        self.door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def environment(self):
        return {"LD_PRELOAD": str(BIN / "detour.so"), "CKPT_DETOUR_FROM": str(self.place[1]), "CKPT_DETOUR_TO": str(self.door.getsockname()[1])}

    def play(self, trick):
        with self.lock:
            self.trick = TRICKS[trick]

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                self.lead(self.door.accept()[0])

    def lead(self, here):
        try:
            there = socket.create_connection(self.place)
        except OSError:  # nobody listens there yet
            here.close()
            return
        for source, target, watched in ((here, there, True), (there, here, False)):
            threading.Thread(target=self.carry, args=(source, target, watched), daemon=True).start()

    def spoiled(self, chunk):
        with self.lock:
            trick, self.trick = self.trick, None
            self.played += trick is not None
        return trick(chunk) if trick else chunk

    def carry(self, source, target, watched):
        carried = 0
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if watched and not carried:
                    self.said.append(chunk)
                carried += len(chunk)
                target.sendall(self.spoiled(chunk) if watched and carried > self.MUCH and len(chunk) > 4096 else chunk)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.door.close()
