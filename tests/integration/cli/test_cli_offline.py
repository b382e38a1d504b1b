"""ckpt help, version, list, show, ls and verify on stores without a daemon: exit codes, JSON, hostile stores, terminals, pipes."""

import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

from offline import (CANCELLED, CORRUPT, FAILED, NO_REPO, NONE_RESTORABLE, OK, REPAIRABLE, USAGE, case, cases, ckpt, data, equal, has, make,
                     top)
from tap import BIN, DEADLINE, NIGHTLY

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"
STEP1000 = "step-000000001000.e0001"


def states(where, *args):
    return [(c["job"], c["step"], c["epoch"], c["state"]) for c in data("list", "--repo", where, *args)["checkpoints"]]


def tree(where):
    return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size) for p in where.rglob("*"))


repo = top / "repo"
make(repo, "1000", "--world", 4, "--job", "gpt")
make(repo, "2000", "--world", 4, "--job", "gpt", "--healthy", "--pin", "paper")
make(repo, "900.2", "--world", 2, "--job", "gpt")
make(repo, "950.2", "--world", 2, "--job", "gpt", "--partial")
newest = repo / "gpt" / "step-000000000900.e0002"


# ---- help

@case("help names every command, and each has a help of its own")
def _():
    text, _ = ckpt("help")
    for command in data("help")["commands"]:
        has(text, command["name"], command["summary"])
        one, _ = ckpt("help", command["name"])
        equal(one, ckpt(command["name"], "--help")[0], command["name"])
        equal(one, ckpt(command["name"], "-h")[0], command["name"])
        has(one, command["summary"], *[f"--{o['name']}" for o in command["options"]])
    equal(text, ckpt("--help")[0])


@case("version is told in three ways")
def _():
    has(ckpt("version")[0], data("version")["version"])
    equal(ckpt("--version")[0], ckpt("version")[0])


@case("the documentation knows every command, option and exit code")
def _():
    text, document = DOCS.read_text(), data("help")
    names = [c["name"] for c in document["commands"]]
    for command in document["commands"]:
        has(text, f"ckpt {command['name']}")
        has(text, *[f"`--{o['name']}" for o in command["options"]])
    for option in document["general_options"] + document["repository_options"]:
        has(text, f"`--{option['name']}")
    for code in document["exit_codes"]:
        has(text, f"| {code['code']} | {code['name']} |")
    options = {o["name"] for c in document["commands"] for o in c["options"]}
    options |= {o["name"] for o in document["general_options"] + document["repository_options"]}
    for option in re.findall(r"`--([a-z-]+)", text):
        has(options, option)
    for name in re.findall(r"^## ckpt ([a-z]+)", text, re.M):
        has(names, name)


# ---- usage

@case("what is wrong on the command line is said, with code 2")
def _():
    wrong = [
        ([], "which command"), (["lst"], 'did you mean "list"'), (["xyzzy"], "no command"),
        (["list", "--jsn"], 'did you mean "--json"'), (["list", "--frobnicate"], "--frobnicate"), (["list", "-x"], "-x"),
        (["list", "--repo"], "wants a value"), (["list", "--repo="], "empty"), (["list", "--json=1"], "takes no value"),
        (["list", "extra"], "extra"), (["show", "1", "2"], '"2"'), (["help", "nothing"], "nothing"),
        (["list", "--last", "x"], "whole number"), (["list", "--last", "-1"], "whole number"),
        (["list", "--last", "99999999999999999999"], "whole number"), (["version", "--repo", "x"], "--repo"),
        (["--repo", "x", "version"], "--repo"), (["list", "--repo", repo, "--job", "../x"], "job"),
        (["show", "--repo", repo, "1x"], "1x"), (["show", "--repo", repo, "step-1"], "step-1"),
        (["show", "--repo", repo, "1.e"], "1.e"), (["show", "--repo", repo, "1" * 40], "no checkpoint"),
        (["verify", "--repo", repo, "--quick", "--read-data"], "exclude"), (["verify", "--all", "1000"], "exclude"),
    ]
    for share in ("0", "0%", "101%", "-5%", "five", "nan", "inf", "5%%", "1e400"):
        wrong.append((["verify", "--read-data-subset", share], "share"))
    for args, part in wrong:
        has(ckpt(*args, code=USAGE)[1], part)
    has(ckpt("list", "--repo", repo, code=USAGE, env={"CKPT_JOB": "a b"})[1], "CKPT_JOB")


