"""demo_nodes.py last|coordinator NODES RANKS_PER_NODE STEPS STEP MORE…: the run of scripts/demo that loses a node, in this directory. Each node is a
ckptd of its own on this machine; one more waits as a spare. When the last of them, or the one that coordinates the job, has saved in STEP or later,
everything on it is killed. Who coordinates is elected in an etcd that is started here. MORE: options of ckpt-train. Leaves disturbed.jsonl (what the
ranks report) and loss.json (who was lost, when, and who coordinates instead). Exit status 1 with a sentence when the training did not end well."""

import contextlib
import json
import pathlib
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time

elects = sys.argv[1] == "coordinator"
nodes, local, steps, at = map(int, sys.argv[2:6])
more = sys.argv[6:]
names = [f"node-{n}" for n in range(nodes)] + ["spare"]
ranks = nodes * local
READY_S = 30
REGISTRY = []  # options of ckptd
REPORT = pathlib.Path("disturbed.jsonl")


def end(text):
    sys.exit(f"demo: {text}")


def wait(condition, what, seconds=None):
    """seconds: None where what is waited for ends by itself."""
    limit = time.monotonic() + seconds if seconds else None
    while not condition():
        if limit and time.monotonic() > limit:
            end(f"{what} did not come within {seconds} s; see *.log")
        time.sleep(0.01)


def show(*command, note=" &"):
    line = " ".join(shlex.quote(str(word)) for word in command)
    print(f"$ {line.replace(' -- ', chr(32) + chr(92) + chr(10) + '      -- ')}{note}", flush=True)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def write_cluster():
    pathlib.Path("roster").write_text("".join(f"{name} 127.0.0.1:{free_port()}\n" for name in names))
    show("cat", "roster", note="")
    print(pathlib.Path("roster").read_text(), end="")
    pathlib.Path("key").touch(mode=0o600)
    pathlib.Path("key").write_text(secrets.token_hex(32))


def start(log, command, silent=True):
    with open(f"{log}.log", "ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, **({"stdout": file, "stderr": file} if silent else {}))


def start_etcd():
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = ["etcd", "--data-dir", "etcd", "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
               "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    REGISTRY.extend(["--registry", f"etcd{client.removeprefix('http')}/demo", "--registry-lease", "2s"])
    show(*command)
    return start("etcd", command)


def start_daemon(name):
    command = ["ckptd", "--node", name, "--cluster", "roster", "--cluster-key", "key", "--socket", f"{name}.sock", "--store", "store", *REGISTRY]
    show(*command)
    return start(f"ckptd-{name}", command)


def start_run(name):
    command = ["ckpt", "run", "--nodes", nodes, "-n", local, "--min-ranks", ranks, *(["--spare"] if name == "spare" else []), "--job", "disturbed",
               "--socket", f"{name}.sock", "--report", f"{name}.json", "--no-prefix", "--", "ckpt-train", "--steps", steps,
               "--save-memory-every", 5, "--save-storage-every", (steps // 6 + 4) // 5 * 5, "--progress", "--report", REPORT, *more]
    show(*command)
    return start(name, list(map(str, command)), silent=name != names[0])


def cluster_of(name):
    """What the daemon says of its cluster; None: it does not answer."""
    answer = subprocess.run(["ckpt", "status", "--json", "--socket", f"{name}.sock"], capture_output=True, text=True)
    return None if answer.returncode else json.loads(answer.stdout)["cluster"]


def all_met(daemons):
    """Whether each daemon that lives reaches all others, and the registry."""
    for name, daemon in daemons.items():
        if daemon.poll() is not None:
            end(f"ckptd of {name} has ended; see ckptd-{name}.log")
        cluster = cluster_of(name)
        if not cluster or not all(node["up"] for node in cluster["nodes"]) or (elects and not cluster["registry"]["synced"]):
            return False
    return True


def coordinator(daemons):
    """Who of them coordinates the job; None: nobody."""
    for name in daemons:
        cluster = cluster_of(name)
        if cluster and cluster["registry"]["coordinates"]:
            return name
    return None


def reports():
    """Whole lines only."""
    text = REPORT.read_text() if REPORT.exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def reached(victim):
    first = names.index(victim) * local
    return any(e["event"] == "save" and first <= e["rank"] < first + local and e["step"] >= at - 5 for e in reports())


def lose(victim, daemon, run):
    """At once, and with it the memory of the node. The kernel ends ranks with their launcher."""
    print(f"demo: {victim} is lost: SIGKILL to its ckptd, its ckpt run and its ranks", flush=True)
    when = time.monotonic_ns()
    for process in (daemon, run):
        process.kill()
    for process in (daemon, run):
        process.wait()
    first = names.index(victim) * local
    return {"node": victim, "ranks": [first + n for n in range(local)], "killed_ns": when}


def take_over(daemons, loss):
    """Waits until another node coordinates."""
    wait(lambda: coordinator(daemons), "another node that coordinates", READY_S)
    loss.update(successor=coordinator(daemons), elected_ns=time.monotonic_ns())
    print(f"demo: {loss['successor']} coordinates the job now", flush=True)


def stop(processes, signal_, seconds):
    """The launchers take a last checkpoint, and wait for one another."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal_)
    limit = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(limit - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    write_cluster()
    daemons, runs = {}, {}
    with contextlib.ExitStack() as at_end:
        if elects:
            etcd = start_etcd()
            at_end.callback(lambda: stop([etcd], signal.SIGTERM, 30))
        at_end.callback(lambda: stop(list(daemons.values()), signal.SIGTERM, 30))
        at_end.callback(lambda: stop(list(runs.values()), signal.SIGTERM, 90))
        for name in names:
            daemons[name] = start_daemon(name)
        wait(lambda: all_met(daemons), "the nodes that find one another", READY_S)
        victim = names[nodes - 1]
        for name in names:
            if elects and name == "spare":  # so that one that has ranks is elected
                wait(lambda: coordinator(daemons), "a node that coordinates", READY_S)
                victim = coordinator(daemons)
                print(f"demo: {victim} coordinates the job", flush=True)
            runs[name] = start_run(name)
        wait(lambda: reached(victim) or any(run.poll() is not None for run in runs.values()), f"step {at}")
        if not reached(victim):
            end("the training ended before the node could be lost; see *.log")
        loss = lose(victim, daemons.pop(victim), runs.pop(victim))
        if elects:
            take_over(daemons, loss)
        pathlib.Path("loss.json").write_text(json.dumps(loss))
        for name, run in runs.items():
            if run.wait():
                end(f"ckpt run on {name} ended with status {run.returncode}; see {name}.log")
        if victim == names[0]:
            return  # which keeps the history of all
        command = ["ckpt", "recoveries", "--socket", "spare.sock", "--job", "disturbed"]
        show(*command, note="")
        if subprocess.run(command).returncode:
            end("the recoveries cannot be told")


main()
