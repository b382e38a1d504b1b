"""A daemon for each test, and a store. The programs are those of CKPT_BUILD."""

import json
import os
import pathlib
import subprocess

import pytest

import ckpt

BIN = pathlib.Path(os.environ["CKPT_BUILD"])


class Daemon:
    def __init__(self, top, *options):
        self.socket, self.store = str(top / "ckptd.sock"), top / "store"
        self.top, self.options, self.process = top, options, None
        self.start()

    def start(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")} | {"CKPT_CONFIG": "/dev/null"}
        with open(self.top / "ckptd.log", "ab") as log:
            self.process = subprocess.Popen([BIN / "ckptd", "--socket", self.socket, "--store", self.store, *self.options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=env)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def job(self):
        """What its status says of the only one."""
        said = subprocess.run([BIN / "ckpt", "status", "--json", "--socket", self.socket], check=True, stdout=subprocess.PIPE).stdout
        return json.loads(said)["jobs"][0]

    def session(self, **options):
        """Waits for a daemon that is starting."""
        return ckpt.Session("job", self.socket, **({"world": 1, "timeout": 60} | options))


@pytest.fixture
def automatic(tmp_path):
    """Its interval is."""
    d = Daemon(tmp_path, "--interval", "auto")
    yield d
    d.stop()


@pytest.fixture
def daemon(tmp_path):
    d = Daemon(tmp_path)
    yield d
    d.stop()