@case("sizes and times are read as settings are, by every command that takes one")
def _():
    arguments = {"restore": ["latest", "--to", top / "sized"], "export": ["latest", "--to", top / "sized", "--format", "hf"], "drain": ["node1"],
                 "run": ["true"], "forget": ["--dry-run"], "halt": ["--now"], "rollback": ["latest"], "fault": ["stop", "0"]}
    clock, seen = {("halt", "before"), ("fault", "by")}, set()  # a moment; ahead or behind
    wrong = {"SIZE": ("1x", "1.G", "-1G", "G", "1 G"), "TIME": ("1x", "1.m", "0.0001s", "-1s", "s", "99999999999999999999d")}
    for command in data("help")["commands"]:
        store = ["--repo", repo] if command["repository"] else []
        for option in command["options"]:
            name, value = option["name"], option["value"]
            equal(value in ("SECONDS", "MS", "BYTES"), False, name)
            if value not in wrong or (command["name"], name) in clock or command["name"] == "plan":  # plans have TB and years
                continue
            for text in wrong[value]:
                _, err = ckpt(command["name"], f"--{name}={text}", *store, *arguments.get(command["name"], []), code=USAGE)
                has(err, f'--{name}: "{text}" is not allowed: expected a ', "such as")
            seen.add((command["name"], name))
    equal(len(seen) >= 15, True, f"only {seen}")
    whole, files = top / "sized", {}
    for size in ("100M", "16K", "16384"):
        data("restore", 1000, "--repo", repo, "--to", whole, "--max-file", size)
        files[size] = sorted((p.name, p.stat().st_size) for p in whole.iterdir())
        shutil.rmtree(whole)
    equal(len(files["16K"]) > len(files["100M"]), True, "nothing was split")
    equal(files["16384"], files["16K"])
    has(ckpt("flush", "--socket", top / "none", "--timeout", "1500ms", code=USAGE)[1], "whole seconds")
    for good in ("2m", "90", "0", "90s", "1d", "1.5m"):
        ckpt("flush", "--socket", top / "none", "--timeout", good, code=12)


@case("options stand before or after the command, with = or without")
def _():
    def lines(*args, **more):
        """Without the ages, which go on meanwhile."""
        return re.sub(r"\d+ (s|min) ago", "then", ckpt(*args, **more)[0]).split()

    due = lines("list", "--repo", repo)
    equal(lines("--repo", repo, "list"), due)
    equal(lines(f"--repo={repo}", "list"), due)
    equal(lines("list", env={"CKPT_REPO": str(repo)}), due)
    equal(lines("list", "--repo", "/nowhere", "--repo", repo), due, "the last one wins")
    has(ckpt("show", "--repo", repo, "--", "1000")[0], STEP1000)


@case("no repository is code 10, and said so")
def _():
    empty, file = top / "empty", top / "file"
    empty.mkdir()
    file.write_text("x")
    for command in ("list", "show", "ls", "verify"):
        has(ckpt(command, code=NO_REPO)[1], "--repo", "CKPT_REPO")
        has(ckpt(command, "--repo", top / "none", code=NO_REPO)[1], str(top / "none"))
        has(ckpt(command, "--repo", empty, code=NO_REPO)[1], "not a repository")
        ckpt(command, "--repo", file, code=NO_REPO)


# ---- list, show, ls

