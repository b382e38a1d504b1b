"""The status page in a browser without a screen: what it shows is what the daemon says, and nothing of that becomes markup."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

from browser import DARK, Text, browse, framed, picture, served
from launcher import CKPT, ENVIRONMENT, PACED, Run, own_socket, top
from tap import DEADLINE, Cases, equal, expect, has, until

PAGE = (pathlib.Path(__file__).parents[3] / "ckptd" / "observe" / "web" / "status.html").read_text()
EVIL = '<img src=x onerror="document.title=\'owned\'">'

cases = Cases()
case = cases.case


@case("jobs, levels, ranks and recoveries of a running job are shown, and it looks as it should")
def _():
    run = Run("-n", 4, "--job", "gpt", "--store", top / "store", "--inject", "kill:rank=1@step=60", "--", *PACED, "--steps", 100000,
              "--save-memory-every", 5, "--save-storage-every", 20, CKPT_HTTP="127.0.0.1:0", CKPT_LOG="info")
    try:
        run.until_err("status page and metrics at")
        address = re.search(r"metrics at http://([^/]+)/", run.err())[1]

        def job():
            with urllib.request.urlopen(f"http://{address}/status.json", timeout=DEADLINE) as answer:
                jobs = json.load(answer)["jobs"]
            return jobs and jobs[0]["epoch"] == 2 and (jobs[0]["saves"]["verified"]["epoch"] or 0) == 2

        until(job, "a verified save after the loss", pause=0.1)
        page = Text(browse(address, "--dump-dom"))
        with urllib.request.urlopen(f"http://{address}/healthz", timeout=DEADLINE) as answer:
            findings = json.load(answer)["findings"]
        picture(address, "status-page-light", "1300,1200")
        picture(address, "status-page-dark", "1300,1200", DARK)
    finally:
        run.child.terminate()
        run.child.wait(DEADLINE)
    has(page.text, "gpt", "4 ranks, epoch 2", "Newest verified", "rank 1 is lost", "from memory", "joined")
    # What the machine lacks is noted, too.
    expect(all(f["severity"] == "notice" for f in findings), "nothing is wrong", findings)
    has(page.text, *([f["code"] for f in findings] or ["Nothing is wrong"]))
    expect(page.elements.count("polyline") >= 4 and page.elements.count("rect") >= 4, "step times drawn")
    expect("The daemon does not answer" in PAGE and not re.search(r"\b(undefined|NaN|null)\b", page.text), page.text[:3000])


@case("faults on purpose are shown with their kind, what became of each, and what was done")
def _():
    run = Run("-n", 2, "--job", "gpt", "--store", top / "faulty", "--", *PACED, "--steps", 1000000, "--save-memory-every", 5, "--save-storage-every", 20,
              CKPT_HTTP="127.0.0.1:0", CKPT_FAULTS="yes", CKPT_LOG="info")
    try:
        run.until_err("status page and metrics at")
        address = re.search(r"metrics at http://([^/]+)/", run.err())[1]
        socket = own_socket()
        page = Text(browse(address, "--dump-dom"))
        expect("Faults on purpose" not in page.text, "there was none")
        for fault, code in ((("kill", 1), 0), (("flip-arena", 0), 0), (("clock-jump", "--for", "100ms"), 0), (("disk-corrupt",), 0), (("drain", "n9"), 1)):
            done = subprocess.run([CKPT, "fault", *map(str, fault), "--job", "gpt", "--socket", socket], capture_output=True, text=True, env=ENVIRONMENT,
                                  timeout=DEADLINE)
            equal(done.returncode, code, f"{fault}: {done.stderr}")
        with urllib.request.urlopen(f"http://{address}/status.json", timeout=DEADLINE) as answer:
            told = json.load(answer)["jobs"][0]["faults"]
        page = Text(browse(address, "--dump-dom"))
    finally:
        run.child.terminate()
        run.child.wait(DEADLINE)
    equal([(f["kind"], f["outcome"]) for f in told], [(kind, "fired") for kind in ("kill", "flip-arena", "clock-jump", "disk-corrupt")] + [("drain", "not-fired")])
    shown = page.text.split("Faults on purpose")[1]
    for fault in told:
        has(shown, fault["kind"], fault["outcome"], fault["text"])


def lies(word):
    """A status in which every text is that."""
    save = {"step": 1, "epoch": 1, "begun_ns": 1, "target": word, "level": word, "captured_ms": None, "durable_ms": None,
            "verified_ms": None, "write_ms": None, "captured_bytes": 1, "written_bytes": 0, "error": word}
    level = {"step": None, "at_ns": None, "p50_ms": None, "p99_ms": None}
    rank = {"rank": 0, "state": word, "pid": 0, "hung": False, "phase": word, "step": 1, "beat_age_ms": None}
    recovery = {"ended_ns": 1, "epoch": 1, "ok": True, "step": 1, "source": word, "reason": word, "passed_over": word, "state": word,
                "total_ms": None, "detect_ms": None, "decide_ms": None, "gather_ms": None, "choose_ms": 1.0, "fetch_ms": 1.0, "load_ms": None,
                "first_step_ms": None}
    saves = {"captured": level, "durable": level, "verified": level, "written_bytes": 0, "write_ms": 0, "recent": [save]}
    finding = {"code": word, "severity": "failing", "job": word, "text": word, "remedy": word}
    return {"node": word, "version": word, "uptime_s": 1, "now_ns": 2, "store": word, "memory": {"used": 1, "limit": 2},
            "disk": {"engine": word, "free_bytes": 1, "total_bytes": 2}, "health": {"status": "failing", "findings": [finding]},
            "jobs": [{"name": word, "world": 1, "epoch": 1, "state": word, "stopping": False, "committed": 0, "failed": 0, "saves": saves,
                      "ranks": [rank], "recoveries": {"recent": [recovery]}}]}


def liar(word):
    """What a server that lies serves: the page without the policy that would help it."""
    page = PAGE.replace("@NONCE@", "x")
    return {"/status.json": json.dumps(lies(word)), "/page": page, "/": page}


@case("what the daemon says stays text, whatever it is")
def _():
    with served(liar(EVIL)) as address:
        page = Text(browse(address, "--dump-dom"))
    equal(page.elements.count("img"), 0, "images")
    expect(page.text.count("<img src=x") >= 12, "shown as text:", page.text.count("<img src=x"))
    expect("owned" not in page.text.split("<img")[0], "the title")


@case("on a telephone the page does not scroll sideways: its tables do")
def _():
    for width in (400, 320):
        for word in ("a few words of one sentence, as an error has it", "x" * 63, "/scratch/" + "long-name_" * 30):
            wide, scrolling, tables = framed(liar(word), width, ".job")
            equal((wide, scrolling), (width, tables), f"width of the page, tables that scroll; {word[:20]}")


@case("the file fetches nothing from elsewhere and writes no markup")
def _():
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "import ", "src=", "href=", "@import", "url("):
        expect(word not in PAGE, word)
    equal(set(re.findall(r'https?://[^"`\s]+', PAGE)), {"http://www.w3.org/2000/svg"})


sys.exit(cases.end())
