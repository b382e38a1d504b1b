"""Three nodes with one store: what each of them writes of a checkpoint."""

import contextlib
import json
import pathlib
import shutil
import tempfile

from loopback_cluster import Cluster
from scripted_ranks import STORAGE, VERIFIED, all_must
from single_node import until

MIB = 1 << 20
WAIT = 60000


@contextlib.contextmanager
def nodes(*options):
    cluster = Cluster("abc")
    store = pathlib.Path(tempfile.mkdtemp()) / "store"
    daemons = {name: cluster.daemon(name, "--store", store, *options) for name in "abc"}
    try:
        for d in daemons.values():
            d.store = store
            d.start()
        yield daemons
    finally:
        for d in daemons.values():
            d.close()
        shutil.rmtree(store.parent, ignore_errors=True)


def all_up(daemons):
    for d in daemons.values():
        until(lambda d=d: all(n["up"] for n in d.status()["cluster"]["nodes"]), "the nodes find each other")


def saved(ranks, step, value, level=VERIFIED):
    for call in (("fill", value), ("begin", step, STORAGE, 0), ("fence", 0), ("wait", 0, level, WAIT), ("drop", 0)):
        all_must(ranks, *call)


def written(daemons, step):
    """By node: its data files, and the bytes of state in them."""
    found = {}
    directory = next((daemons["a"].store / "main").glob(f"step-{step:012}.e*"))
    for manifest in directory.glob("node-*.json"):
        text = json.loads(manifest.read_text())
        found[text["node"]] = [(directory / f["name"], f["size"] - f["data_at"]) for f in text["files"]]
    return found


def bytes_of(files):
    return sum(size for _, size in files)
