"""Tests with PyTorch, on the host. Ranks are forked from the process that has imported it."""

import os
import subprocess
import sys

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = ""
sys.path.insert(0, os.path.dirname(__file__))
import ranks  # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A daemon for all tests of a file."""
    top = tmp_path_factory.mktemp("service")
    env = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")} | {"CKPT_CONFIG": "/dev/null"}
    with open(top / "ckptd.log", "ab") as log:
        process = subprocess.Popen([f"{os.environ['CKPT_BUILD']}/ckptd", "--socket", top / "ckptd.sock", "--store", top / "store"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
    yield ranks.Service(str(top / "ckptd.sock"), top / "store", top)
    process.terminate()
    process.wait(30)