@case("list orders by epoch and step, and leaves out what was not committed")
def _():
    due = [("gpt", 1000, 1, "committed"), ("gpt", 2000, 1, "verified"), ("gpt", 900, 2, "committed")]
    equal(states(repo), due)
    equal(states(repo, "--all"), due + [("gpt", 950, 2, "partial")])
    equal(states(repo, "--last", "1"), due[-1:])
    equal(states(repo, "--last", "0"), [])
    out, err = ckpt("list", "--repo", repo)
    equal(len(out.splitlines()), 4)
    has(err, "1 directory without a commit")
    equal(ckpt("list", "--repo", repo, "-q")[1], "")
    has(ckpt("list", "--repo", repo, "--all")[0], "partial")
    equal(data("list", "--repo", repo)["partial"], 1)


@case("list, show and ls agree with the files")
def _():
    for entry in data("list", "--repo", repo)["checkpoints"]:
        files = list((repo / "gpt" / entry["name"]).glob("*.safetensors"))
        shown = data("show", "--repo", repo, entry["name"])
        for facts in (entry, shown):
            equal(facts["bytes"], sum(f.stat().st_size for f in files), "bytes")
            equal(facts["files"], len(files), "files")
        equal(shown["ranks"], entry["ranks"])
        equal(sum(g["bytes"] for g in shown["groups"]), entry["bytes"])
        equal(sum(n["files"] for n in shown["nodes"]), entry["files"])
        for tensor in data("ls", "--repo", repo, entry["name"])["tensors"]:
            equal(sum(p["to"] - p["from"] for p in tensor["pieces"]), tensor["bytes"], tensor["name"])
            for piece in tensor["pieces"]:
                assert piece["to"] <= (repo / "gpt" / entry["name"] / piece["file"]).stat().st_size
    pinned = [c for c in data("list", "--repo", repo)["checkpoints"] if c["pinned"]]
    equal([c["step"] for c in pinned], [2000])
    equal(data("show", "--repo", repo, "2000")["pin"]["note"], "paper")


@case("ls shows names, types, shapes and pieces")
def _():
    out, _ = ckpt("ls", "--repo", repo, "1000")
    row = next(line.split() for line in out.splitlines() if line.startswith("rowwise"))
    equal(row, ["rowwise", "tensor", "F32", "[64,", "48]", "12288", "4"])
    out, _ = ckpt("ls", "--repo", repo, "1000", "--pieces")
    equal(sum(line.startswith("rowwise") for line in out.splitlines()), 4)
    has(out, "rank-00003-of-00004.params.safetensors", "flat ")


