"""Hosts that are reached by ssh itself: an sshd of its own for each, on an address of loopback, with keys and settings that are thrown away. Nothing of
the caller's ~/.ssh is read or written: in PATH there is an ssh that has a configuration of its own.

Needs root, since sshd is to log in whoever calls, and openssh-server."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess

from tap import DEADLINE, Failure, expect, until

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
SSH = shutil.which("ssh")
RUN = pathlib.Path("/run/sshd")  # sshd wants it; its package makes it at the start of the machine


def why_not():
    """Why there is no sshd here; None: there is."""
    if not SSHD or not SSH:
        return "sshd or ssh is not installed (openssh-server)"
    if os.geteuid():
        return "sshd is started as root"
    shadow = pathlib.Path("/etc/shadow")
    if any(line.startswith("root:!") for line in shadow.read_text().splitlines()):
        return "the account of root is locked"
    return None


def ask(*command):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 0, *command, ":", done.stderr)


class Sshd:
    """One host. variables: more of the environment there."""

    def __init__(self, folder, address, **variables):
        self.folder, self.address = folder, address
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.variables = " ".join(f'"{name}={value}"' for name, value in dict(variables, HOME=self.home).items())
        self.process = self.port = None
        ask("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_key")

    def start(self):
        for _ in range(20):  # the port may be taken by another in the meantime
            if self.port is None:
                with socket.create_server((self.address, 0)) as free:
                    self.port = free.getsockname()[1]
            if self._start():
                return
            self.port = None
        raise Failure("sshd does not start: " + (self.folder / "log").read_text()[-1000:])

    def _start(self):
        config, log = self.folder / "sshd_config", self.folder / "log"
        config.write_text("\n".join([
            f"Port {self.port}", f"ListenAddress {self.address}", f"HostKey {self.folder}/host_key", "PidFile none", "UsePAM no",
            f"AuthorizedKeysFile {self.folder.parent}/key.pub", "StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no",
            "KbdInteractiveAuthentication no", f"SetEnv {self.variables}", "MaxStartups 100",
            f"Banner {self.folder}/banner", ""]))
        (self.folder / "banner").write_text("No trespassing.\n")
        with open(log, "wb") as to:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", SSHD, "-D", "-e", "-f", config],
                                            stdin=subprocess.DEVNULL, stdout=to, stderr=to)
        listens = f"Server listening on {self.address} port"
        until(lambda: listens in log.read_text() or self.process.poll() is not None, "sshd listens")
        return self.process.poll() is None

    def sessions(self):
        """Processes of sshd, one for each connection."""
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def cut(self):
        """All connections, at once."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self):
        if self.process:
            self.cut()
            self.process.terminate()
            self.process.wait(DEADLINE)
            self.process = None


class SshHosts:
    """Names of hosts, each with its sshd. environment(env): with an ssh that knows them."""

    def __init__(self, folder, **names):
        """names: variables of each host's environment."""
        self.folder = folder
        folder.mkdir()
        RUN.mkdir(mode=0o755, exist_ok=True)
        ask("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
        self.hosts = {name: Sshd(folder / name, f"127.0.0.{k + 1}", **variables) for k, (name, variables) in enumerate(names.items())}

    def __enter__(self):
        for host in self.hosts.values():
            host.start()
        self.known, self.config = self.folder / "known_hosts", self.folder / "ssh_config"
        self.know()
        self.configure()
        (self.folder / "bin").mkdir()
        ssh = self.folder / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {SSH} -F {self.config} "$@"\n')
        ssh.chmod(0o755)
        return self

    def know(self):
        """As if each had been called once."""
        self.known.write_text("".join(f"[{h.address}]:{h.port} {' '.join((h.folder / 'host_key.pub').read_text().split()[:2])}\n"
                                      for h in self.hosts.values()))

    def configure(self, *lines):
        """What a user has in ~/.ssh/config; lines: for all hosts."""
        user = pwd.getpwuid(os.geteuid()).pw_name
        named = "".join(f"Host {name}\n HostName {h.address}\n Port {h.port}\n" for name, h in self.hosts.items())
        self.config.write_text(f"{named}Host *\n User {user}\n IdentityFile {self.folder}/key\n IdentitiesOnly yes\n IdentityAgent none\n"
                               f" UserKnownHostsFile {self.known}\n GlobalKnownHostsFile /dev/null\n" + "".join(f" {line}\n" for line in lines))

    def environment(self, env):
        return dict(env, PATH=f"{self.folder}/bin:{env['PATH']}")

    def nodes(self):
        return ",".join(f"{name}={h.address}" for name, h in self.hosts.items())

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.stop()
