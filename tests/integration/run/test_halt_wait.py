"""ckpt halt --wait: it says that a job has ended when it has, and at no other time."""

import subprocess
import sys

import single_node
from launcher import CKPT, ENVIRONMENT, PACED, Run, own_socket, sh, tidy
from tap import DEADLINE, Cases, equal, has, until

PATIENCE_S = 8  # until the daemon that it waits for has been killed
cases = Cases(tidy)
case = cases.case


def begin(socket, seconds):
    return subprocess.Popen([CKPT, "halt", "--now", "--job", "gpt", "--wait", str(seconds), "--socket", socket], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)


def end(halt, code):
    out, err = halt.communicate(timeout=DEADLINE)
    equal(halt.returncode, code, out + err)
    return err


def known(d):
    return d.job("gpt") is not None


@case("ranks that have not joined yet have not ended")
def _():
    with single_node.daemon() as d:
        d.start()
        over = d.top / "over"
        run = Run("-n", 2, "--job", "gpt", "--socket", d.socket, *sh(f"until [ -e {over} ]; do sleep 0.05; done"))
        run.until("the job", lambda: known(d))
        has(end(begin(d.socket, 1), 1), "job gpt has not ended after 1 s")
        halt = begin(d.socket, DEADLINE)
        over.touch()
        end(halt, 0)
        run.wait(0)


@case("ranks that are started again have not ended")
def _():
    with single_node.daemon() as d:
        d.start()
        begun, asked = d.top / "begun", d.top / "asked"
        wait = f"until [ -e {asked} ]; do sleep 0.05; done"  # or all of it would be over before anybody asks
        run = Run("-n", 1, "--job", "gpt", "--socket", d.socket, "--max-restarts", 3, *sh(f"echo >>{begun}; {wait}; sleep 0.3; exit 1"))
        run.until("the first rank", begun.exists)
        halt = begin(d.socket, DEADLINE)
        until(lambda: "asked to" in d.text() or halt.poll() is not None, "the halt is asked for")
        asked.touch()
        end(halt, 0)
        times = len(begun.read_text())
        run.wait(1)
        equal(len(begun.read_text()), times, "a rank was started after the job had ended")


@case("ranks that leave their launcher behind have not ended before it has")
def _():
    with single_node.daemon() as d:
        d.start()
        over = d.top / "over"
        train = " ".join(PACED)
        run = Run("-n", 1, "--job", "gpt", "--socket", d.socket,
                  *sh(f"{train} --steps 1000000; until [ -e {over} ]; do sleep 0.05; done"), CKPT_JOB="gpt")
        run.until("training", lambda: known(d) and d.job("gpt")["state"] == "running")
        has(end(begin(d.socket, 2), 1), "has not ended after 2 s")
        over.touch()
        run.wait(0)


@case("a daemon of ckpt run that ends with the job is its end")
def _():
    run = Run("-n", 1, "--job", "gpt", "--", *PACED, "--steps", 1000000)
    run.until_err("start at step 0")
    end(begin(own_socket(), DEADLINE), 0)
    run.wait(0)


@case("a daemon that was killed says nothing of the job")
def _():
    with single_node.daemon() as d:
        d.start()
        over = d.top / "over"
        run = Run("-n", 1, "--job", "gpt", "--socket", d.socket, *sh(f"until [ -e {over} ]; do sleep 0.05; done"))
        run.until("the job", lambda: known(d))
        halt = begin(d.socket, PATIENCE_S)
        until(lambda: "asked to" in d.text() or halt.poll() is not None, "the halt is asked for")
        d.kill()
        has(end(halt, 1), f"has not ended after {PATIENCE_S} s", "nobody answers at")
        d.start()
        over.touch()
        run.wait(0)


sys.exit(cases.end())
