"""What the containers of deploy/kubernetes run works with the rights that the manifests give: through a lost rank, a drain, a lost node, a change of the
cluster's key and an etcd that is away. And each right that a plain pod does not have is needed."""

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import packages

packages.need("yaml")
from etcd import etcd  # noqa: E402
from launcher import TRAIN, Run, final, listed  # noqa: E402
from pages import HOWTO, commands  # noqa: E402
from pods import FOREVER, INDEX, PROFILE, daemon_set, documents, give_key, may_not, nodes  # noqa: E402
from tap import Cases, equal, expect, has, until  # noqa: E402

PAGE = "run-on-kubernetes.md"
STOPPED = 75
why = may_not()
if why:
    print(why)
    sys.exit(77)
cases = Cases()
case = cases.case
shown = set()  # the rights whose lack has been tried


def right(name):
    """A case that tries what is missing without this row of the page's table."""
    shown.add(name)
    return case(f"without it something is missing: {name}")


def job():
    return documents("job.yaml")[0]["spec"]


def undisturbed(ranks, steps):
    return final(Run("-n", ranks, "--", TRAIN, "--steps", steps).wait().out())


def key():
    return base64.b64encode(os.urandom(32)).decode() + "\n"


def go_on_to_the_end(node, step, ranks):
    steps = step + 50
    children = [node.rank(job(), number, ["--steps", str(steps)]) for number in range(ranks)]
    equal([child.wait(180) for child in children], [0] * ranks)
    equal(final(node.text("rank0")), undisturbed(ranks, steps))


