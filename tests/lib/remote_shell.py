"""What stands in for ssh: it runs the command on this machine, as the host that it is told."""

import pathlib
import tempfile

from launcher import top


class RemoteShell:
    """Hosts are reached while their file NAME.socket is there. It holds the socket of the daemon that has the host's name, or nothing."""

    def __init__(self, sockets):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=top))
        for name, socket in sockets.items():
            (self.folder / f"{name}.socket").write_text(str(socket))
        self.shell = self.folder / "shell"
        self.shell.write_text(f"""#!/bin/sh
echo $$ >> {self.folder}/$1.pids
[ -e {self.folder}/$1.socket ] || {{ echo "connect to host $1: No route to host" >&2; exit 255; }}
CKPT_SOCKET=$(cat {self.folder}/$1.socket); export CKPT_SOCKET
[ -e {self.folder}/relay ] || {{ shift; exec sh -c "$*"; }}
shift
exec 3<&0
setsid sh -c "$*" <&3 3<&- &
wait $!
""")
        self.shell.chmod(0o700)

    def relays(self):
        """From here on the remote shell is not what the command becomes: it can be killed, and the command lives."""
        (self.folder / "relay").touch()

    def pids(self, name):
        """Of the remote shells of a host, which become its commands."""
        path = self.folder / f"{name}.pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []
