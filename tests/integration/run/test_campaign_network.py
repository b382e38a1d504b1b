"""ckpt campaign with nodes in networks of their own: cables are pulled, ways and sides are cut, and all holds; what is left of it, and what is said
where there are no such networks.
timeout: 900"""

import json
import os
import pathlib
import signal
import subprocess
import sys

from cluster import why_not
from launcher import CKPT, ENVIRONMENT, PACED, top
from tap import DEADLINE, Cases, equal, expect, has, until

CANCELLED = 130
SILENT_S = 16  # after 10 a node is lost, or somewhat later where the daemons did not run meanwhile
cases = Cases()
case = cases.case
without = why_not()

HEAD = "seed 3\nnodes 3\nranks 3\nsave-storage-every 4\nhang-timeout 4s\n"


def start(text, folder, *options, env=None):
    file = top / f"{folder}.campaign"
    file.write_text(text)
    return subprocess.Popen([CKPT, "campaign", "--json", "--dir", top / folder, *options, file, *PACED], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=env or ENVIRONMENT, text=True)


def ended(child, code=0):
    out, err = child.communicate(timeout=3 * DEADLINE)
    equal(child.returncode, code, f"{out} {err}")
    return json.loads(out) if out else {}, err


def journal(folder, event):
    """What stands there: the last line may be under way."""
    file = top / folder / "journal"
    return [line for line in map(json.loads, file.read_text().split("\n")[:-1]) if line["event"] == event] if file.exists() else []