def named(where, *names):
    """A checkpoint of one-byte tensors with these names."""
    folder = top / "named"
    folder.mkdir()
    header = json.dumps({n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(len(names)))
    ckpt("import", folder, "--format", "hf", "--repo", where)
    shutil.rmtree(folder)


@case("one long name does not make every row of a table wide; where most are long they are in line")
def _():
    long, short = "x" * 400, [f"layer.{i}.weight" for i in range(9)]
    named(top / "one-long", long, *short)
    for option in ((), ("--pieces",)):
        lines = ckpt("ls", "--repo", top / "one-long", *option)[0].splitlines()
        equal(len(lines), 11)
        equal(max(len(line) for line in lines if long not in line) < 120, True, option)
        has("\n".join(lines), f"\n{long}  ")
        ends = {line.index("  ") for line in lines if line.startswith("layer")}
        column = {len(line) - len(line[max(ends):].lstrip()) for line in lines if line.startswith("layer")}
        equal(len(column), 1, "the others are in line")
    named(top / "most-long", *(c * n for c, n in zip("abcd", (70, 80, 90, 100))), "short")
    lines = ckpt("ls", "--repo", top / "most-long")[0].splitlines()
    equal({line.index("tensor") for line in lines[1:]}, {102})


@case("a step is named in four ways")
def _():
    for text, due in (("latest", "step-000000000900.e0002"), ("1000", STEP1000), ("1000.e0001", STEP1000),
                      ("1000.e1", STEP1000), (STEP1000, STEP1000)):
        equal(data("show", "--repo", repo, text)["name"], due, text)
    equal(data("show", "--repo", repo)["name"], "step-000000000900.e0002")
    both = top / "both"
    make(both, "5.1")
    make(both, "5.3")
    equal(data("show", "--repo", both, "5")["epoch"], 3, "the newest epoch of that step")


@case("a step that is not there is code 1, and its neighbours are named")
def _():
    has(ckpt("show", "--repo", repo, "1500", code=FAILED)[1], STEP1000, "step-000000002000.e0001")
    has(ckpt("show", "--repo", repo, "1000.e0009", code=FAILED)[1], "1000.e0009")
    has(ckpt("show", "--repo", repo, "950", code=FAILED)[1], "never committed")


@case("latest of none is code 22")
def _():
    none = top / "none-committed"
    make(none, "7", "--partial")
    for command in ("show", "ls", "verify"):
        ckpt(command, "--repo", none, code=NONE_RESTORABLE)
    ckpt("verify", "--repo", none, "--all", code=NONE_RESTORABLE)
    has(ckpt("show", "--repo", repo, "--job", "other", code=FAILED)[1], "no job other", "gpt")
    out, err = ckpt("list", "--repo", none)
    equal(out, "")
    has(err, "no checkpoints")


@case("several jobs want one to be named")
def _():
    many = top / "many"
    make(many, "1", "--job", "a")
    make(many, "2", "--job", "b")
    equal([s[0] for s in states(many)], ["a", "b"])
    has(ckpt("show", "--repo", many, code=USAGE)[1], "a, b")
    equal(data("show", "--repo", many, "--job", "b")["step"], 2)
    equal(data("show", "--repo", many, env={"CKPT_JOB": "a"})["step"], 1)
    equal(data("show", "--repo", many, "--job", "b", env={"CKPT_JOB": "a"})["step"], 2, "the option wins")
    equal(len(data("verify", "--repo", many, "--all")["checkpoints"]), 2)


# ---- verify

def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


@case("verify finds an intact store intact, and writes nothing")
def _():
    before = tree(repo)
    for depth in ("--read-data", "--quick", "--read-data-subset=30%"):
        for entry in data("verify", "--repo", repo, "--all", depth)["checkpoints"]:
            equal((entry["result"], entry["findings"], entry["error"]), ("ok", [], None))
    equal(data("verify", "--repo", repo)["checkpoints"][0]["depth"], "data", "the default")
    has(ckpt("verify", "--repo", repo)[0], "ok", newest.name)
    equal(tree(repo), before)


@case("verify names file, tensor and bytes of damage, and goes on to the others")
def _():
    hurt = top / "hurt"
    shutil.copytree(repo, hurt)
    name = "rank-00002-of-00004.params.safetensors"
    piece = next(p for t in data("ls", "--repo", hurt, "1000")["tensors"] if t["name"] == "rowwise"
                 for p in t["pieces"] if p["file"] == name)
    flip(hurt / "gpt" / STEP1000 / name, piece["from"] + 5)
    # The other steps have the same bytes: integration/test_repair.py.
    out, _ = ckpt("verify", "--repo", hurt, "1000", code=REPAIRABLE)
    has(out, name, "tensor rowwise", f"bytes {piece['from']} to {piece['to']}")
    ckpt("verify", "--repo", hurt, "1000", "--quick")
    document = data("verify", "--repo", hurt, "--all", code=REPAIRABLE)
    equal([c["result"] for c in document["checkpoints"]], ["damaged", "ok", "ok"])
    finding = document["checkpoints"][0]["findings"][0]
    equal((finding["file"], finding["tensor"], finding["from"], finding["to"]),
          (name, "rowwise", piece["from"], piece["to"]))
    equal(states(hurt)[0][3], "committed", "verify alone leaves no mark")
    ckpt("verify", "--repo", hurt, "--all", "--mark", code=REPAIRABLE)
    equal([s[3] for s in states(hurt)], ["damaged", "verified", "verified"])
    has(data("show", "--repo", hurt, "1000")["health"]["detail"], name, "rowwise")
    flip(hurt / "gpt" / STEP1000 / name, piece["from"] + 5)
    ckpt("verify", "--repo", hurt, "1000", "--quick", "--mark")
    equal(states(hurt)[0][3], "damaged", "a quick look does not acquit")
    ckpt("verify", "--repo", hurt, "1000", "--mark")
    equal(states(hurt)[0][3], "verified")


@case("a broken manifest is listed as damaged, and is code 21 elsewhere")
def _():
    broken = top / "broken"
    make(broken, "1")
    make(broken, "2")
    manifest = broken / "main" / "step-000000000002.e0001" / "MANIFEST.json"
    flip(manifest, 30)
    equal([s[3] for s in states(broken)], ["committed", "damaged"])
    for command in ("show", "ls", "verify"):
        out, err = ckpt(command, "--repo", broken, code=CORRUPT)
        has(out + err, "MANIFEST.json")
    ckpt("show", "--repo", broken, "1")
    manifest.write_text("")
    equal([s[3] for s in states(broken)], ["committed", "damaged"])


# ---- hostile stores

@case("pipes, links, loops and giants in a store neither block nor mislead")
def _():
    bad = top / "bad"
    make(bad, "1")
    make(bad, "2")
    here = bad / "main" / "step-000000000002.e0001"
    for target in ("MANIFEST.json", "node-node0.json", "HEALTH.json"):
        path = here / target
        aside = path.read_bytes() if path.exists() else None
        for kind in (os.mkfifo, lambda p: os.symlink("/etc/passwd", p), lambda p: os.symlink(p, p), os.mkdir):
            path.unlink(missing_ok=True)
            kind(path)
            out, err = ckpt("list", "--repo", bad)
            code = OK if target == "HEALTH.json" else CORRUPT
            ckpt("verify", "--repo", bad, code=code)
            assert "root:" not in out + err, "a link was followed"
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        with open(path, "wb") as f:
            f.truncate(1 << 40)
        ckpt("list", "--repo", bad)
        ckpt("verify", "--repo", bad, code=code)
        path.unlink()
        if aside is not None:
            path.write_bytes(aside)
    os.symlink("/etc", bad / "etc")
    os.mkfifo(bad / "pipe")
    os.symlink(bad, bad / "main" / "step-000000000009.e0001")
    equal(states(bad), [("main", 1, 1, "committed"), ("main", 2, 1, "committed")])


@case("what a store says does not drive the terminal or break JSON")
def _():
    evil = top / os.fsdecode(b"ev\x1b[31mil\n\xff")
    make(evil, "1")
    (evil / "\x1b[2Jjob").mkdir()
    for command in ("list", "show", "ls", "verify"):
        out, err = ckpt(command, "--repo", evil)
        assert "\x1b" not in out + err, command
        data(command, "--repo", evil)
    _, err = ckpt("list", "--repo", str(evil) + "x", code=NO_REPO)
    assert "\x1b" not in err


# ---- terminals, pipes, signals

def drained(master):
    """All that was written to a terminal whose other side is closed."""
    text = b""
    while select.select([master], [], [], 0.2)[0]:
        try:
            text += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    return text.decode()


def on_terminal(*args, env=None):
    """stdout of ckpt on a terminal."""
    master, slave = pty.openpty()
    done = subprocess.run([BIN / "ckpt", *map(str, args)], stdout=slave, stderr=subprocess.DEVNULL, timeout=DEADLINE,
                          env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    equal(done.returncode, OK)
    return drained(master)


@case("colour only on a terminal, and not with NO_COLOR")
def _():
    has(on_terminal("list", "--repo", repo), "\x1b[", "verified")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("list", "--repo", repo, env=env), env
    assert "\x1b" not in ckpt("list", "--repo", repo, env={"TERM": "xterm"})[0]


@case("a reader that goes away is no error, a full disk is one")
def _():
    for command in (["list"], ["ls", "--json"], ["help"], ["verify"]):
        args = [BIN / "ckpt", *command, *([] if command == ["help"] else ["--repo", repo])]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(args, stdout=writer, stderr=subprocess.PIPE, timeout=DEADLINE)
        os.close(writer)
        assert b"stdout" not in done.stderr and b"ipe" not in done.stderr, done.stderr
        equal(done.returncode, OK, f"closed pipe: {command}")
        with open("/dev/full", "w") as full:
            done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, timeout=DEADLINE)
        equal(done.returncode, FAILED, f"full: {command}")
        has(done.stderr.decode(), "stdout")


def catches(pid, sig):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) >> (sig - 1) & 1


