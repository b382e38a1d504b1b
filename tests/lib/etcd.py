"""Clusters of etcd on this machine's loopback, made and ended by a test."""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from loopback_cluster import free_port
from tap import Failure, expect, until

# Tests that run side by side do not take each other's ports.
HOST = f"127.{64 + (os.getpid() >> 8) % 128}.{os.getpid() % 256}.1"
# Members wait for the disk and for processors that others use, too.
PATIENCE = ["--heartbeat-interval", "100", "--election-timeout", "1000"]


def openssl(folder, *words):
    subprocess.run(["openssl", *map(str, words)], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Certificates:
    """An authority, the members' certificate, and a client's: FOLDER/ca.pem, server.pem, server.key, client.pem, client.key. The client's has no
    common name: etcd's gateway refuses one where users log in."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "client.pem", folder / "client.key"
        openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", "/CN=authority",
                "-keyout", "ca.key", "-out", "ca.pem")
        for name, extension in ("server", f"subjectAltName=IP:{HOST}"), ("client", "extendedKeyUsage=clientAuth"):
            (folder / f"{name}.ext").write_text(extension)
            openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/O={name}", "-keyout", f"{name}.key",
                    "-out", f"{name}.csr")
            openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", 2, "-extfile",
                    f"{name}.ext", "-out", f"{name}.pem")
        for key in folder.glob("*.key"):
            key.chmod(0o600)


class Member:
    def __init__(self, cluster, name, options):
        self.cluster, self.name, self.options, self.process = cluster, name, options, None
        scheme = "https" if cluster.certificates else "http"
        self.client, self.peer = (f"{kind}://{HOST}:{free_port(HOST)}" for kind in (scheme, "http"))
        self.log = cluster.top / f"{name}.log"

    @property
    def place(self):
        """HOST:PORT of its clients."""
        return self.client.split("//")[1]

    def start(self):
        """Again with what it had, if it was there before: etcd then heeds nothing of what is said of the initial cluster."""
        command = ["etcd", "--name", self.name, "--data-dir", self.cluster.top / self.name, "--listen-client-urls", self.client,
                   "--advertise-client-urls", self.client, "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                   "--initial-cluster", ",".join(f"{m.name}={m.peer}" for m in self.cluster.members), "--initial-cluster-state",
                   "new", "--logger", "zap", "--log-level", "warn", *PATIENCE, *self.options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def restore(self, snapshot):
        """It begins anew from a snapshot of itself."""
        shutil.rmtree(self.cluster.top / self.name)
        self.cluster.must("snapshot", "restore", snapshot, "--name", self.name, "--data-dir", self.cluster.top / self.name, "--initial-cluster",
                          f"{self.name}={self.peer}", "--initial-advertise-peer-urls", self.peer)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


class Etcd:
    """Iterates over its members. tls: a client needs a certificate, too (self.certificates)."""

    def __init__(self, names, tls=False, options=()):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="etcd-"))
        self.certificates, options, self.login = None, list(options), []
        if tls:
            self.certificates = Certificates(self.top)
            options += ["--cert-file", self.top / "server.pem", "--key-file", self.top / "server.key", "--client-cert-auth", "--trusted-ca-file",
                        self.certificates.ca]
        self.members = []
        self.members += [Member(self, name, options) for name in names]

    def __iter__(self):
        return iter(self.members)

    def url(self, prefix, places=None):
        """As the setting `registry` takes it; places: HOST:PORT of who stands in front of the members."""
        return f"etcd{'s' if self.certificates else ''}://{','.join(places or [m.place for m in self.members])}/{prefix}"

    def ctl(self, *args, member=None):
        ends = ",".join(m.client for m in ([member] if member else self.members) if m.process)
        tls = [f"--cacert={self.certificates.ca}", f"--cert={self.certificates.cert}", f"--key={self.certificates.key}"] if self.certificates else []
        return subprocess.run(["etcdctl", "--endpoints", ends, "--command-timeout", "3s", *tls, *self.login, *map(str, args)], capture_output=True,
                              text=True, timeout=20, env=dict(os.environ, ETCDCTL_API="3"))

    def must(self, *args):
        done = self.ctl(*args)
        if done.returncode:
            raise Failure(f"etcdctl {args}: {done.stderr}")
        return done.stdout

    def get(self, key):
        """The value; None: it does not stand, or nobody answers."""
        done = self.ctl("get", "--print-value-only", key)
        return done.stdout.rstrip("\n") or None if done.returncode == 0 else None

    def record(self, key):
        """All that etcd knows of it: value, version, create_revision, mod_revision, lease; None: it does not stand."""
        found = json.loads(self.must("get", "-w", "json", key)).get("kvs", [])
        return {**found[0], "value": base64.b64decode(found[0].get("value", "")).decode()} if found else None

    def revision(self):
        return json.loads(self.must("get", "-w", "json", "/nothing"))["header"]["revision"]

    def transactions(self):
        """How many it was asked for so far, those that came to nothing among them; without TLS."""
        pages = [urllib.request.urlopen(f"{member.client}/metrics", timeout=20).read().decode() for member in self.members]
        counts = [re.findall(r'^grpc_server_handled_total{.*grpc_method="Txn".*} (\d+)$', page, re.M) for page in pages]
        return sum(int(count) for page in counts for count in page)

    def leader(self):
        """The member that leads; None: nobody does."""
        for member in self.members:
            done = self.ctl("endpoint", "status", "-w", "json", member=member) if member.process else None
            status = json.loads(done.stdout)[0]["Status"] if done and done.returncode == 0 else {}
            if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                return member
        return None

    def leaves(self, *gone):
        return [m for m in self.members if m not in gone]

    def healthy(self, *members):
        for member in self.members:
            expect(not member.process or member.process.poll() is None, "member", member.name, "of etcd has ended")
        return all(self.ctl("endpoint", "health", member=m).returncode == 0 for m in members or self.members)

    def start(self):
        for member in self.members:
            member.start()
        until(self.healthy, "etcd is healthy")

    def close(self):
        for member in self.members:
            member.kill()
        shutil.rmtree(self.top, ignore_errors=True)


@contextlib.contextmanager
def etcd(names="x", **kind):
    made = Etcd(names, **kind)
    try:
        made.start()
        yield made
    except Failure as error:
        logs = "".join(f"---- etcd {m.name}\n{m.log.read_text()[-1000:]}" for m in made if m.log.exists())
        raise Failure(f"{error}\n{logs}") from error
    finally:
        made.close()


def why_not():
    """Why there is no etcd here; None: there is."""
    missing = [program for program in ("etcd", "etcdctl") if not shutil.which(program)]
    return f"not installed: {', '.join(missing)}" if missing else None