def processes(folder):
    """Whose command line names it."""
    def has_it(path):
        try:
            return os.fsencode(top / folder) in (path / "cmdline").read_bytes()
        except OSError:
            return False
    return [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*") if has_it(path)]


def nothing_left(folder):
    equal(processes(folder), [])
    equal(journal(folder, "left"), [])
    equal([name for name in os.listdir("/sys/class/net") if name == "bridge" or name.startswith("port")], [])


@case("a node is lost behind its cable and comes back, ways are cut, and all that was promised holds")
def _():
    if without:
        return without
    document, said = ended(start(HEAD + f"at 1s link-down node=1 for={SILENT_S}s\nat 2s one-way node=2 to=0 for=1s\n"
                                 "at 3s partition sides=0/1,2 for=1s\nat 4s link-slow node=1 for=1s\nat 5s absent rank=2\n", "cuts"))
    equal([document[name] for name in ("fired", "not_fired", "left_out", "exit")], [5, 0, 0, 0])
    equal([i["name"] for i in document["invariants"] if not i["held"]], [])
    equal(document["params"], document["calm_params"])
    equal([line["text"] for line in journal("cuts", "fault")][:4],
          ["the cable of node-1 was pulled", "what node-2 sent did not reach node-0", "sides were apart: node-0 / node-1, node-2",
           "the cable of node-1 had 20 Mbit/s"])
    has(said, "1 of 5: link-down: the cable of node-1 was pulled")
    has((top / "cuts" / "node-0.log").read_text(), "node node-1 is lost", "node node-1 is there")
    has((top / "cuts" / "roster").read_text(), "node-2 10.77.0.3:")
    report = json.loads((top / "cuts" / "report.json").read_text())
    equal([(f["kind"], f["node"], f["for_ms"], f["end"]) for f in report["faults"]][:2],
          [("link-down", 1, 1000 * SILENT_S, "recovered"), ("one-way", 2, 1000, "recovered")])
    expect(all(f["back_after_ms"] >= f["for_ms"] for f in report["faults"][:4]), report["faults"])
    equal((top / "cuts" / "report.html").read_text().count('<path class="cut"'), 5, "a cut each, and what the colour means")
    nothing_left("cuts")


@case("cables that lose packets, or delay them, cost time and nothing else")
def _():
    if without:
        return without
    document, _ = ended(start(HEAD + "at 1s link-loss node=1 percent=5 for=3s\nat 2s link-delay node=2 delay=20ms for=3s\n", "worn"))
    equal([document[name] for name in ("fired", "not_fired", "left_out", "exit")], [2, 0, 0, 0])
    equal([line["text"] for line in journal("worn", "fault")],
          ["the cable of node-1 lost 5% of the packets", "what passed the cable of node-2 came 20 ms later"])
    nothing_left("worn")


@case("two faults break the network together, each for its own time, and a rank is lost meanwhile")
def _():
    if without:
        return without
    document, _ = ended(start(HEAD + "at 1s link-delay node=1 delay=20ms for=4s\nwith one-way node=2 to=0 for=1s\nwith kill rank=0\n", "both"))
    equal([document[name] for name in ("fired", "not_fired", "left_out", "exit")], [3, 0, 0, 0])
    equal([line["text"] for line in journal("both", "fault")][:2], ["what passed the cable of node-1 came 20 ms later", "what node-2 sent did not reach node-0"])
    equal([len(journal("both", event)) for event in ("cut", "joined")], [3, 6], "each node is cut off once, and whole once more")
    equal({line["for_ms"] for line in journal("both", "cut")}, {1000}, "nobody is cut off by a bad cable")
    nothing_left("both")


@case("ranks and nodes that are lost while a node is cut off come back with it")
def _():
    if without:
        return without
    document, _ = ended(start(HEAD + "at 1s link-down node=1 for=11s\nwith kill rank=0\nwith kill-node node=2\n"
                              "at 2s partition sides=0/1,2 for=2s\nwith absent rank=1\nwith kill-daemon node=0\n", "within"))
    equal([document[name] for name in ("fired", "not_fired", "exit")], [6, 0, 0])
    equal(document["params"], document["calm_params"])
    for cut, *rest in [journal("within", "fault")[:3], journal("within", "fault")[3:]]:
        expect(all(0 < line["wall_ns"] - cut["wall_ns"] < cut["for_ms"] * 1e6 + 1e9 for line in rest), "they came while it was cut off", cut, rest)
    nothing_left("within")


@case("a node that falls silent, loses its memory and comes back is found silent, and what it had comes from the others")
def _():
    if without:
        return without
    document, _ = ended(start(HEAD.replace("every 4", "every 400") + f"at 1s reboot node=0 for={SILENT_S}s\nat 2s reboot node=1 for=3s\n", "reboot"))
    equal([document[name] for name in ("fired", "not_fired", "exit")], [2, 0, 0])
    equal(document["params"], document["calm_params"])
    equal(len(journal("reboot", "replicated")), 2)
    report = json.loads((top / "reboot" / "report.json").read_text())
    equal([(f["kind"], f["end"], f["text"]) for f in report["faults"]],
          [("reboot", "recovered", f"behind its cable all processes of node-{node} have died") for node in (0, 1)])
    expect(all(f["back_after_ms"] >= f["for_ms"] for f in report["faults"]), report["faults"])
    has((top / "reboot" / "node-1.log").read_text(), "node node-0 is lost: Connection timed out")
    nothing_left("reboot")


@case("one that is interrupted while a node is cut off leaves nothing behind, and goes on from its journal")
def _():
    if without:
        return without
    text = HEAD + "at 500ms kill rank=1\nat 1s link-down node=0 for=600s\n"
    child = start(text, "cut")
    until(lambda: journal("cut", "cut"), "the cable is pulled")
    child.send_signal(signal.SIGINT)
    ended(child, CANCELLED)
    nothing_left("cut")
    equal(len(journal("cut", "fault")), 1)
    child = start(text, "cut", "--resume")
    until(lambda: len(journal("cut", "cut")) == 6, "it is pulled again")
    child.kill()
    child.communicate()
    until(lambda: not processes("cut"), "all that it had made ends without it")
    nothing_left("cut")


@case("without such networks it says what is left out, and the rest stays as it is")
def _():
    tools = top / "tools"
    tools.mkdir()
    for tool in pathlib.Path(CKPT).parent.glob("ckpt*"):
        (tools / tool.name).symlink_to(tool)
    document, said = ended(start(HEAD + "at 500ms kill rank=1\nrate link-down 3\n", "loopback", env=ENVIRONMENT | {"PATH": str(tools)}))
    equal([document[name] for name in ("fired", "left_out", "exit")], [1, 3, 0])
    has(said, "3 faults of the network are left out: the nodes are on loopback, since")
    has((top / "loopback" / "roster").read_text(), "node-2 127.0.0.3:")
    equal(len(journal("loopback", "cut")), 0)


sys.exit(cases.end())
