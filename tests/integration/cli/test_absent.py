"""What is not there: no store, an empty one, an unknown job, several jobs, an unknown step or tag, a newest checkpoint that is damaged.
Every command that takes a store, a job or a step answers by the rule in cli.md, with its exit code and with words on stderr."""

import json
import shutil
import sys

import pages
import single_node
from offline import (CORRUPT, FAILED, NO_REPO, NONE_RESTORABLE, PARTIAL, USAGE, cases, ckpt, data, equal, flip, has, make, run, top)
from tap import expect

NO_DAEMON = 12
DOCS = pages.command_line()
OUT = top / "out"
SOME = "step-000000000002.e0001"

# Command line without the store; whether it wants a checkpoint ("one"), or looks at all that there are ("all").
ROWS = {
    "list": (("list",), "all"),
    "show": (("show",), "one"),
    "show a step": (("show", "7"), "step"),
    "show a tag": (("show", "best"), "tag"),
    "show healthy": (("show", "healthy"), "healthy"),
    "ls": (("ls",), "one"),
    "ls a step": (("ls", "7"), "step"),
    "stats": (("stats",), "job"),
    "stats of one": (("stats", "latest"), "one"),
    "stats of a step": (("stats", "7"), "step"),
    "verify": (("verify",), "one"),
    "verify a step": (("verify", "7"), "step"),
    "verify --all": (("verify", "--all"), "job"),
    "restore": (("restore", "latest", "--to", OUT), "one"),
    "restore a step": (("restore", "7", "--to", OUT), "step"),
    "restore healthy": (("restore", "healthy", "--to", OUT), "healthy"),
    "export": (("export", "latest", "--to", OUT, "--format", "hf"), "one"),
    "export a step": (("export", "7.e0001", "--to", OUT, "--format", "dcp-hf"), "step"),
    "diff": (("diff", "latest", "latest"), "one"),
    "diff a step": (("diff", "latest", "7"), "second step"),
    "dump": (("dump", "latest", "bias", "--output", "-"), "one"),
    "dump a step": (("dump", "step-000000000007.e0001", "bias", "--output", "-"), "step"),
    "pin": (("pin", "latest"), "one"),
    "pin a step": (("pin", "7"), "step"),
    "unpin": (("unpin", "latest"), "one"),
    "unpin a tag": (("unpin", "best"), "tag"),
    "tag": (("tag", "latest", "new"), "one"),
    "tag a step": (("tag", "7", "new"), "step"),
    "tags": (("tag",), "job"),
    "forget by rule": (("forget", "--keep-last", "1"), "all"),
    "forget a step": (("forget", "7"), "step"),
    "gc": (("gc",), "all"),
    "rollback": (("rollback", "latest"), "one"),
    "rollback a step": (("rollback", "7"), "step"),
    "rollback healthy": (("rollback", "healthy"), "healthy"),
    "completion": (("completion", "steps"), "all"),
}
# Offered --repo, but in want of no checkpoint: import makes what is missing, bench measures the place.
OTHERS = {"import", "bench"}


def store(name, *makes):
    """A repository of these; without any an empty one."""
    repo = top / name
    for args in makes or ((9,),):
        make(repo, *args)
    if not makes:
        shutil.rmtree(repo / "main")
    return repo


empty = store("empty")
one = store("one", (1, "--job", "gpt"), (2, "--job", "gpt"))
two = store("two", (1, "--job", "gpt"), (2, "--job", "llama"))
partial = store("partial", (7, "--job", "gpt", "--partial"))
STEP_WANTED = ("step", "second step", "tag")


def tree(repo):
    return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size) for p in repo.rglob("*") if p.name not in (".gc-lock",) and p.is_file())


def refused(row, code, *words, repo=None, job=None, env=None, also=()):
    """With --json as well, in which stdout stays empty. Nothing is written anywhere."""
    at = (("--repo", repo) if repo else ()) + (("--job", job) if job else ())
    before = tree(repo) if repo and repo.exists() else None
    for more in ((), ("--quiet",)) if "-" in ROWS[row][0] else ((), ("--json",), ("--quiet",)):
        out, err = ckpt(*ROWS[row][0], *at, *more, *also, code=code, env=env)
        equal(out, "", f"stdout of {row}")
        has(err, f"ckpt {ROWS[row][0][0]}: ", *words)
        equal(len(err.splitlines()), 1, f"lines on stderr of {row}: {err}")
        expect(not OUT.exists() and not list(top.glob(".out*")), f"{row} left something behind")
    equal(tree(repo) if before is not None else None, before, f"{row} changed the store")


