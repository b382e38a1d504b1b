"""Retention at work: a daemon that dies while it deletes, what its next life finds, and others who pin, remove and restore meanwhile."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import single_node
from single_node import finish
from tap import BIN, DEADLINE, Cases, expect, until

cases = Cases()
WORLD = 2
RANK = ("--storage", 1, "--pause", 5, "--elements", 20000, "--deadline", 20000)


def ranks(d, *options):
    return d.endless(WORLD, *RANK, *options)


def acknowledged(running, level="durable"):
    return set().union(*[r.reached(level) for r in running])


def hidden(d, prefix=".trash-"):
    return sorted(d.store.glob(f"main/{prefix}*"))


def deletes(d, point):
    """It is in the middle of that: with the last of these points the manifest is gone, and files are left."""
    trash = hidden(d)
    return trash and (point != "gc.unlink" or not (trash[0] / "MANIFEST.json").exists())


@contextlib.contextmanager
def at_rest(running):
    """The ranks begin no save meanwhile, so that retention does not overtake who looks for long."""
    for rank in running:
        rank.process.send_signal(signal.SIGSTOP)
    yield
    for rank in running:
        rank.process.send_signal(signal.SIGCONT)


def marks(d, running, *command):
    """The newest checkpoint, after `ckpt` has pinned or tagged it."""
    with at_rest(running):
        epoch, step = d.committed()[-1]
        code, _, err = d.ckpt(command[0], f"{step}.e{epoch:04d}", *command[1:], "--repo", d.store)
        expect(code == 0, *command, err)
    return epoch, step


def nothing_hidden(d):
    until(lambda: not hidden(d), "the trash is emptied")


@cases.case("killed while it deletes: no list shows a part, nothing protected is lost, the next life deletes the rest")
def _():
    for point in ("gc.move", "gc.sync", "gc.manifest", "gc.unlink"):
        # Without read-back it removes after each commit, however busy the machine is.
        with single_node.daemon(options=("--keep-last", "1", "--no-verify")) as d:
            d.start(failpoints=f"{point}=delay:300")
            stop, running = ranks(d)
            until(lambda: acknowledged(running) and deletes(d, point) and d.stands(lambda: deletes(d, point)), f"it deletes ({point})")
            d.kill()
            newest = max(acknowledged(running))
            expect(hidden(d), "killed in the middle")
            expect(max(d.committed()) >= newest, f"{newest} was acknowledged: {d.committed()}")
            d.verify_all()
            d.start()
            until(lambda: len(acknowledged(running)) and max(acknowledged(running)) > newest, "saves go on")
            finish(stop, running)
            nothing_hidden(d)
            d.verify_all()


@cases.case("each job by its rules: at most so many stay, pinned and tagged ones beside them")
def _():
    with single_node.daemon(options=("--keep-last", "3")) as d:
        d.start()
        stop, running = ranks(d, "--wait", "verified")
        until(lambda: d.committed(), "a checkpoint")
        pinned = marks(d, running, "pin")
        until(lambda: len(acknowledged(running, "verified")) >= 6, "more of them")
        tagged = marks(d, running, "tag", "best")
        until(lambda: len(acknowledged(running, "verified")) >= 14, "many of them")
        finish(stop, running)
        until(lambda: len(d.committed()) <= 5, f"only what the rules keep: {d.committed()}")
        nothing_hidden(d)
        expect(pinned in d.committed() and tagged in d.committed(), f"{pinned} and {tagged} of {d.committed()}")
        expect(set(d.committed()) >= set(sorted(acknowledged(running))[-3:]), "the newest three")
        d.verify_all()
        expect(d.stop() == 0, "the daemon's end")
        expect(d.text().count("no rule keeps it") >= 8, "it says what goes")


@cases.case("without read-back the newest ones stay")
def _():
    with single_node.daemon(options=("--keep-last", "2", "--no-verify")) as d:
        d.start()
        stop, running = ranks(d, "--wait", "durable")
        until(lambda: len(acknowledged(running)) >= 10, "many of them")
        finish(stop, running)
        until(lambda: len(d.committed()) == 2, f"two: {d.committed()}")
        expect(d.committed() == sorted(acknowledged(running))[-2:], f"the newest two: {d.committed()}")


@cases.case("the command line removes while the daemon saves and removes; ranks that come back restore")
def _():
    with single_node.daemon(options=("--keep-last", "4")) as d:
        d.start()
        stop, running = ranks(d)
        for _ in range(6):
            seen = len(acknowledged(running))
            until(lambda: len(acknowledged(running)) >= seen + 3, "saves go on")
            code, _, err = d.ckpt("forget", "--keep-last", "2", "--repo", d.store)
            expect(code == 0, "forget:", code, err)
        running[1].kill()
        running[1] = d.rank(1, WORLD, *RANK, "--until-file", stop, name="rank1.again")
        until(lambda: len(running[1].reached("durable")) >= 2, "it goes on")
        finish(stop, running)
        nothing_hidden(d)
        d.kill()
        d.verify_all()
        d.start()
        again = [d.rank(r, WORLD, "--restore-only", "--elements", 20000, name=f"restored{r}") for r in range(WORLD)]
        for rank in again:
            expect(rank.wait() == 0, f"restore: {rank.process.returncode}: {rank.lines()[-3:]}")


@cases.case("what a crash left half-written goes after its time, and not before")
def _():
    with single_node.daemon() as d:
        d.start()
        stop, running = ranks(d)
        until(lambda: d.committed(), "a checkpoint")
        finish(stop, running)
        d.kill()
        left = [d.store / "main" / name for name in (".writing-step-000000999998.e0001-1f", "step-000000999999.e0001",
                                                     ".abandoned-step-000000999997.e0001.1f")]
        for path in left:  # as this release leaves it, and as older ones do
            path.mkdir()
            file = path / "rank-00000-of-00002.params.safetensors"
            file.write_bytes(b"x" * 5000)
            for at in (file, path):
                os.utime(at, (time.time() - 120, time.time() - 120))
        d.options += ["--collect-after", "10h"]
        d.start()
        stop, running = ranks(d)
        until(lambda: len(acknowledged(running)) >= 3, "saves go on")
        finish(stop, running)
        expect(all(path.exists() for path in left[:2]), "somebody may want to look")
        d.kill()
        d.options[-1] = "1ms"
        d.start()
        until(lambda: not any(path.exists() for path in left) and not hidden(d), "it is deleted")
        d.verify_all()


@cases.case("whoever lists or verifies what is removed meanwhile is told of no damage")
def _():
    for look in (["list", "--json"], ["list", "--all", "--json"], ["verify", "--all", "--json"]):
        with single_node.daemon() as d:
            subprocess.run([BIN / "make_store", "--count", "12", d.store, "1"], check=True)
            slow = d.environment(CKPT_FAILPOINTS="disk.read=delay:20")
            looker = subprocess.Popen([BIN / "ckpt", *look, "--repo", d.store], stdout=subprocess.PIPE, text=True, env=slow)
            until(lambda: d.fired.exists() and d.fired.read_text().count("fired") > 2, "it has begun to read")
            code, _, err = d.ckpt("forget", "--keep-last", "1", "--repo", d.store)
            expect(code == 0, "forget:", code, err)
            out, _ = looker.communicate(timeout=DEADLINE)
            seen = {c.get("state") or c["result"] for c in json.loads(out)["checkpoints"]}
            expect(looker.returncode == 0 and seen <= {"committed", "ok", "removed"}, look, looker.returncode, seen)


@cases.case("what is removed while the daemon reads it back is not called damaged")
def _():
    with single_node.daemon(options=("--persist-every", "1000000")) as d:
        d.start(failpoints="disk.read=delay:800")
        stop, running = ranks(d)
        until(lambda: d.committed(), "a checkpoint")
        reads = d.fired.read_text().count("fired")
        until(lambda: d.fired.read_text().count("fired") >= reads + 3, "it is being read: repository, manifest, node manifest")
        expect(d.ckpt("forget", "latest", "--force", "--repo", d.store)[0] == 0, "forget")
        until(lambda: "not verified" in d.text(), "its read-back ends")
        expect("removed meanwhile" in d.text(), d.text()[-2000:])
        stop.touch()


@cases.case("ckpt forget is killed: whatever is left of it, the daemon's next life deletes")
def _():
    with single_node.daemon() as d:
        d.start()
        stop, running = ranks(d, "--wait", "durable")
        until(lambda: len(acknowledged(running)) >= 4, "some checkpoints")
        finish(stop, running)
        d.kill()
        for point in ("disk.rename.after=kill@2", "disk.unlink=kill@1", "disk.unlink=kill@4", "disk.rmdir=kill@1"):
            before = d.committed()
            if len(before) < 2:
                break
            done = subprocess.run([BIN / "ckpt", "forget", "--keep-last", str(max(1, len(before) - 2)), "--repo", d.store, "--job", "main"],
                                  capture_output=True, text=True, env=d.environment(CKPT_FAILPOINTS=point))
            expect(done.returncode in (-9, 0), point, done.returncode, done.stderr)
            expect(before[-1] in d.committed(), "the newest is there")
            d.verify_all()
        expect(hidden(d), "some of it was left")
        d.start()
        nothing_hidden(d)
        d.verify_all()


sys.exit(cases.end())
