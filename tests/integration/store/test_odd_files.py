"""What somebody has put into a store in the place of a file: a FIFO, a socket, a link out of it, a device. No command waits for it, nothing
is read through it or written to it. Neither does ckptd wait for what a setting names, nor ckpt report for what stands in the folder of a campaign."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import offline
from offline import case, cases, ckpt, make
from tap import BIN, DEADLINE, Failure, equal, expect, has, until

store, outside = offline.top / "store", offline.top / "outside"
make(store, 1, "--count", 3, "--rows", 4, "--cols", 4, "--healthy", "--verdict", "healthy", "--pin", "kept")
ckpt("tag", "1", "first", "--repo", store)
ckpt("restore", "3", "--to", offline.top / "safe", "--repo", store)
newest = max(path.name for path in store.glob("main/step-*"))

# Any file there is, and those that somebody may look for.
PLACES = sorted({str(path.relative_to(store)) for path in store.rglob("*")
                 if path.is_file() and (path.parent.parent != store / "main" or path.parent.name == newest)}
                | {"catalog.sqlite" + end for end in ("", "-journal", "-wal", "-shm")} | {".lock", ".gc-lock", "main/.lock"}
                | {f"main/{newest}/{name}" for name in ("PINNED", "HEALTH.json", "VERDICT.json", "MANIFEST.json")})
COMMANDS = [
    ("list",), ("show", "3"), ("ls", "3"), ("stats", "3"), ("stats",), ("verify",), ("verify", "--mark", "3"), ("restore", "3", "--to", "OUT"),
    ("export", "3", "--to", "OUT", "--format", "safetensors"), ("import", "SAFE", "--format", "safetensors", "--step", "4"),
    ("diff", "2", "3"), ("dump", "3", "embed", "--output", "OUT"), ("pin", "3"), ("unpin", "3"),
    ("tag", "3", "other"), ("tag",), ("forget", "3", "--force"), ("forget", "--keep-last", "1"), ("gc",), ("doctor",)]


def fifo(path):
    os.mkfifo(path)


def link(path):
    path.symlink_to(outside)


def unix(path):
    here = os.getcwd()
    os.chdir(path.parent)  # such a path may have 107 bytes
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path.name)
    os.chdir(here)


def device(path):
    os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero: who reads it to its end never ends


def spoilt(place, put):
    """A copy of the store with that in its place."""
    copy = offline.top / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy, copy_function=os.link)  # a file is replaced, not written
    for path in copy.rglob("*"):
        if path.name.startswith("catalog.sqlite"):  # which is written
            path.unlink()
            if store.joinpath(path.name).exists():
                shutil.copy2(store / path.name, path)
    path = copy / place
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    put(path)
    return copy


def ends(place, put, command):
    copy, out = spoilt(place, put), offline.top / "out"
    shutil.rmtree(out, ignore_errors=True)
    if out.is_file():
        out.unlink()
    words = [str(out) if word == "OUT" else str(offline.top / "safe") if word == "SAFE" else word for word in command]
    argv = [BIN / "ckpt", *words, *(["--store" if command[0] == "doctor" else "--repo", copy])]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words)} does not end with a {put.__name__} as {place}") from None
    expect(done.returncode >= 0, f"{' '.join(words)} with a {put.__name__} as {place}: signal {-done.returncode}",
           done.stderr[-2000:])
    expect(done.returncode != 2, f"{' '.join(words)} is called wrongly", done.stderr[-2000:])


@case("no command waits for a FIFO in the place of any file")
def _():
    for place in PLACES:
        for command in COMMANDS:
            ends(place, fifo, command)


@case("sockets, links out of the store and devices are no files either")
def _():
    for put in [unix, link] + ([device] if os.geteuid() == 0 else []):
        for place in PLACES:
            for command in (("list",), ("verify",), ("gc",)):
                outside.write_text("untouched")
                ends(place, put, command)
                equal(outside.read_text(), "untouched", f"{command} with a {put.__name__} as {place}")


def answers(sock):
    """A moment after the socket is there somebody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        return s.connect_ex(str(sock)) == 0


def daemon(place, put):
    """ckptd starts, or says why it does not."""
    copy, sock = spoilt(place, put), offline.top / "d.sock"
    err = offline.top / "ckptd.err"
    with open(err, "wb") as f:
        child = subprocess.Popen([BIN / "ckptd", "--store", copy, "--socket", sock], stderr=f, stdin=subprocess.DEVNULL)
    try:
        until(lambda: child.poll() is not None or answers(sock), f"ckptd with a {put.__name__} as {place}", DEADLINE)
        if child.poll() is None:
            done = subprocess.run([BIN / "ckpt", "status", "--socket", sock], capture_output=True, timeout=DEADLINE)
            equal(done.returncode, 0, done.stderr)
            child.send_signal(signal.SIGTERM)
        child.wait(DEADLINE)
        expect(child.returncode >= 0, f"{put.__name__} as {place}: {child.returncode}", err.read_text(errors="replace")[-2000:])
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        pathlib.Path(sock).unlink(missing_ok=True)


@case("ckptd does not wait for one")
def _():
    for place in PLACES:
        daemon(place, fifo)


@case("a catalog that is none is made anew")
def _():
    for place in ("catalog.sqlite", "catalog.sqlite-journal"):
        for put in (fifo, unix, link):
            daemon(place, put)
            equal((offline.top / "copy" / "catalog.sqlite").read_bytes()[:15], b"SQLite format 3", f"{put.__name__} as {place}")


