"""Only a job without any checkpoint is told -ENOENT, which is a fresh start. Whatever else ckpt_restore refuses has a code and a sentence of its own, for the
program and in the daemon's log."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import pathlib

import single_node
from scripted_ranks import DURABLE, LATEST, LATEST_HEALTHY, STORAGE, VERIFIED, Puppet, all_must, each, gather, save
from tap import BIN, DEADLINE, Cases, equal, expect, has, until

ENOENT, EIO, EINVAL, ENODATA, EBADMSG = -2, -5, -22, -61, -74
ELEMENTS = 1000
WORLD = 2
SOURCE = pathlib.Path(__file__).resolve().parents[3]
cases = Cases()


@contextlib.contextmanager
def saved(*steps):
    """A store with these steps; neither their ranks nor their daemon are left."""
    with single_node.daemon() as d:
        d.start()
        ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
        gather(ranks, ELEMENTS)
        for step in steps:
            save(ranks, step, step, target=STORAGE, level=DURABLE)
        for rank in ranks:
            rank.kill()
        d.stop()
        yield d


def refused(d, code, *parts, step=LATEST, elements=ELEMENTS, break_=lambda: None):
    """By all ranks, with a sentence that has these parts; break_: before they ask."""
    if not d.alive():
        d.start()
    ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
    gather(ranks, elements)
    break_()
    seen = len(d.text())
    for answer in each(ranks, "restore", step, 0):
        equal(answer.code, code)
        has(answer.text, *parts)
    if code != ENOENT:
        has(d.text()[seen:], "restore failed", *parts)
    for rank in ranks:
        rank.kill()


@cases.case("a job that has no checkpoint begins afresh, whatever it asks for")
def _():
    with single_node.daemon() as d:
        for step in (LATEST, LATEST_HEALTHY, 7):
            refused(d, ENOENT, "there is no checkpoint to restore", step=step)


@cases.case("one that has others does not")
def _():
    with saved(10, 20) as d:
        refused(d, ENODATA, "none of step 7", step=7)
        refused(d, ENODATA, "none that was marked healthy", step=LATEST_HEALTHY)


@cases.case("a tensor of another shape is named on both sides")
def _():
    with saved(10) as d:
        refused(d, EINVAL, "tensor w", f"[{WORLD * (ELEMENTS + 1)}]", f"[{WORLD * ELEMENTS}]", elements=ELEMENTS + 1)


@cases.case("manifests that are damaged are told")
def _():
    with saved(10, 20) as d:
        for path in d.store.glob("main/step-*/MANIFEST.json"):
            path.write_text("{}")
        refused(d, EBADMSG, "no intact checkpoint is left", "step 20", "step 10", "MANIFEST.json")
        refused(d, EIO, "the store cannot be read", "MANIFEST.json", step=LATEST_HEALTHY)


@cases.case("data files that are gone are told")
def _():
    with saved(10) as d:
        for path in d.store.glob("main/step-*/*.safetensors"):
            path.unlink()
        refused(d, EBADMSG, "no intact checkpoint is left", "step 10", ".safetensors")


@cases.case("a checkpoint that is a link is told, and so is a job")
def _():
    with saved(10) as d:
        real = next(d.store.glob("main/step-*"))
        real.rename(d.top / "moved")
        real.symlink_to(d.top / "moved")
        refused(d, EIO, "the store cannot be read", "no directories")
    with saved(10) as d:
        def move():
            (d.store / "main").rename(d.top / "moved")
            (d.store / "main").symlink_to(d.top / "moved")

        refused(d, EIO, "the store cannot be read", "may not be a link", break_=move)


@cases.case("a store that is gone is told")
def _():
    with saved(10) as d:
        refused(d, EIO, "the store cannot be read", str(d.store), break_=lambda: d.store.rename(d.top / "away"))


@cases.case("ranks that have begun a save in this epoch restore nothing, however late their daemon sees the save")
def _():
    with saved(10) as d:
        d.start()
        ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
        gather(ranks, ELEMENTS)
        d.process.send_signal(signal.SIGSTOP)
        all_must(ranks, "begin", 20, STORAGE, 0)
        for rank in ranks:
            rank.say("restore", LATEST, 0)
        d.process.send_signal(signal.SIGCONT)
        for rank in ranks:
            answer = rank.answer()
            equal(answer.code, EINVAL)
            has(answer.text, "saves were begun in epoch", "join again before restoring")
        for call in (("fence", 0), ("wait", 0, DURABLE, DEADLINE * 1000), ("join",), ("restore", 20, 0)):
            all_must(ranks, *call)
        for rank in ranks:
            rank.kill()


@cases.case("the example with another name for a tensor is refused, and the old run stays")
def _():
    top = pathlib.Path(tempfile.mkdtemp())
    text = (SOURCE / "docs/examples/train.c").read_text()
    for name, source in (("one", text), ("two", text.replace('"momentum"', '"momentum2"'))):
        (top / f"{name}.c").write_text(source)
        subprocess.run(["cc", "-std=c11", top / f"{name}.c", "-I", SOURCE / "libckpt", "-L", BIN.parent / "lib", "-lckpt",
                        f"-Wl,-rpath,{BIN.parent / 'lib'}", "-o", top / name], check=True)

    def train(name, code):
        done = subprocess.run([BIN / "ckpt", "run", "-n", "2", "--max-restarts", "0", "--store", top / "store", "--", top / name, "500"], cwd=top,
                              capture_output=True, text=True, timeout=120, check=False,
                              env={"PATH": "/usr/bin:/bin", "TMPDIR": str(top), "CKPT_KEEP_LAST": "3"})
        expect((done.returncode == 0) == (code == 0), done.returncode, done.stdout[-500:], done.stderr[-2000:])
        return done

    train("one", 0)
    before = sorted(path.name for path in top.glob("store/*/step-*"))
    done = train("two", 1)
    after = sorted(path.name for path in top.glob("store/*/step-*"))
    has(done.stderr, "tensor momentum2", "is not in checkpoint")
    expect(not re.search(r"epoch 2: step 0", done.stdout), done.stdout)
    equal(after[-3:], before[-3:])
    expect(set(after) <= set(before), after, before)  # what the rules gave up in the first run may go in the second
    shutil.rmtree(top)


def names(d):
    return sorted(path.name for path in d.store.glob("main/step-*"))


def ckpt(d, *words):
    code, out, err = d.ckpt(words[0], "--repo", d.store, *words[1:])
    equal(code, 0)
    return out, err


@cases.case("what was there stays when a program begins anew without asking, until somebody says that it may go")
def _():
    with single_node.daemon(options=("--keep-last", 2)) as d:
        def life(left, steps, *restore):
            if not d.alive():
                d.start()
            ranks = [Puppet(d, number, WORLD) for number in range(WORLD)]
            gather(ranks, ELEMENTS)
            if restore:
                all_must(ranks, "restore", *restore)
            for step in steps:
                save(ranks, step, step, target=STORAGE, level=VERIFIED)
            until(lambda: len(names(d)) == left, "retention has decided")
            for rank in ranks:
                rank.kill()
            d.stop()

        life(2, (10, 20, 30, 40))
        old = names(d)
        life(4, (1, 2, 3, 4))
        equal([name for name in names(d) if name in old], old)
        has(d.text(), "without restoring what was there", "--earlier-runs")
        life(5, (5, 6, 7, 8), LATEST)  # which is the newest, of the second run
        expect(set(old) < set(names(d)), names(d))
        out, err = ckpt(d, "list")
        has(out + err, "without restoring", "--earlier-runs")
        out, _ = ckpt(d, "forget", "--keep-last", 2, "--dry-run", "--json")
        rows = {row["name"]: row["why"] for row in json.loads(out)["checkpoints"]}
        equal([rows[name] for name in old], [["earlier run"]] * 2)
        ckpt(d, "forget", "--keep-last", 2, "--earlier-runs")
        equal([name.split(".")[0] for name in names(d)], ["step-000000000007", "step-000000000008"])


sys.exit(cases.end())
