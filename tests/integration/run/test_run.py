"""ckpt run with ranks that know nothing of ckpt: how they are started, watched, replaced and ended."""

import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import time

from launcher import CKPT, DEADLINE, ENVIRONMENT, TRAIN, Run, gone, run, sh, tidy, top, until_gone
from tap import BIN, Cases, equal, expect, has

cases = Cases(tidy)
case = cases.case


# ---- starting

@case("each rank finds its place in its environment")
def _():
    names = ["CKPT_JOB", "CKPT_RANK", "CKPT_WORLD", "CKPT_LOCAL_WORLD", "CKPT_EPOCH", "RANK", "WORLD_SIZE", "LOCAL_RANK",
             "LOCAL_WORLD_SIZE"]
    done = run("-n", 3, "--job", "place", *sh("echo " + " ".join("$" + name for name in names)), RANK="77")
    equal(sorted(done.out().splitlines()), [f"[{r}] place {r} 3 3 1 {r} 3 {r} 3" for r in range(3)])


@case("lines of several ranks have a prefix, and none with --no-prefix")
def _():
    script = "echo out $RANK; echo err $RANK >&2; printf half"
    done = run("-n", 2, *sh(script))
    equal(sorted(done.out().splitlines()), ["[0] half", "[0] out 0", "[1] half", "[1] out 1"])
    has(done.err(), "[0] err 0\n", "[1] err 1\n")
    done = run("-n", 2, "--no-prefix", *sh(script))
    equal(sorted(done.out().splitlines()), ["half", "half", "out 0", "out 1"])


@case("a single rank keeps stdout and stderr")
def _():
    equal(run(*sh("printf half")).out(), "half")


@case("ranks of a launcher whose stdout is closed can write there")
def _():
    for ranks in ("1", "2"):
        done = subprocess.run([CKPT, "run", "-n", ranks, "--max-restarts", "0", *sh("echo out || exit 9")], stderr=subprocess.PIPE, timeout=DEADLINE,
                              env=dict(ENVIRONMENT, TMPDIR=str(top)), preexec_fn=lambda: os.close(1))
        equal(done.returncode, 0, done.stderr)


@case("megabytes of lines come whole and in order")
def _():
    done = run("-n", 2, *sh("seq 200000"))
    for rank in range(2):
        lines = [line[4:] for line in done.out().splitlines() if line.startswith(f"[{rank}] ")]
        equal(lines == [str(i) for i in range(1, 200001)], True, f"{len(lines)} lines of rank {rank}")


@case("ranks read nothing and have clean signals")
def _():
    script = "cat; kill -PIPE $$; echo no"
    done = run("--max-restarts", 0, *sh(script), code=1)
    has(done.err(), "was killed by signal 13")
    equal(done.out(), "")
    has(run("--max-restarts", 0, *sh("kill -XFSZ $$; echo no"), code=1).err(), "was killed by signal 25")


@case("a command that does not exist ends the run")
def _():
    has(run("-n", 3, "--", "no-such-command", code=1).err(), "cannot start no-such-command: No such file")


@case("what is wrong on the command line is said, with code 2")
def _():
    wrong = [
        ([], "is missing"), (["-n", "0", "true"], "1 to 64"), (["-n", "65", "true"], "1 to 64"), (["-n", "x", "true"], "number"),
        (["--job", "a/b", "true"], "job"), (["--daemon", "maybe", "true"], "auto or external"),
        (["--daemon", "external", "--store", "x", "true"], "--store"), (["--max-restarts", "1001", "true"], "1000"),
        (["--inject", "kill:rank=1@step=4", "true"], "position 11,"), (["--inject", "kill:rank=0", "true"], "trigger"),
        (["--grace", "1000001", "true"], "at most 1000000s"), (["--socket", "x" * 200, "true"], "bytes"),
    ]
    for args, text in wrong:
        done = run(*args, code=2)
        has(done.err(), text)
        equal(done.out(), "")


@case("no daemon at a socket is code 12")
def _():
    run("--daemon", "external", "--socket", top / "none", "true", code=12)
    equal(subprocess.run([CKPT, "status", "--socket", top / "none"], capture_output=True).returncode, 12)


