"""Nodes of one job whose stores are different directories, as when a file system is not mounted on one of them."""

import sys
import tempfile

from launcher import PACED, Run, listed, tidy, top
from loopback_cluster import loopback_cluster
from tap import Cases, equal, expect, has

cases = Cases(tidy)


@cases.case("the save fails, and the node that does not find it is named, and its store")
def _():
    stores = {name: tempfile.mkdtemp(dir=top) for name in "ab"}
    with loopback_cluster("ab", **{name: ("--store", store) for name, store in stores.items()}) as daemons:
        runs = [Run("--nodes", 2, "--node-rank", k, "-n", 1, "--job", "gpt", "--socket", d.socket, "--", *PACED, "--steps", 30,
                    "--save-memory-every", 0, "--save-storage-every", 10) for k, d in enumerate(daemons.values())]
        for run in runs:
            run.wait(1)
        said = runs[0].err()
        has(said, "does not find in its store", "all nodes need the same store", "not all is saved")
        expect(any(f"node {name} does not find in its store {store}" in said for name, store in stores.items()), said)
        for store in stores.values():
            equal(listed(store), [])


sys.exit(cases.end())
