"""ckpt plan: what it prints for a large cluster, within its time, and from the span log of a job."""

import json
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import single_node
from launcher import CKPT, ENVIRONMENT, TRAIN, Run, top
from tap import DEADLINE, Cases, equal, expect, has

USAGE, FAILED = 2, 1
LARGE = ("--gpus", 131072, "--state", "45TB", "--mtbf-node", "5y", "--store-bandwidth", "200GB/s", "--price", "2.5")
cases = Cases()
case = cases.case


def plan(*args, code=0):
    done = subprocess.run([CKPT, "plan", *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, code, f"{args}: {done.stdout} {done.stderr}")
    return done.stdout if code == 0 else done.stderr


@case("131,072 GPUs and 90 days: within 10 s, formula and simulation agree, and saves cost less than synchronous ones")
def _():
    from_ = time.monotonic()
    doc = json.loads(plan(*LARGE, "--json"))
    expect(time.monotonic() - from_ < 10, "it took", time.monotonic() - from_)
    expect(abs(doc["plan"]["formula"] - doc["plan"]["simulated"]) < 0.01, doc["plan"])
    expect(doc["plan"]["simulated"] > doc["baseline"]["simulated"] + 0.1, doc["baseline"])
    expect(doc["plan"]["cost_day"] < doc["baseline"]["cost_day"], "money")
    expect(doc["memory"]["interval_s"] <= doc["storage"]["interval_s"], doc["memory"])
    equal(doc["days"], 90)
    equal([c["goodput"] for c in doc["changes"]], sorted((c["goodput"] for c in doc["changes"]), reverse=True))


@case("the tables say the same as the document")
def _():
    text, doc = plan(*LARGE), json.loads(plan(*LARGE, "--json"))
    has(text, "131072 GPUs on 16384 nodes", "TIER", "memory ", "storage ", "WHAT WOULD PAY", "saved: ")
    row = re.search(r"this plan +([\d.]+)% +([\d.]+)%", text)
    equal([float(row[1]), float(row[2])], [round(100 * doc["plan"]["formula"], 2), round(100 * doc["plan"]["simulated"], 2)])


@case("what a job has shown in its span log takes the place of defaults")
def _():
    daemon = single_node.Daemon(tempfile.mkdtemp(dir=top))
    spans = daemon.top / "spans"
    daemon.options += ["--span-log", str(spans)]
    daemon.start()
    run = Run("-n", 2, "--job", "gpt", "--socket", daemon.socket, "--inject", "kill:rank=1@step=20", "--", TRAIN, "--steps", 40,
              "--save-memory-every", 5, "--save-storage-every", 10)
    run.wait(0)
    equal(daemon.stop(), 0)
    doc = json.loads(plan("--gpus", 16, "--from-span-log", spans, "--json"))
    lines = [json.loads(line) for line in spans.read_text().splitlines()]
    saves = sorted(s["captured_bytes"] for s in lines if s["span"] == "save")
    equal(doc["input"]["state"], 2.0 * saves[len(saves) // 2], "that of two nodes")
    expect(doc["input"]["mtbf_node_s"] < 2 * 600, "one loss in less than ten minutes", doc["input"])
    has(plan("--gpus", 16, "--from-span-log", spans), "measured: ")
    equal(json.loads(plan("--gpus", 16, "--from-span-log", spans, "--state", "1TB", "--json"))["input"]["state"], 1e12)


@case("the picture stands alone, and shows what the document says")
def _():
    path, doc = top / "plan.svg", json.loads(plan(*LARGE, "--json"))
    path.write_text("of before")
    plan(*LARGE, "--picture", path)
    root = xml.etree.ElementTree.fromstring(path.read_text())
    svg = "{http://www.w3.org/2000/svg}"
    said = root.find(svg + "desc").text
    for of in ("plan", "baseline"):
        has(said, f"{100 * doc[of]['formula']:.2f}% by formula", f"{100 * doc[of]['simulated']:.2f}% simulated")
    dots = {c.get("class"): (float(c.get("cx")), float(c.get("cy"))) for c in root.iter(svg + "circle")}
    equal(sorted(dots), ["dot other", "dot plan"])
    expect(dots["dot plan"][1] < dots["dot other"][1], "the better one stands higher", dots)
    equal(dots["dot plan"][0] < dots["dot other"][0], doc["memory"]["interval_s"] < doc["input"]["baseline_s"])
    curves = [p.get("d") for p in root.iter(svg + "path") if p.get("class") in ("curve plan", "curve other")]
    equal(sorted(d.count("L") > 20 for d in curves), [False, False, True, True], "two curves, and what they are")
    expect(not re.search(r"nan|inf", path.read_text().split("</desc>")[1]), "numbers")
    expect("href" not in path.read_text(), "nothing is fetched")


@case("a picture is drawn whatever the plan is, and no device is written over")
def _():
    path = top / "odd.svg"
    for odd in (("--copies", 0, "--soft", "1%"), ("--mtbf-node", "100d"), ("--mtbf-node", "10000y", "--mtbf-cluster", "10000y"), ("--baseline", "1s"),
                ("--stall", "20s")):
        plan(*LARGE, *odd, "--picture", path)
        text = path.read_text()
        xml.etree.ElementTree.fromstring(text)
        expect(not re.search(r"nan|inf", text.split("</desc>")[1]), f"{odd}: {text}")
    has(plan(*LARGE, "--picture", "/dev/null", code=FAILED), "not a regular file")
    has(plan(*LARGE, "--picture", top / "none" / "p.svg", code=FAILED), "No such file")


SMALL, LONG, MUCH = "0.000001", "1000000y", "1000000000PB"
ENDS = {"--gpus": (1, 100000000), "--gpus-per-node": (1, 1024), "--state": (1, MUCH), "--mtbf-node": (SMALL, LONG), "--mtbf-cluster": (SMALL, LONG),
        "--soft": ("0.0001%", "100%"), "--copies": (0, 4), "--store-bandwidth": (1, MUCH), "--fabric-bandwidth": (1, MUCH), "--capture-bandwidth": (1, MUCH),
        "--stall": (SMALL, LONG), "--detect": (SMALL, LONG), "--restart": (SMALL, LONG), "--step": (SMALL, LONG), "--overhead": ("0.0001%", "100%"),
        "--storage-most": (SMALL, LONG), "--storage-least": (SMALL, LONG), "--baseline": (SMALL, LONG), "--days": (1, 3650), "--price": (0, 1000000000)}


def no_number(text):
    raise ValueError(f"{text} stands in the document")


@case("the ends of what each option takes come to an end, with numbers")
def _():
    for option, ends in ENDS.items():
        for end in ends:
            days = () if option == "--days" else ("--days", 9)  # a tenth of the time to simulate, to the same end
            doc = json.loads(plan(*LARGE, *days, option, end, "--json"), parse_constant=no_number)
            equal(sorted(map(type, doc["plan"].values()), key=str), sorted([float] * 8 + [int] * 3, key=str), f"{option} {end}")
            expect(0 <= doc["plan"]["simulated"] <= 1 and 0 <= doc["baseline"]["simulated"] <= 1, f"{option} {end}", doc)


@case("where more happens than can be simulated, it says what was")
def _():
    absurd = (*LARGE, "--mtbf-node", SMALL, "--days", 3650)
    has(plan(*absurd), "this plan: simulated for ", "synchronous: simulated for ", " only, not 10.0 y")
    doc = json.loads(plan(*absurd, "--json"))
    expect(0 < doc["plan"]["simulated_s"] < doc["days"] * 86400, doc["plan"])
    equal(json.loads(plan(*LARGE, "--json"))["plan"]["simulated_s"], 90 * 86400)
    expect("simulated for" not in plan(*LARGE), "all of it was")


@case("where failures come faster than restarts end, it says that no interval helps, and names none of years")
def _():
    args = ("--gpus", 16, "--state", "1TB", "--mtbf-node", "1s", "--store-bandwidth", "1MB/s")
    done = subprocess.run([CKPT, "plan", *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    has(done.stderr, "no interval helps: something fails every 500.0 ms, and a restart from memory takes ")
    doc = json.loads(plan(*args, "--json"))
    expect(doc["memory"]["interval_s"] < 86400 and doc["storage"]["interval_s"] < 1e9, doc["memory"], doc["storage"])
    quiet = subprocess.run([CKPT, "plan", *map(str, LARGE)], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(quiet.stderr, "")


@case("what cannot be is refused, with what is wanted")
def _():
    has(plan(code=USAGE), "--gpus N")
    has(plan("--gpus", 8, code=USAGE), "--state is missing")
    has(plan(*LARGE, "--mtbf-node", "5 years", code=USAGE), "90d, 5y")
    has(plan(*LARGE, "--state", "-3TB", code=USAGE), "5.7TB")
    has(plan(*LARGE, "--copies", 9, code=USAGE), "0 to 4")
    has(plan(*LARGE, "--price", "much", code=USAGE), "money")
    has(plan(*LARGE, "--price", "1e10", code=USAGE), "money")
    has(plan(*LARGE, "--state", "1e25", code=USAGE), "up to 1000000000PB")
    has(plan(*LARGE, "--mtbf-node", "1000001y", code=USAGE), "up to 1000000y")
    has(plan(*LARGE, "--days", 0, code=USAGE), "1 to 3650")
    has(plan(*LARGE, "--from-span-log", top / "none", code=FAILED), "No such file")


sys.exit(cases.end())