@case("what stands at the path of a socket, and is not the daemon's, stays")
def _():
    text, other = top / "precious.txt", top / "other.sock"
    text.write_text("precious")
    has(run("--socket", text, "true", code=12).err(), f"{text} exists and is not a socket")
    equal(text.read_text(), "precious")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(other))
        listening.listen()
        has(run("--socket", other, "true", code=12).err(), f"another process listens at {other}")
    expect(other.is_socket(), "the socket of another process is gone")
    own = top / "own.sock"
    run("--socket", own, "true")
    expect(not own.exists(), "the daemon's own is left")


@case("a limit of file sizes ends no daemon, and the error says what to raise")
def _():
    limit = f"ulimit -f 100; exec {CKPT} run -n 1 --job limited --max-restarts 0 {TRAIN} --batch 2 --steps 2"
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE)
    equal(done.returncode, 1)
    has(done.stderr, "File too large: raise the limit of file sizes (ulimit -f) for ckptd")
    expect("killed by signal" not in done.stderr, done.stderr)


@case("a socket whose folder is gone is named, with where it was named and what to do, before anything is started")
def _():
    socket = str(top / "ckpt-ended" / "ckptd.sock")
    has(run(*sh("echo no"), code=12, CKPT_SOCKET=socket).err(), f"CKPT_SOCKET names the socket {socket}", "No such file", "unset CKPT_SOCKET")
    has(run("--socket", socket, *sh("echo no"), code=12).err(), f"--socket names the socket {socket}", "leave out --socket")
    done = subprocess.run([BIN / "ckptd", "--socket", socket], env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode and f"the folder of the socket {socket} is not there" in done.stderr, done)


@case("a report that cannot be written is said before a rank is started")
def _():
    (top / "is-a-file").write_text("")
    for path, text in ((top / "none" / "r.json", "No such file"), (top, "Is a directory"), (top / "is-a-file" / "r.json", "Not a directory")):
        done = run("--report", path, *sh("echo started"), code=1)
        has(done.err(), f"--report {path}", text)
        equal(done.out(), "")
    equal((run("--report", "r.json", *sh("true")).folder / "r.json").read_bytes()[:1], b"{")


@case("a store that another daemon has is code 11")
def _():
    store = top / "locked"
    first = Run("--store", store, *sh("echo up; sleep 1000"))
    first.until_out("up")
    second = run("--store", store, *sh("echo no"), code=11)
    has(second.err(), f"another daemon writes to the store {store}", "give another --store", "--socket PATH")
    equal(second.out(), "")
    first.child.send_signal(signal.SIGINT)
    first.wait(130)


# ---- restarts

@case("the store of a configuration file is one, and the run without any says that it has none")
def _():
    conf, store = top / "ckpt.conf", top / "configured"
    conf.write_text(f"[node]\nstore = {store}\n")
    remark = "no store: checkpoints are kept in memory only"
    done = run("-n", 1, "--job", "kept", "--min-ranks", 1, "--", TRAIN, "--steps", 20, CKPT_CONFIG=str(conf))
    expect(remark not in done.err(), done.err())
    equal([path.name[:17] for path in (store / "kept").glob("step-*")], ["step-000000000020"])
    has(run(*sh("true"), CKPT_CONFIG="/dev/null").err(), remark)


@case("a rank that fails at first is started again")
def _():
    done = run("-n", 2, *sh('[ $RANK = 0 ] || { echo x >> tries; [ $(wc -l < tries) -ge 3 ] || exit 7; }; echo done'))
    has(done.err(), "rank 1", "exited with status 7 before it was at work: restart 1 of 10", "restart 2 of 10")
    equal(sorted(done.out().splitlines()), ["[0] done", "[1] done"])


@case("a rank that always fails at once is given up, and its last status is said")
def _():
    begin = time.monotonic()
    done = run("-n", 3, *sh('[ $RANK = 2 ] && exit 9; sleep 1000'), code=1)
    has(done.err(), "rank 2 has failed 3 times within 10 s before it was at work: giving up", "exited with status 9")
    equal(time.monotonic() - begin < 20, True, "the other ranks were waited for")


@case("a rank that is called wrongly ends the run at once")
def _():
    done = run("-n", 2, *sh('echo x >> runs-$RANK; [ $RANK = 0 ] || exit 2; exec sleep 1000'), code=1)
    has(done.err(), "rank 1 (process", "exited with status 2 before it was at work: wrong usage")
    equal("restart" in done.err().replace("which no restart mends", ""), False, done.err())
    equal((done.folder / "runs-1").read_text(), "x\n")


@case("status 3 of a rank that was never at work is a loss as any other")
def _():
    done = run(*sh('echo x >> runs; [ $(wc -l < runs) -ge 2 ] || exit 3'))
    has(done.err(), "exited with status 3 before it was at work: restart 1 of 10")