def node_files(folder):
    """What a node of a cluster is given, by option: each of them is in order."""
    (folder / "roster").write_text("a 127.0.0.1:7470\n")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out",
                    "cert.pem", "-subj", "/CN=a", "-addext", "subjectAltName=DNS:a"], cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    (folder / "key.pem").chmod(0o600)
    (folder / "secret").write_text(os.urandom(32).hex() + "\n")
    (folder / "secret").chmod(0o600)
    (folder / "conf").write_text("")
    certificates = {"--cluster": "roster", "--cluster-cert": "cert.pem", "--cluster-cert-key": "key.pem", "--cluster-ca": "cert.pem"}
    keyed = {"--cluster": "roster", "--cluster-key": "secret", "--cluster-key-old": "secret"}
    registry = {"--registry-ca": "cert.pem", "--registry-cert": "cert.pem", "--registry-cert-key": "key.pem", "--registry-password-file": "secret"}
    return [certificates, keyed, {**keyed, **registry}, {"--config": "conf"}, {"--span-log": "spans"}]


def names_fifo(folder, files, option):
    """ckptd says so, although nobody writes there or reads from there."""
    argv = [BIN / "ckptd", "--socket", folder / "d.sock", *(["--node", "a"] if "--cluster" in files else [])]
    argv += ["--registry", "etcds://127.0.0.1:1/ckpt", "--registry-user", "u"] if "--registry-ca" in files else []
    for name, value in files.items():
        argv += [name, folder / ("fifo" if name == option else value)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        raise Failure(f"ckptd {option} waits for somebody at the other end of a FIFO") from None
    expect(done.returncode in (1, 2), f"{option}: {done.returncode}", done.stderr)
    has(done.stderr, str(folder / "fifo"))
    expect(re.search(r"(is not a|is no|not a) file", done.stderr), f"{option}: {done.stderr}")


@case("ckptd waits for no FIFO that a setting names")
def _():
    folder = offline.top / "node"
    folder.mkdir()
    fifo(folder / "fifo")
    wanted = set(re.findall(r"^  (--[a-z-]+) FILE ", subprocess.run([BIN / "ckptd", "--help"], capture_output=True, text=True).stdout, re.M))
    tried = set()
    for files in node_files(folder):
        for option in files:
            names_fifo(folder, files, option)
            tried.add(option)
    equal(tried, wanted, "options that name a file")


LINES = {
    "journal": [{"event": "begin", "file": "c", "seed": 1, "faults": 1, "ranks": 2, "save_memory_every": 2, "save_storage_every": 10, "hang_ms": 4000},
                {"event": "started", "wall_ns": 1 << 60},
                {"event": "fault", "index": 0, "kind": "kill", "rank": 1, "cause": "", "outcome": "fired", "wall_ns": 2 << 60, "ms": 5, "text": "dead"}],
    "train.jsonl": [{"event": "start", "rank": 0, "epoch": 1, "step": 0, "at_ns": 1 << 60, "total_ms": 5}],
    "spans": [{"span": "save", "node": "n", "target": "storage", "begun_ns": 1 << 60, "durable_ns": 5, "error": None}],
    "spans.1": [{"span": "recovery", "node": "n", "epoch": 1, "ended_ns": 1 << 60, "step": 0}], "run.log": [{}]}


def campaign_folder():
    """As a campaign leaves it, with one line of each kind."""
    folder = offline.top / "campaign"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, of_file in LINES.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in of_file))
    return folder


@case("ckpt report waits for nothing in the place of a file, and reads nothing through it")
def _():
    def huge(path):
        with open(path, "w") as f:
            f.truncate(1 << 40)

    secret = json.dumps(LINES["journal"][2] | {"text": "a secret"}) + "\n"
    for put in [fifo, unix, link, huge, pathlib.Path.mkdir] + ([device] if os.geteuid() == 0 else []):
        for name in LINES:
            folder = campaign_folder()
            outside.write_text(secret)
            (folder / name).unlink()
            put(folder / name)
            out, err = ckpt("report", folder, "--json", code=1)
            has(err, str(folder / name))
            expect("secret" not in out + err, name)


@case("ckpt report passes over what is no line, and bears any value")
def _():
    folder = campaign_folder()
    good = offline.data("report", folder)
    for name, after in ((n, a) for n in LINES for a in (b"\xff\xfe{\n", b"\0\0\n", b"[" * 60000 + b"\n", b"x" * 200000 + b"\n", b"{}\n[]\n7\n", b'{"ev')):
        folder = campaign_folder()
        with open(folder / name, "ab") as f:
            f.write(after)
        equal(offline.data("report", folder)["faults"], good["faults"], f"{name} {after[:9]}")
    for value in (-1, 0, (1 << 63) - 1, -(1 << 63), 1e308, -1e308, "text", "\x1b]0;x\x07\u202e", None, True, [], {}, [[]] * 99):
        for name, of_file in LINES.items():
            for i, line in enumerate(of_file):
                for key in set(line) - {"event", "span"}:
                    folder = campaign_folder()
                    with open(folder / name, "a") as f:
                        f.write(json.dumps(line | {key: value}) + "\n")
                    for options in ((), ("--html", folder / "page")):
                        done = subprocess.run([BIN / "ckpt", "report", folder, *options], capture_output=True, timeout=DEADLINE)
                        expect(done.returncode in (0, 1) and b"\x1b" not in done.stdout + done.stderr, f"{key} {value}", done)


sys.exit(cases.end())
