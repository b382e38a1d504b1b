"""What a session saved goes out of a store as files, into another one, and back into a session."""

import os
import subprocess

import numpy
import pytest

import ckpt


def command(*words):
    done = subprocess.run([f"{os.environ['CKPT_BUILD']}/ckpt", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def register(session):
    weight = numpy.zeros((3, 5), "f4")
    session.register("weight", weight)
    session.register_sized_blob("tree", 1000)
    session.register_sized_blob("tree.rank", 500, "rank")
    session.join()
    return weight


@pytest.mark.parametrize("split", [(), ("--world", 2)])
def test_blobs_of_changing_size_come_back(daemon, tmp_path, split):
    with daemon.session() as s:
        register(s)[:] = 7
        s.set_blob("tree", b"of the job")
        s.set_blob("tree.rank", b"of the rank")
        snapshot = s.begin(4)
        snapshot.fence()
        snapshot.wait(ckpt.DURABLE, 60)
    command("restore", "latest", "--repo", daemon.store, "--to", tmp_path / "files", *split)
    daemon.stop()
    command("import", tmp_path / "files", "--format", "safetensors", "--repo", daemon.store, "--job", "job", "--step", 9)
    daemon.start()
    with daemon.session() as s:
        weight = register(s)
        assert s.restore().step == 9
        assert (weight == 7).all()
        assert (s.get_blob("tree"), s.get_blob("tree.rank")) == (b"of the job", b"of the rank")