@case("an interrupted verify stops cleanly with code 130")
def _():
    long = top / "long"
    make(long, "1", "--count", 150, "--rows", 400, "--cols", 300)
    for sig in (signal.SIGINT, signal.SIGTERM):
        child = subprocess.Popen([BIN / "ckpt", "verify", "--all", "--json", "--repo", str(long)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        limit = time.monotonic() + DEADLINE
        while not catches(child.pid, sig) and child.poll() is None and time.monotonic() < limit:
            time.sleep(0.001)
        child.send_signal(sig)
        out, err = child.communicate(timeout=DEADLINE)
        equal(child.returncode, CANCELLED, f"{sig!r}: {err}")
        assert len(json.loads(out)["checkpoints"]) < 150


@case("progress is shown on a terminal, and silenced by --quiet")
def _():
    for quiet in (False, True):
        master, slave = pty.openpty()
        args = [BIN / "ckpt", "verify", "--all", "--repo", top / "long"] + (["-q"] if quiet else [])
        done = subprocess.run(args, stdout=subprocess.DEVNULL, stderr=slave, timeout=DEADLINE)
        os.close(slave)
        equal(done.returncode, OK)
        shown = drained(master)
        if quiet:
            equal(shown, "")
        else:
            has(shown, "of 150: ", "verified", "\r")


def processor_time():
    """Seconds of it that ended children had: other processes do not make them many more."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def listing(where, n):
    """The seconds of two lists of n checkpoints."""
    began = processor_time()
    equal(len(states(where)), n)
    equal(len(ckpt("list", "--repo", where)[0].splitlines()), n + 1)
    return processor_time() - began


@case("a list of ten times as many checkpoints takes some ten times as long")
def _():
    few = 1000 if NIGHTLY else 200
    took = []
    for n in (few, 10 * few):
        make(top / f"list-of-{n}", "1", "--count", n, "--world", 1, "--rows", 4, "--cols", 4)
        took.append(min(listing(top / f"list-of-{n}", n) for _ in range(3)))
    print(f"# two lists of {few} and of {10 * few}: {took[0]:.3f} s, {took[1]:.3f} s")
    assert took[1] < 25 * took[0], f"seconds of processor time: {took}"  # a hundred times as long: it is quadratic


shutil.rmtree(os.fsencode(top), ignore_errors=True)
@case("list: a manifest that cannot be read says nothing of its checkpoint")
def _():
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        return "setpriv is not installed"
    closed = top / "closed"
    make(closed, 1000)
    make(closed, 2000)
    manifest = next(closed.glob("*/step-000000001000.*/MANIFEST.json"))
    manifest.chmod(0)
    prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, BIN / "ckpt", "list", "--repo", closed, "--json"], capture_output=True, text=True)
    equal(done.returncode, OK, done.stderr)
    first, second = json.loads(done.stdout)["checkpoints"]
    equal((first["state"], first["bytes"], second["state"]), ("unreadable", None, "committed"))
    has(first["detail"], "Permission denied")
    has(done.stderr, "Permission denied")
    manifest.chmod(0o644)
    manifest.write_text("{}")
    equal(data("list", "--repo", closed)["checkpoints"][0]["state"], "damaged")
    return None


sys.exit(cases.end())