def no_store(row):
    refused(row, NO_REPO, "--repo", "CKPT_REPO")
    refused(row, NO_REPO, str(top / "none"), repo=top / "none")
    refused(row, NO_REPO, str(top / "none"), env={"CKPT_REPO": str(top / "none")})


def unknown_job(row):
    refused(row, FAILED, f"there is no job nosuch in {two}; there are: gpt, llama", repo=two, job="nosuch")
    refused(row, FAILED, "no job nosuch", "gpt", repo=one, env={"CKPT_JOB": "nosuch"})
    refused(row, USAGE, "--job", repo=one, job="../gpt")


def which_job(row):
    if ROWS[row][0][0] in ("list", "gc") or row == "verify --all":
        ckpt(*ROWS[row][0], "--repo", two)
    else:
        refused(row, USAGE, "several jobs", "--job", "gpt, llama", repo=two)


def nothing_committed(row):
    """Of an empty store, of an empty store and a job that is yet to come, and where a save was never completed."""
    want = ROWS[row][1]
    for repo, job in ((empty, None), (empty, "gpt"), (partial, None), (partial, "gpt")):
        if want == "all":
            ckpt(*ROWS[row][0], "--repo", repo, *(("--job", job) if job else ()))
        elif want == "job" and row != "verify --all" and (job or repo == partial):
            ckpt(*ROWS[row][0], "--repo", repo, *(("--job", job) if job else ()))
        elif want == "tag":
            refused(row, FAILED, "there is no tag best", repo=repo, job=job)
        elif want == "step" and repo == partial:
            refused(row, FAILED, "was never committed", repo=repo, job=job)
        elif want == "step":
            refused(row, FAILED, "there is no checkpoint", str(repo), "none that was committed", repo=repo, job=job)
        else:
            refused(row, NONE_RESTORABLE, str(repo), repo=repo, job=job)


def unknown_step(row):
    want = ROWS[row][1]
    if want == "tag":
        refused(row, FAILED, "there is no tag best", "gpt", "ckpt tag", repo=one)
    elif want in STEP_WANTED:
        refused(row, FAILED, "there is no checkpoint", "7", SOME, "below", repo=one)
    elif want == "healthy":
        refused(row, NONE_RESTORABLE, "healthy", repo=one)


def damaged_newest(row):
    """Step 2 cannot be read: its manifest is damaged, or it lost a file's bytes."""
    command, want = ROWS[row][0][0], ROWS[row][1]
    for kind in ("manifest", "data"):
        repo = top / "damaged"
        shutil.rmtree(repo, ignore_errors=True)
        for step in (1, 2):
            make(repo, step, "--job", "gpt", "--seed", step)
        folder = repo / "gpt" / SOME
        if kind == "manifest":
            flip(folder / "MANIFEST.json", 30)
        else:
            for path in folder.glob("*.safetensors"):
                flip(path, path.stat().st_size - 1)
        if want != "one":
            continue
        if command in ("restore", "export"):
            older(row, repo)
        elif command in ("pin", "unpin", "tag"):
            has(ckpt(*ROWS[row][0], "--repo", repo)[0], SOME)  # a mark beside the manifest, on what is named
        elif kind == "manifest" and command != "verify":
            refused(row, CORRUPT, "MANIFEST.json", repo=repo)
        elif command == "verify":
            out, _ = ckpt(*ROWS[row][0], "--repo", repo, code=CORRUPT)
            has(out, "damaged", SOME)
        elif command == "dump":
            has(run(*ROWS[row][0], "--repo", repo, code=CORRUPT)[1], SOME, "bias", "do not match their digest")