@case("restarts are bounded")
def _():
    done = run("--max-restarts", 1, *sh("kill -9 $$"), code=1)
    has(done.err(), "restart 1 of 1", "was killed by signal 9 (Killed), and all 1 restarts", "giving up")


@case("a rank that finished is not started again")
def _():
    done = run("-n", 2, *sh('echo x >> runs-$RANK; [ $RANK = 0 ] || { [ $(wc -l < runs-1) -ge 2 ] || exit 1; }'))
    equal((done.folder / "runs-0").read_text(), "x\n")


# ---- the end

@case("a signal in the first moments leaves nothing behind")
def _():
    for _ in range(20):
        r = Run(*sh("exec sleep 1000"))
        limit = time.monotonic() + DEADLINE
        while not any(name.startswith("ckpt-run-") for name in os.listdir(top)):  # no pause: the moment is short
            equal(time.monotonic() < limit and r.child.poll() is None, True, "no directory came")
        r.child.send_signal(signal.SIGINT)
        r.wait(130)
        equal(list(top.glob("ckpt-run-*")), [], "private directories left behind")


TRAP = 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 1000 & wait; done'


@case("SIGTERM reaches ranks that cannot be asked, and 0 is a clean end")
def _():
    r = Run("-n", 2, *sh(TRAP))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    r.wait(0)
    has(r.out(), "[0] bye", "[1] bye")


@case("SIGINT is code 130")
def _():
    r = Run("-n", 2, *sh(TRAP))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGINT)
    has(r.wait(130).out(), "[0] bye", "[1] bye")


@case("ranks that do not end are killed after the grace, stopped ones as well")
def _():
    r = Run("-n", 2, "--grace", 1, *sh('trap "" TERM; echo up; [ $RANK = 0 ] || kill -STOP $$; while :; do sleep 1000; done'))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    has(r.wait(1).err(), "SIGKILL", "was killed by signal 9")


@case("a second SIGINT kills at once")
def _():
    r = Run("--grace", 1000, *sh('trap "" TERM INT; echo up; while :; do sleep 1000; done'))
    r.until_out("up")
    r.child.send_signal(signal.SIGINT)
    r.until_err("SIGINT:")
    r.child.send_signal(signal.SIGINT)
    r.wait(130)


@case("a rank that fails while all are ending is not started again")
def _():
    r = Run("-n", 2, *sh('trap "exit 5" TERM; echo up $$; while :; do sleep 1000 & wait; done'))
    r.until_out("[0] up", "[1] up")
    r.child.send_signal(signal.SIGTERM)
    has(r.wait(1).err(), "rank 0 exited with status 5", "rank 1 exited with status 5")
    equal(len(r.out().splitlines()), 2)


@case("what ranks leave behind is killed, also outside of their process group")
def _():
    done = run(*sh('sleep 1000 & echo $! > inside; setsid sh -c "echo \\$\\$ > outside; exec sleep 1000" & '
                   'while [ ! -s outside ]; do sleep 0.01; done'))
    equal([gone((done.folder / name).read_text().strip()) for name in ("inside", "outside")], [True, True])


@case("ranks and daemon die with a launcher that is killed")
def _():
    r = Run("-n", 2, *sh("echo up $$ $CKPT_SOCKET; exec sleep 1000"))
    r.until_out("[0] up", "[1] up")
    words = [line.split() for line in r.out().splitlines()]
    children = pathlib.Path(f"/proc/{r.child.pid}/task/{r.child.pid}/children").read_text().split()
    equal(len(children), 3, "ranks and daemon")
    r.child.kill()
    r.child.wait()
    until_gone(*children, *[w[2] for w in words])
    os.rmdir(pathlib.Path(words[0][3]).parent)  # the daemon has removed its socket; who is killed removes nothing


@case("a terminal that stalls does not stall the supervision")
def _():
    r_end, w_end = os.pipe()
    child = subprocess.Popen([CKPT, "run", "-n", "2", "--", "sh", "-c", "while :; do seq 100000; done"], stdout=w_end,
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=dict(ENVIRONMENT, TMPDIR=str(top)))
    os.close(w_end)
    select.select([r_end], [], [], DEADLINE)
    children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGTERM)
    equal(child.wait(DEADLINE), 130)
    until_gone(*children)
    os.close(r_end)

sys.exit(cases.end())
