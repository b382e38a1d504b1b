"""The status page in a browser without a screen: what it shows is what the daemon says, and nothing of that becomes markup."""

import contextlib
import html.parser
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import urllib.request

from launcher import TRAIN, Run, top
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARTEFACTS = pathlib.Path(os.environ.get("CKPT_ARTEFACTS") or BIN.parents[1] / "artefacts")
PAGE = (pathlib.Path(__file__).parents[3] / "ckptd" / "observe" / "web" / "status.html").read_text()
EVIL = '<img src=x onerror="document.title=\'owned\'">'
if not BROWSER:
    print("no chromium-headless-shell and no chromium here: scripts/deps installs the former when CKPT_BROWSER is set")
    sys.exit(77)

cases = Cases()
case = cases.case


def browse(address, *options):
    profile = pathlib.Path(os.environ["TMPDIR"]) / "profile"
    done = subprocess.run([BROWSER, "--no-sandbox", "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                           "--virtual-time-budget=3000", *options, f"http://{address}/"], capture_output=True, text=True, timeout=DEADLINE)
    equal(done.returncode, 0, done.stderr[-2000:])
    return done.stdout


class Text(html.parser.HTMLParser):
    """The text outside of script and style, and the names of all elements."""

    def __init__(self, document):
        super().__init__()
        self.inside, self.words, self.elements = [], [], []
        self.feed(document)
        self.text = " ".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag in ("script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data):
        if not self.inside and data.strip():
            self.words.append(data.strip())


@case("jobs, levels, ranks and recoveries of a running job are shown, and it looks as it should")
def _():
    run = Run("-n", 4, "--job", "gpt", "--store", top / "store", "--inject", "kill:rank=1@step=60", "--", TRAIN, "--steps", 100000,
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
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        for scheme, options in (("light", ()), ("dark", ("--blink-settings=preferredColorScheme=0",))):
            picture = ARTEFACTS / f"status-page-{scheme}.png"
            picture.unlink(missing_ok=True)
            browse(address, "--window-size=1300,1200", *options, f"--screenshot={picture}")
            expect(picture.stat().st_size > 20000 and picture.read_bytes().startswith(b"\x89PNG"), "a picture", picture)
    finally:
        run.child.terminate()
        run.child.wait(DEADLINE)
    has(page.text, "gpt", "4 ranks, epoch 2", "Newest verified", "rank 1 is lost", "from memory", "joined")
    # What the machine lacks is noted, too.
    expect(all(f["severity"] == "notice" for f in findings), "nothing is wrong", findings)
    has(page.text, *([f["code"] for f in findings] or ["Nothing is wrong"]))
    expect(page.elements.count("polyline") >= 4 and page.elements.count("rect") >= 4, "step times drawn")
    expect("The daemon does not answer" in PAGE and not re.search(r"\b(undefined|NaN|null)\b", page.text), page.text[:3000])


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


@contextlib.contextmanager
def liar(word, frame=""):
    """The page from a server that lies, without the policy that would help it, at "/page"; at "/" too, unless that is a frame of it."""
    bodies = {"/status.json": json.dumps(lies(word)), "/page": PAGE.replace("@NONCE@", "x"), "/": frame or PAGE.replace("@NONCE@", "x")}

    class Liar(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in bodies else 404)
            self.send_header("Content-Type", "application/json" if self.path == "/status.json" else "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(bodies.get(self.path, "").encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@case("what the daemon says stays text, whatever it is")
def _():
    with liar(EVIL) as address:
        page = Text(browse(address, "--dump-dom"))
    equal(page.elements.count("img"), 0, "images")
    expect(page.text.count("<img src=x") >= 12, "shown as text:", page.text.count("<img src=x"))
    expect("owned" not in page.text.split("<img")[0], "the title")


# Windows have a least width: a frame has none.
FRAME = """<!doctype html><title>waiting</title><iframe src="/page" style="width: WIDTHpx; height: 800px; border: 0"></iframe><script>
const look = () => {
	const page = document.querySelector("iframe").contentDocument;
	if (!page || !page.querySelector(".job")) return setTimeout(look, 20);
	const tables = [...page.querySelectorAll(".scroll")];
	document.title = `${page.documentElement.scrollWidth} ${tables.filter((t) => t.scrollWidth > t.clientWidth).length} of ${tables.length}`;
};
look();
</script>"""


@case("on a telephone the page does not scroll sideways: its tables do")
def _():
    for width in (400, 320):
        for word in ("a few words of one sentence, as an error has it", "x" * 63, "/scratch/" + "long-name_" * 30):
            with liar(word, FRAME.replace("WIDTH", str(width))) as address:
                seen = re.search(r"<title>(\d+) (\d+) of (\d+)</title>", browse(address, "--dump-dom"))
            expect(seen, "no page in the frame")
            equal((int(seen[1]), int(seen[2])), (width, int(seen[3])), f"width of the page, tables that scroll; {word[:20]}")


@case("the file fetches nothing from elsewhere and writes no markup")
def _():
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "import ", "src=", "href=", "@import", "url("):
        expect(word not in PAGE, word)
    equal(set(re.findall(r'https?://[^"`\s]+', PAGE)), {"http://www.w3.org/2000/svg"})


sys.exit(cases.end())