def older(row, repo):
    """The way back to an older checkpoint is taken, and cannot be overlooked: not by its code, its words, or its JSON."""
    for more in ((), ("--quiet",), ("--json",)):
        out, err = ckpt(*ROWS[row][0], "--repo", repo, *more, code=PARTIAL)
        has(err, f"passed over {SOME}: ", f"{OUT} is complete, but it is step-000000000001.e0001 and not the newest checkpoint",
            "1 newer cannot be read")
        expect(any(OUT.iterdir()), "nothing was written")
        if "--json" in more:
            answer = json.loads(out)
            equal((answer["step"], [p["step"] for p in answer["passed_over"]]), (1, [2]))
        shutil.rmtree(OUT)
    data(*ROWS[row][0][:1], 1, *ROWS[row][0][2:], "--repo", repo)  # asked for by its name it is no surprise
    shutil.rmtree(OUT)
    flip(repo / "gpt" / "step-000000000001.e0001" / "MANIFEST.json", 30)
    for path in (repo / "gpt" / SOME).glob("*.safetensors"):
        flip(path, 1)
    _, err = ckpt(*ROWS[row][0], "--repo", repo, code=NONE_RESTORABLE)
    has(err, "none of 2 checkpoints can be restored")
    expect(not OUT.exists(), "something was left behind")


SITUATIONS = (("no store", no_store), ("an unknown job", unknown_job), ("several jobs and none named", which_job), ("nothing committed", nothing_committed),
              ("an unknown step or tag", unknown_step), ("a newest one that is damaged", damaged_newest))


def every(check):
    wrong = []
    for row in ROWS:
        try:
            check(row)
        except Exception as error:  # the other commands are looked at all the same
            wrong.append(f"{row}: {error}")
    expect(not wrong, "\n".join(wrong))


for what, check in SITUATIONS:
    cases.run(f"{what}: every command says so, with its code", every, check)


def new_job():
    """import makes the job that it is asked for, and the store."""
    folder = top / "files"
    ckpt("restore", 1, "--to", folder, "--repo", one)
    for repo in (top / "made", one):
        ckpt("import", folder, "--format", "safetensors", "--repo", repo, "--job", "new")
        equal([c["job"] for c in data("list", "--repo", repo, "--job", "new")["checkpoints"]], ["new"])
    ckpt("import", folder, "--format", "safetensors", code=NO_REPO)


def catalogs():
    """recoveries --store: its own option for the store, the same rule."""
    ckpt("recoveries", "--store", top / "none", code=NO_REPO)
    has(ckpt("recoveries", "--store", two, "--job", "nosuch", code=FAILED)[1], "there is no job nosuch", "gpt, llama")
    ckpt("recoveries", "--store", two, "--job", "gpt")
    ckpt("recoveries", "--store", empty, "--job", "gpt")


def daemons():
    """Those that ask a daemon: 12 without one, 1 for a job that it has not, with the jobs that it has."""
    orders = (("flush",), ("halt", "--now"), ("recoveries",), ("ranks",), ("drain", "node1"))
    for order in orders:
        has(ckpt(*order, "--socket", top / "none.sock", code=NO_DAEMON)[1], str(top / "none.sock"))
    has(ckpt("rollback", "latest", "--repo", two, "--job", "gpt", "--socket", top / "none.sock", code=NO_DAEMON)[1], str(top / "none.sock"))
    with single_node.daemon() as d:
        d.start()
        has(ckpt("rollback", "latest", "--repo", two, "--job", "gpt", "--socket", d.socket, code=FAILED)[1], "no job 'gpt'")
        for stored in (1000000, 2):  # at first the store has no job at all
            rank = d.rank(0, 1, "--steps", 1000000, "--pause", 5, "--storage", stored)
            rank.until(lambda rank=rank: rank.of("durable" if stored == 2 else "captured"), "a snapshot")
            for order in orders[:-1]:
                _, err = ckpt(*order, "--socket", d.socket, "--job", "nosuch", code=FAILED)
                has(err, "no job", "nosuch", "main")
            if stored > 2:
                expect(not list(d.store.glob("main/*")), "the store has something of it")
                rank.kill()
        has(ckpt(*orders[-1], "--socket", d.socket, "--job", "nosuch", code=FAILED)[1], "nosuch")
        ckpt("recoveries", "--socket", d.socket, "--job", "main")


cases.run("a job that is imported is made", new_job)
cases.run("the catalog of a store", catalogs)
cases.run("commands that ask a daemon", daemons)


@cases.case("no command was left out, and the page has the rule")
def _():
    known = {c["name"] for c in data("help")["commands"] if c["repository"]}
    equal({args[0] for args, _ in ROWS.values()}, known - OTHERS)
    section = DOCS[DOCS.index("## Exit codes"):DOCS.index("## JSON")]
    for word in ("no such job", "several jobs", "no such checkpoint", "nothing was committed", "not the newest"):
        has(section, word)


sys.exit(cases.end())
