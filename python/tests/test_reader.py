import os
import pathlib
import subprocess
import threading

import numpy as np
import pytest

import ckpt
import ckpt.numpy
from conftest import BIN


@pytest.fixture
def store(tmp_path):
    root = tmp_path / "store"
    subprocess.run([BIN / "make_store", root, "10", "20", "30.2", "--world", "4", "--nodes", "2"], check=True, capture_output=True)
    return root


def test_checkpoints_are_listed(store):
    found = ckpt.checkpoints(store)
    assert [(c.job, c.step, c.epoch, c.world, c.state, c.healthy) for c in found] == [
        ("main", 10, 1, 4, "committed", None), ("main", 20, 1, 4, "committed", None), ("main", 30, 2, 4, "committed", None)]
    with pytest.raises(ckpt.Error, match="there is no repository"):
        ckpt.checkpoints(store / "nowhere")


def test_a_reader_is_a_mapping(store):
    with ckpt.Reader(store) as r:
        assert r.info.step == 30 and os.path.isdir(r.path)
        assert "rowwise" in r and "nothing" not in r and len(r) == len(list(r)) == 12
        t = r["rowwise"]
        assert (t.dtype, t.shape, t.pieces, t.group, t.scope, t.rank, t.sized) == ("F32", (64, 48), 4, "params", None, None, False)
        assert (r["rng@00003"].scope, r["rng@00003"].rank, r["loader"].scope) == ("rank", 3, "job")
        assert len(r.blob("loader")) == 100 and len(r.blob("rng", 2)) == 37
        assert "rowwise" in r._repr_html_() and "12 tensors and blobs" in repr(r)
        with pytest.raises(ckpt.Error, match="no blob \"rowwise\""):
            r.blob("rowwise")
    with ckpt.Reader(store, "main", 10) as r:
        assert r.info.step == 10
    with pytest.raises(ckpt.NoCheckpoint):
        ckpt.Reader(store, step="healthy")
    with pytest.raises(ckpt.NoCheckpoint, match="the nearest are"):
        ckpt.Reader(store, step=11)


def test_arrays_are_what_the_command_dumps(store, tmp_path):
    arrays = ckpt.numpy.load(store, "main", step=20)
    assert set(arrays) == {"bias", "colwise", "embed", "empty", "moment", "rowwise", "scale"}
    for name in ("rowwise", "colwise", "moment", "bias", "scale"):
        out = tmp_path / f"{name}.npy"
        subprocess.run([BIN / "ckpt", "dump", "20", name, "--repo", store, "--output", out], check=True)
        assert np.array_equal(arrays[name], np.load(out), equal_nan=True), name


def test_boxes_go_where_they_belong(store):
    whole = ckpt.numpy.load(store, names=["colwise"])["colwise"]
    into = np.zeros((100, 90), np.float32)
    turned = np.zeros((48, 64), np.float32)
    with ckpt.Reader(store) as r:
        r.read_into([("colwise", into[10:30, 50:80], (5, 7)), ("colwise", turned.T, None)])
        assert np.array_equal(into[10:30, 50:80], whole[5:25, 7:37], equal_nan=True) and np.count_nonzero(into) <= 600
        assert np.array_equal(turned.T, whole, equal_nan=True)
        with pytest.raises(TypeError, match="say from which offset on"):
            r.read_into({"colwise": into})
        with pytest.raises(TypeError, match="cannot hold it"):
            r.read_into({"colwise": np.zeros((64, 48), np.int32)})
        with pytest.raises(ckpt.Error, match="leaves|beyond|outside|dimension"):
            r.read_into([("colwise", into, (0, 0))])


def test_damage_is_an_error_of_its_own(store):
    with ckpt.Reader(store) as r:
        place = r.single_piece("scale")
        assert ckpt.numpy.memmap(r, "scale") == ckpt.numpy.read(r, ["scale"])["scale"]
        with pytest.raises(ValueError, match="saved in 4 pieces"):
            r.single_piece("rowwise")
        data = bytearray(pathlib.Path(place.path).read_bytes())
        data[place.at] ^= 1
        pathlib.Path(place.path).write_bytes(data)
        with pytest.raises(ckpt.Damaged, match="scale"):
            ckpt.numpy.read(r, ["scale"])


def test_threads_share_a_reader(store):
    failures = []

    def work(r):
        try:
            for _ in range(5):
                ckpt.numpy.read(r)
        except Exception as e:
            failures.append(e)

    with ckpt.Reader(store) as r:
        threads = [threading.Thread(target=work, args=(r,)) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures
