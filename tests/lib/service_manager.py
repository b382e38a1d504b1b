"""ckptd under a service manager, which the test plays."""

import fcntl
import os
import socket
import threading
import time

import single_node

HIGH = 100  # descriptors to pass are moved up here first, out of the way of those that the program sees


class Managed(single_node.Daemon):
    """ckptd with a service manager. `passed`: {name: descriptor}, what the next start gets."""

    def __init__(self, watchdog_ms=0, **more):
        super().__init__(**more)
        self.watchdog_ms, self.passed = watchdog_ms, {}
        self.told, self.store_fds = [], {}  # [(when, [line])], {name: [descriptor]}
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(self.top / "notify"))
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.notify, 65536, 16)
            except OSError:
                return
            lines = data.decode().split("\n")
            fields = dict(line.split("=", 1) for line in lines if line)
            if "FDSTORE" in fields:
                self.store_fds.setdefault(fields["FDNAME"], []).extend(fds)
            if "FDSTOREREMOVE" in fields:
                for fd in self.store_fds.pop(fields["FDNAME"], []):
                    os.close(fd)
            self.told.append((time.monotonic(), lines))

    def launch(self, command, **how):
        env = dict(how.pop("env"), NOTIFY_SOCKET=str(self.top / "notify"))
        if self.watchdog_ms:
            env["WATCHDOG_USEC"] = str(self.watchdog_ms * 1000)
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH) for fd in self.passed.values()]
        if high:
            env.update(LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=":".join(self.passed))
        moves = "".join(f"exec {3 + i}<&{fd} {fd}<&-; " for i, fd in enumerate(high))
        script = moves + 'export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"'
        try:
            return self.spawn(["bash", "-c", script, "bash", *command], env=env, pass_fds=high, **how)
        finally:
            for fd in high:
                os.close(fd)

    def of(self, line):
        """When it was told this."""
        return [when for when, lines in self.told if line in lines]

    def held(self):
        return {name: fds[0] for name, fds in self.store_fds.items()}
