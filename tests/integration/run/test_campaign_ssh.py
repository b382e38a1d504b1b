"""ckpt campaign --nodes and ckpt run --nodes over ssh itself, as users have it: what a login prints, what their ~/.ssh/config wants, a way that needs an
answer, and one that is cut."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import sshd
from launcher import CKPT, ENVIRONMENT, PACED, top
from loopback_cluster import loopback_cluster
from tap import DEADLINE, Cases, equal, expect, has, until

OK, FAILED, CANCELLED = 0, 1, 130
HEAD = "seed 3\nnodes 2\nranks 2\nsave-storage-every 4\nhang-timeout 10s\n"
why_not = sshd.why_not()
if why_not:
    print(f"1..0 # SKIP {why_not}")
    sys.exit(0)
cases = Cases()
case = cases.case


def host_pair():
    return sshd.SshHosts(pathlib.Path(os.path.realpath(top)) / f"ssh-{len(list(top.glob('ssh-*')))}", a={}, b={})


def start(hosts, text, name, *options):
    file = top / f"{name}.campaign"
    file.write_text(text)
    return subprocess.Popen([CKPT, "campaign", "--json", "--dir", top / name, "--nodes", hosts.nodes(), *options, file, *PACED], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=hosts.environment(ENVIRONMENT), text=True, start_new_session=True)


def ended(child, code=OK):
    try:
        out, err = child.communicate(timeout=2 * DEADLINE)
    finally:
        child.kill()
    equal(child.returncode, code, f"{out} {err}")
    return json.loads(out) if out else {}, err


def journal(name, event):
    """What stands there: the last line may be under way."""
    file = top / name / "journal"
    return [line for line in map(json.loads, file.read_text().split("\n")[:-1]) if line["event"] == event] if file.exists() else []


def has_fired(child, name, n):
    until(lambda: child.poll() is not None or len(journal(name, "fault")) == n, "a fault has fired", 2 * DEADLINE)
    expect(child.poll() is None, "it goes on", child.returncode)


def tagged(name):
    """Processes of the campaign, on any of the hosts."""
    tag, found = b"CAMPAIGN_ON_HOST=" + (top / name / "hosts").read_bytes(), []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if tag in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def nothing_left(hosts, name):
    until(lambda: not tagged(name), "all that it made has ended")
    until(lambda: not any(h.sessions() for h in hosts.hosts.values()), "all connections are closed")
    token = (top / name / "hosts").read_text()
    equal(list(pathlib.Path("/tmp").glob(f"ckpt-{token}-*")), [], "sockets of the hosts")


def commands(session):
    """What a connection runs."""
    below = [session]
    for pid in below:
        with contextlib.suppress(OSError):
            below += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            yield pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def that_runs(host, *words):
    """The connection whose command has these words."""
    return next((pid for pid in host.sessions() if any(set(words) <= {os.path.basename(w) for w in line} for line in commands(pid))), None)


def greets(hosts):
    """A login prints, and the user's configuration is that of people who sit at a terminal."""
    for host in hosts.hosts.values():
        (host.home / ".bashrc").write_text("echo Welcome\necho 'Disk quota: 3%' >&2\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hosts.configure("RequestTTY force", "RemoteCommand tmux", "ControlMaster auto", f"ControlPath {hosts.folder}/control-%C", "ControlPersist yes",
                    f"LocalForward {port} 127.0.0.1:1", "ExitOnForwardFailure yes", "ForwardX11 yes")


@case("neither what a login prints nor what the user's ssh is told to do for a terminal disturbs a campaign, and nothing is left")
def _():
    with host_pair() as hosts:
        greets(hosts)
        document, said = ended(start(hosts, f"{HEAD}at 500ms kill rank=1\nat 500ms stop-daemon node=1 for=500ms\nat 1s kill-node node=1\n", "greeted"))
        equal([document[name] for name in ("fired", "not_fired", "exit")], [3, 0, 0], said)
        equal(document["params"], document["calm_params"])
        equal(list(hosts.folder.glob("control-*")), [], "connections that are shared")
        nothing_left(hosts, "greeted")


@case("a host that would ask for something is named with what ssh says, and nobody is asked")
def _():
    with host_pair() as hosts:
        how = "true` works without a question"
        hosts.known.write_text("")
        _, said = ended(start(hosts, f"{HEAD}at 1s kill\n", "asks"), FAILED)
        has(said, "host a cannot be reached: Host key verification failed.: see to it that `ssh a", how)
        hosts.know()
        (hosts.folder / "key.pub").write_text("")
        _, said = ended(start(hosts, f"{HEAD}at 1s kill\n", "asks"), FAILED)
        has(said, "host a cannot be reached: ", "Permission denied (publickey).: see to it that `ssh a", how)
        hosts.hosts["a"].stop()
        _, said = ended(start(hosts, f"{HEAD}at 1s kill\n", "asks"), FAILED)
        has(said, "host a cannot be reached: ssh: connect to host 127.0.0.1 port ", "Connection refused: see to it")
        expect(not journal("asks", "begin"), "nothing was begun")


@case("a way that is cut ends the campaign by name, on all hosts; so does Ctrl-C at a terminal; and each time it goes on")
def _():
    with host_pair() as hosts:
        text = f"{HEAD}at 500ms kill rank=1\nat 600s kill rank=1\nat 1200s kill rank=1\n"
        child = start(hosts, text, "cut")
        has_fired(child, "cut", 1)
        os.kill(until(lambda: that_runs(hosts.hosts["b"], "host", "run", "ckptd"), "the way to ckptd"), signal.SIGKILL)
        _, said = ended(child, FAILED)
        has(said, "the job has ended in the middle of the campaign: the remote shell of b, which has ckptd, exited with status 255")
        nothing_left(hosts, "cut")
        child = start(hosts, text, "cut", "--resume")
        has_fired(child, "cut", 2)
        os.killpg(child.pid, signal.SIGINT)
        _, said = ended(child, CANCELLED)
        has(said, "stopped; --resume goes on from here")
        nothing_left(hosts, "cut")
        document, said = ended(start(hosts, text, "cut", "--resume"))
        equal([document["fired"], document["exit"]], [3, 0], said)
        nothing_left(hosts, "cut")


@case("ckpt run starts its launchers with each word as it was given, and hears of their end")
def _():
    words = ("it's", "two  blanks", "$HOME", "a\\b", "~.", "*", "`id`", "")
    script = "import os, sys; print('told', [os.environ['CKPT_RANK']] + sys.argv[1:])"
    with loopback_cluster("ab", a=["--node-wait", "500ms"], b=["--node-wait", "500ms"]) as daemons:
        with sshd.SshHosts(top / "ssh-run", **{name: {"CKPT_SOCKET": daemon.socket} for name, daemon in daemons.items()}) as hosts:
            greets(hosts)
            done = subprocess.run([CKPT, "run", "--nodes", "a,b", "--", sys.executable, "-c", script, *words], stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, env=hosts.environment(ENVIRONMENT), cwd=top, timeout=DEADLINE)
            equal(done.returncode, 0, done.stderr)
            for rank, name in enumerate("ab"):
                has(done.stdout, f"{name}: [{rank}] told {[str(rank), *words]}\n")
            until(lambda: not any(h.sessions() for h in hosts.hosts.values()), "all connections are closed")


sys.exit(cases.end())
