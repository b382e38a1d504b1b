"""A browser without a screen, for pages that this project makes: what they show, whether they complain, and how wide they are."""

import contextlib
import html.parser
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

from tap import BIN, DEADLINE, equal, expect

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARTEFACTS = pathlib.Path(os.environ.get("CKPT_ARTEFACTS") or BIN.parents[1] / "artefacts")
if not BROWSER:
    print("no chromium-headless-shell and no chromium here: scripts/deps installs the former when CKPT_BROWSER is set")
    sys.exit(77)


def run(address, *options):
    profile = pathlib.Path(os.environ["TMPDIR"]) / "profile"
    done = subprocess.run([BROWSER, "--no-sandbox", "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                           "--virtual-time-budget=3000", *options, address], capture_output=True, text=True, timeout=DEADLINE)
    equal(done.returncode, 0, done.stderr[-2000:])
    return done


def browse(address, *options):
    return run(f"http://{address}/", *options).stdout


def complaints(address):
    """What the page, or the browser about it, writes to the console."""
    return [line for line in run(f"http://{address}/", "--enable-logging=stderr", "--dump-dom").stderr.splitlines() if ":CONSOLE" in line]


def picture(address, name, size, *options):
    """A picture of the page for people to look at."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTEFACTS / f"{name}.png"
    path.unlink(missing_ok=True)
    browse(address, f"--window-size={size}", *options, f"--screenshot={path}")
    expect(path.stat().st_size > 20000 and path.read_bytes().startswith(b"\x89PNG"), "a picture", path)


DARK = "--blink-settings=preferredColorScheme=0"


class Text(html.parser.HTMLParser):
    """The text outside of script and style, the names of all elements, and their attributes."""

    def __init__(self, document):
        super().__init__()
        self.inside, self.words, self.elements, self.attributes = [], [], [], []
        self.feed(document)
        self.text = " ".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data):
        if not self.inside and data.strip():
            self.words.append(data.strip())


@contextlib.contextmanager
def served(bodies):
    """A server that has these bodies, by path."""
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in bodies else 404)
            self.send_header("Content-Type", "application/json" if self.path.endswith(".json") else "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(bodies.get(self.path, "").encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


# Windows have a least width: a frame has none.
FRAME = """<!doctype html><title>waiting</title><iframe src="/page" style="width: WIDTHpx; height: 800px; border: 0"></iframe><script>
const look = () => {
	const page = document.querySelector("iframe").contentDocument;
	if (!page || !page.querySelector("READY")) return setTimeout(look, 20);
	const tables = [...page.querySelectorAll(".scroll")];
	document.title = `${page.documentElement.scrollWidth} ${tables.filter((t) => t.scrollWidth > t.clientWidth).length} of ${tables.length}`;
};
look();
</script>"""


def framed(bodies, width, ready):
    """How wide "/page" is in a frame of that width once `ready` is in it, how many of its tables scroll, and how many there are."""
    with served(bodies | {"/": FRAME.replace("WIDTH", str(width)).replace("READY", ready)}) as address:
        seen = re.search(r"<title>(\d+) (\d+) of (\d+)</title>", browse(address, "--dump-dom"))
    expect(seen, "no page in the frame")
    return [int(n) for n in seen.groups()]