def ready(node, ckptd):
    """What the readiness probe gets; None: nobody answers."""
    path = ckptd["readinessProbe"]["httpGet"]["path"]
    try:
        with urllib.request.urlopen(f"http://{node.address}:{node.http}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def findings(node, ckptd):
    with urllib.request.urlopen(f"http://{node.address}:{node.http}{ckptd['readinessProbe']['httpGet']['path']}", timeout=5) as answer:
        return {finding["code"] for finding in json.loads(answer.read())["findings"]}


def dead(node, pod, ckptd):
    """The kubelet gives the probe its timeoutSeconds."""
    probe = ckptd["livenessProbe"]
    limited = {"exec": {"command": ["timeout", str(probe["timeoutSeconds"]), *probe["exec"]["command"]]}}
    return node.probe(pod, ckptd, limited).returncode != 0


def meet(both):
    for node in both:
        until(lambda n=node: [other["up"] for other in status(n)["cluster"]["nodes"]] == [True] * len(both), "the nodes meet")


def status(node):
    done = subprocess.run(["ckpt", "status", "--json", "--socket", node.socket], capture_output=True, text=True, env={**os.environ, "CKPT_CONFIG": "/dev/null"})
    return json.loads(done.stdout) if done.returncode == 0 else {"cluster": {"nodes": []}}


def enter(node, script):
    """As kubectl exec: in the container's namespaces, with its user."""
    pid = subprocess.run(["pgrep", "-P", str(node.children["ckptd"].pid)], capture_output=True, text=True, check=True).stdout.split()[0]
    done = subprocess.run(["nsenter", "-t", pid, "-p", "-m", "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "--bounding-set=-all",
                           "sh", "-c", node.here(script)], capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, done.stderr)


def seen(node, train, rank, *before):
    """{name: check} of ckpt doctor --job in a rank's container, after a command in its mount namespace."""
    words = node.words(train["template"]["spec"], rank, command=["ckpt", "doctor", "--job", "--json"])
    at = words.index("setpriv")
    hide = ["sh", "-c", " ".join(map(str, before)) + ' && exec "$@"', "sh"] if before else []
    done = subprocess.run([*words[:at], *hide, *words[at:]], capture_output=True, text=True, timeout=60, env=node.env(rank, **{INDEX: "0"}))
    document = json.loads(done.stdout)
    return {check["name"]: check for check in document["checks"]}


def without(*names):
    """The profile, with these names taken out."""
    document = json.loads(PROFILE.read_text())
    for rule in document["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in names]
    return document


def doctor(node, pod, document):
    """{check: result} in ckptd's container under that profile."""
    path = node.top / "profile.json"
    path.write_text(json.dumps(document))
    ckptd = pod["containers"][0]
    done = node.run(pod, ckptd, profile=path, command=["ckpt", "doctor", "--json", "--store", "/store"])
    return {check["name"]: check["verdict"] for check in json.loads(done.stdout)["checks"]}


@case("ckptd and the job's ranks as their pods run them: probes, a lost rank, the flush before the end, a lost node")
def _():
    pod, ranks = daemon_set("seccomp"), job()["completions"]
    ckptd = pod["containers"][0]
    with nodes("node-1") as (node,):
        equal(node.run(pod, pod["initContainers"][0]).returncode, 0)
        expect(node.probe(pod, ckptd, ckptd["startupProbe"]).returncode, "the probe passes before there is a daemon")
        node.ckptd(pod)
        expect("with threads" not in node.text("ckptd"), "the profile allows io_uring")
        equal(node.probe(pod, ckptd, ckptd["livenessProbe"]).returncode, 0)
        equal(ready(node, ckptd), 200)
        equal(node.probe(pod, ckptd, ckptd["lifecycle"]["preStop"]).returncode, 0, "with nothing to flush")

        for number in range(ranks):
            node.rank(job(), number, FOREVER)
        until(lambda: node.step() >= 20, "step 20")
        node.kill("rank1")
        until(lambda: "has died" in node.text("ckptd"), "the loss is seen")
        node.rank(job(), 1, FOREVER)
        until(lambda: f"{ranks} ranks go on from memory" in node.text("rank0"), "both go on")
        flushed = node.probe(pod, ckptd, ckptd["lifecycle"]["preStop"])
        equal(flushed.returncode, 0)
        has(flushed.stdout, "gpt: step", "is durable")
        step = int(flushed.stdout.split("step ")[1].split(",")[0])
        expect(step in listed(node.store), step, listed(node.store))
        for name in list(node.children):  # the node goes
            node.kill(name)
        node.ckptd(pod)
        go_on_to_the_end(node, step, ranks)
        has(node.text("rank0"), f"go on from storage at step {step}")


@case("ckptd of two nodes without etcd do not share a store: the second one says so")
def _():
    pod = daemon_set()
    with nodes("node-1", "node-2") as (first, second):
        first.ckptd(pod)
        for container in pod["initContainers"]:
            equal(second.run(pod, container).returncode, 0)
        equal(second.start("ckptd", pod, pod["containers"][0]).wait(60), 11)
        has(second.text("ckptd"), "another ckptd has the store")


@contextlib.contextmanager
def cluster(*names, secret=None):
    """Nodes whose ckptd meet in an etcd: (them, etcd's one member, which has been started)."""
    with etcd(["e1"]) as registry, nodes(*names, key=secret or key()) as made:
        for node in made:
            node.etcd = registry.url("ckpt")
        yield made, *registry


@case("a drain: who is asked to end saves with all others, all end to be started again, and no step is lost on another node")
def _():
    pod, ranks = daemon_set("cluster", "seccomp"), job()["completions"]
    with cluster("node-1", "node-2") as (both, _):
        drained, other = both
        for node in both:
            node.ckptd(pod)
        meet(both)
        for number in range(ranks):
            drained.rank(job(), number, FOREVER)
        until(lambda: drained.step() >= 20, "step 20")
        drained.signal("rank1", signal.SIGTERM)
        equal([drained.children[f"rank{number}"].wait(180) for number in range(ranks)], [STOPPED] * ranks)
        step = int(re.search(r"final step=(\d+)", drained.text("rank0")).group(1))
        equal(max(listed(drained.store)), step)
        drained.kill("ckptd")
        go_on_to_the_end(other, step, ranks)
        has(other.text("rank0"), f"at step {step}")


@case("a ckptd that waits for etcd is started late, stays alive and ready while etcd is away, and one that hangs is neither")
def _():
    pod = daemon_set("cluster")
    ckptd = pod["containers"][0]
    with cluster("node-1") as ((node,), member):
        member.kill()
        for container in pod["initContainers"]:
            equal(node.run(pod, container).returncode, 0)
        child = node.start("ckptd", pod, ckptd)
        until(lambda: member.place in node.text("ckptd"), "it says which etcd it misses")
        expect(node.probe(pod, ckptd, ckptd["startupProbe"]).returncode and child.poll() is None, "it waits, and is not started yet")
        member.start()
        until(lambda: node.probe(pod, ckptd, ckptd["startupProbe"]).returncode == 0, "it is started once etcd is there")
        until(lambda: ready(node, ckptd) == 200 and "REGISTRY_AWAY" not in findings(node, ckptd), "it is ready")
        member.kill()
        until(lambda: "REGISTRY_AWAY" in findings(node, ckptd), "it misses etcd")
        equal([node.probe(pod, ckptd, ckptd["livenessProbe"]).returncode, ready(node, ckptd)], [0, 200])
        found = seen(node, job(), job()["template"]["spec"]["containers"][0])["job-health"]
        equal([found["verdict"], found["found"].split(":")[0]], ["note", "REGISTRY_AWAY"], "what a rank is told")
        node.signal("ckptd", signal.SIGSTOP)
        began = time.monotonic()
        expect(dead(node, pod, ckptd), "one that hangs is alive")
        expect(time.monotonic() - began < 60 and ready(node, ckptd) is None, "one that hangs is ready")


@case("a changed Secret reaches each ckptd as the page tells it, and no node misses another one meanwhile")
def _():
    pod = daemon_set("cluster", "seccomp")
    ckptd = pod["containers"][0]
    reads = next(command for command in commands(PAGE) if "kill -HUP" in command)
    inside = re.search(r"-- sh -c '(.*)'", reads).group(1)
    old, new = key(), key()
    with cluster("node-1", "node-2", secret=old) as (both, _):
        for node in both:
            node.ckptd(pod)
        meet(both)
        for stage, text in enumerate((new + old, new), 1):
            give_key(both[0].secret, text)
            for node in both:
                enter(node, inside)
                until(lambda n=node, s=stage: n.text("ckptd").count("has been read again") == s, "it is read again")
                meet(both)
        for node in both:
            expect("is lost" not in node.text("ckptd"), node.text("ckptd"))
        both[1].kill("ckptd")
        both[1].ckptd(pod)
        meet(both)
        give_key(both[1].secret, old)  # who has the old one alone is not let in
        both[1].kill("ckptd")
        equal(both[1].run(pod, pod["initContainers"][0]).returncode, 0)
        both[1].start("ckptd", pod, ckptd)
        until(lambda: "were refused" in both[0].text("ckptd"), "the old key is refused")


@right("CHOWN")
def _():
    pod = daemon_set("seccomp")
    folder = pod["initContainers"][0]
    with nodes("node-1") as (node,):
        expect(node.run(pod, folder, capabilities=[]).returncode, "made without CHOWN")
        (node.top / "run" / "1000").rmdir()
        for _ in range(2):
            done = node.run(pod, folder)
            equal(done.returncode, 0, done.stderr)
        found = (node.top / "run" / "1000").stat()
        equal([found.st_uid, found.st_gid, found.st_mode & 0o777], [1000, 1000, 0o700])


@right("hostPath `/run/ckpt`")
def _():
    pod, train = daemon_set(), job()
    rank = train["template"]["spec"]["containers"][0]
    with nodes("node-1") as (node,):
        node.ckptd(pod)
        equal(seen(node, train, rank)["job-daemon"]["verdict"], "fine")
        hidden = seen(node, train, rank, "mount", "-t", "tmpfs", "none", node.top / "run")["job-daemon"]
        equal(hidden["verdict"], "broken")
        has(hidden["remedy"], "folder of")


@right("the user 1000")
def _():
    pod, train = daemon_set(), job()
    with nodes("node-1") as (node,):
        node.ckptd(pod)
        node.start("rank0", train["template"]["spec"], train["template"]["spec"]["containers"][0],
                   {INDEX: "0"}, user="1001")
        expect(node.children["rank0"].wait(60), "another user is served")
        has(node.text("rank0"), "belongs to another user")


@right("seccomp profile `ckptd.json`")
def _():
    pod = daemon_set("seccomp")
    names = ("io_uring", "pidfd", "arenas", "file-lock", "hard-links", "o-direct", "store-write")
    with nodes("node-1") as (node,):
        found = doctor(node, pod, without())
        equal({name: found[name] for name in names}, dict.fromkeys(names, "fine"))
        for check, gone, verdict in (("io_uring", ("io_uring_setup",), "degraded"), ("io_uring", ("io_uring_enter",), "degraded"),
                                     ("io_uring", ("io_uring_register",), "degraded"), ("pidfd", ("pidfd_open",), "degraded"),
                                     ("arenas", ("memfd_create",), "broken"), ("file-lock", ("flock",), "broken"),
                                     ("hard-links", ("link", "linkat"), "degraded")):
            equal(doctor(node, pod, without(*gone))[check], verdict, gone)


@case("the root file system is only read, and is not needed otherwise")
def _():
    pod = daemon_set("seccomp")
    ckptd = pod["containers"][0]
    with nodes("node-1") as (node,):
        node.ckptd(pod)
        done = node.run(pod, ckptd, command=["sh", "-c", f"touch {node.top}/anything || touch /var/tmp/anything"])
        expect(done.returncode, "something else can be written")
        has(done.stderr, "Read-only file system")


@case("the page's table names the rights that were tried, and no other")
def _():
    rows = (HOWTO / PAGE).read_text().split("| beyond a plain pod |")[1].split("\n\n")[0].splitlines()[2:]
    equal({row.split("|")[1].strip() for row in rows}, shown)


sys.exit(cases.end())
