"""A node with a slow link tells that it is far from the others, and blames none of them. The others name it."""

import contextlib
import sys

import cable
import cluster
from tap import Cases, equal, expect, has, until

OPTIONS = ("--check-interval", "1s")
DELAY = 0.1  # seconds, each way; three questions without an answer are 3 s
FAR, PEER_FAR = "NODE_FAR", "NODE_PEER_FAR"


def finding(node, code):
    return next((found["text"] for found in node.status()["health"]["findings"] if found["code"] == code), "")


def names(node, other):
    return f"a round trip to node {other.name} takes" in finding(node, PEER_FAR)


def tells_of_itself(node):
    return finding(node, FAR)


@contextlib.contextmanager
def nodes_with_a_cable():
    """Three nodes; and the cable of b, which the cluster takes off before it is closed."""
    with contextlib.ExitStack() as after, cluster.cluster("abc", options=OPTIONS) as nodes:
        slow = after.enter_context(contextlib.closing(cable.Cable(nodes, nodes["b"])))
        nodes.start()
        yield nodes["a"], nodes["b"], nodes["c"], slow


def a_node_with_a_slow_link_tells_of_itself_and_the_others_name_it():
    with nodes_with_a_cable() as (a, b, c, slow):
        since = len(b.text())
        slow.delay = DELAY
        has(until(lambda: tells_of_itself(b), "b tells that it is far"), "this node is far from all 2 others", " ms at least")
        until(lambda: names(a, b), "a names b")
        until(lambda: names(c, b), "c names b")
        equal(finding(b, PEER_FAR), "", "b blames nobody")
        slow.delay = 0
        until(lambda: not tells_of_itself(b), "b is near again")
        until(lambda: not names(a, b) and not names(c, b), "nobody names b any more")
        expect("a round trip to node" not in b.said(since), "b has never blamed another node:", b.said(since))


ROWS = [("a node with a slow link tells of itself, and the others name it", a_node_with_a_slow_link_tells_of_itself_and_the_others_name_it)]
sys.exit(Cases().run_chosen(ROWS, cluster.why_not() or cable.why_not()))
