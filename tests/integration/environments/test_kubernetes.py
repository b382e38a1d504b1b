"""deploy/kubernetes: the manifests keep to the published schemas, and what their containers run works with the rights that they give and no
more: the same user, capabilities and separate namespaces, without a cluster."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import packages

packages.need("yaml", "kubernetes_validate")
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402
from launcher import ENVIRONMENT, TRAIN, Run, final, listed  # noqa: E402
from loopback_cluster import free_port  # noqa: E402
from tap import BIN, DEADLINE, Cases, equal, expect, has, until  # noqa: E402

FOLDER = pathlib.Path(__file__).parents[3] / "deploy" / "kubernetes"
VERSION = "1.32"
cases = Cases()
case = cases.case


def documents(*names):
    return [document for name in names or sorted(FOLDER.rglob("*.yaml")) for document in yaml.safe_load_all((FOLDER / name).read_text())]


def daemon_set():
    return documents("base/daemonset.yaml")[0]["spec"]["template"]["spec"]


@case("every manifest keeps to the schema, strictly, and one with an unknown field does not")
def _():
    seen = [kubernetes_validate.validate(document, VERSION, strict=True) or document["kind"] for document in documents()
            if document["kind"] != "Kustomization"]
    equal(len(seen), 6)
    wrong = documents("base/daemonset.yaml")[0]
    wrong["spec"]["template"]["spec"]["containers"][0]["privilegd"] = True
    try:
        kubernetes_validate.validate(wrong, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        return
    expect(False, "an unknown field passes")


@case("the kustomization names all files beside it, and builds")
def _():
    base = FOLDER / "base"
    equal(sorted(documents("base/kustomization.yaml")[0]["resources"]), sorted(p.name for p in base.glob("*.yaml") if p.name != "kustomization.yaml"))
    if not shutil.which("kubectl"):
        return "there is no kubectl to build it with"
    built = subprocess.run(["kubectl", "kustomize", base], capture_output=True, text=True, timeout=DEADLINE)
    equal(built.returncode, 0, built.stderr)
    equal({d["metadata"].get("namespace", "ckpt") for d in yaml.safe_load_all(built.stdout)}, {"ckpt"})
    return None


@case("nothing is privileged, and only the folder is made with a capability")
def _():
    pods = [daemon_set(), documents("job.yaml")[0]["spec"]["template"]["spec"]]
    for pod in pods:
        expect(not {"hostPID", "hostIPC", "hostNetwork"} & set(pod), pod)
        equal(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
        for container in pod.get("initContainers", []) + pod["containers"]:
            context = container["securityContext"]
            equal([context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"], context["capabilities"]["drop"]], [False, True, ["ALL"]])
            equal(context["capabilities"].get("add", []), ["CHOWN"] if container["name"] == "folder" else [])


class Pods:
    """What the manifests run, here: each container in PID and mount namespaces of its own, with its user and its capabilities."""

    def __init__(self):
        self.top, self.children = pathlib.Path(tempfile.mkdtemp(dir="/tmp")), []
        self.top.chmod(0o755)
        (self.top / "run").mkdir()
        (self.top / "store").mkdir()
        os.chown(self.top / "store", 1000, 1000)
        self.port = free_port("127.0.0.1")

    def here(self, text):
        return text.replace("/run/ckpt", f"{self.top}/run").replace("/store", f"{self.top}/store").replace("0.0.0.0:9470", f"127.0.0.1:{self.port}")

    def words(self, pod, container, capabilities=None):
        """The command, with what puts it in its place."""
        context = {**pod["securityContext"], **container["securityContext"]}
        user = str(context["runAsUser"])
        added = context["capabilities"].get("add", []) if capabilities is None else capabilities
        bounds = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
        place = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "setpriv", f"--bounding-set={bounds}", "--no-new-privs"]
        if user != "0":
            place += ["--reuid", user, "--regid", user, "--clear-groups"]
        return [*place, *map(self.here, container.get("command", []) + container.get("args", []))]

    def start(self, name, words, **env):
        with open(self.top / f"{name}.log", "ab") as log:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={
                **ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null", "HOME": "/", **env})
        self.children.append(child)
        return child

    def run(self, words, **env):
        return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE,
                              env={**ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null", **env})

    def probe(self, pod, container, action):
        """As in the container: its user, its rights."""
        return self.run(self.words(pod, {**container, "command": action["exec"]["command"], "args": []}))

    def step(self):
        """The newest of any rank."""
        jobs = json.loads(self.run(["ckpt", "status", "--json", "--socket", f"{self.top}/run/1000/ckptd.sock"]).stdout)["jobs"]
        return max((rank.get("step") or 0 for job in jobs for rank in job["ranks"]), default=0)

    @staticmethod
    def kill(child):
        """The first process of the container, and so all of it."""
        subprocess.run(["pkill", "-KILL", "-P", str(child.pid)], check=False)
        return child.wait(DEADLINE)

    def text(self, name):
        return (self.top / f"{name}.log").read_text(errors="replace")


@contextlib.contextmanager
def pods():
    it = Pods()
    try:
        yield it
    except Exception:
        for path in it.top.glob("*.log"):
            print(f"# ---- {path.name}\n" + "".join(f"# {line}\n" for line in path.read_text(errors="replace")[-1500:].splitlines()))
        raise
    finally:
        for child in it.children:
            it.kill(child)
        shutil.rmtree(it.top, ignore_errors=True)


def may():
    """Why pods cannot be played here, or None."""
    if os.geteuid():
        return "namespaces need root here"
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 9):
        return "pidfds of other PID namespaces need Linux 6.9"
    return None


@case("the folder of the socket: made with its one capability, also again, and not without")
def _():
    if may():
        return may()
    pod = daemon_set()
    folder = pod["initContainers"][0]
    with pods() as p:
        expect(p.run(p.words(pod, folder, [])).returncode, "made without CHOWN")
        shutil.rmtree(p.top / "run" / "1000")
        for _ in range(2):
            done = p.run(p.words(pod, folder))
            equal(done.returncode, 0, done.stderr)
        found = (p.top / "run" / "1000").stat()
        equal([found.st_uid, found.st_gid, found.st_mode & 0o777], [1000, 1000, 0o700])
    return None


@case("ckptd and the job's ranks as their pods run them: probes, a lost rank, and the flush before the end")
def _():
    if may():
        return may()
    pod, job = daemon_set(), documents("job.yaml")[0]["spec"]
    ckptd, train = pod["containers"][0], job["template"]["spec"]
    rank = train["containers"][0]
    ranks = job["completions"]
    forever = dict(rank, args=["--steps", "1000000", "--save-storage-every", "1000000"])

    def start(number, container=rank):
        given = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": str(number), "status.podIP": "127.0.0.1"}
        env = {e["name"]: p.here(e["value"]) if "value" in e else given[e["valueFrom"]["fieldRef"]["fieldPath"]] for e in container["env"]}
        return p.start(f"rank{number}", p.words(train, container), **env)

    with pods() as p:
        equal(p.run(p.words(pod, pod["initContainers"][0])).returncode, 0)
        expect(p.probe(pod, ckptd, ckptd["startupProbe"]).returncode, "the probe passes before there is a daemon")
        env = {e["name"]: e.get("value", "node-1") for e in ckptd["env"]}
        daemon = p.start("ckptd", p.words(pod, ckptd), **env)
        until(lambda: p.probe(pod, ckptd, ckptd["startupProbe"]).returncode == 0, "the startup probe passes")
        equal(p.probe(pod, ckptd, ckptd["livenessProbe"]).returncode, 0)
        ready = ckptd["readinessProbe"]["httpGet"]
        with urllib.request.urlopen(f"http://127.0.0.1:{p.port}{ready['path']}", timeout=DEADLINE) as answer:
            equal(answer.status, 200)
        equal(p.probe(pod, ckptd, ckptd["lifecycle"]["preStop"]).returncode, 0, "with nothing to flush")

        children = [start(number, forever) for number in range(ranks)]
        until(lambda: p.step() >= 20, "step 20")
        p.kill(children[1])
        until(lambda: "has died" in p.text("ckptd"), "the loss is seen")
        children[1] = start(1, forever)
        until(lambda: f"{ranks} ranks go on from memory" in p.text("rank0"), "both go on")
        flushed = p.probe(pod, ckptd, ckptd["lifecycle"]["preStop"])
        equal(flushed.returncode, 0)
        has(flushed.stdout, "gpt: step", "is durable")
        step = int(flushed.stdout.split("step ")[1].split(",")[0])
        expect(step in listed(p.top / "store"), step, listed(p.top / "store"))
        for child in (*children, daemon):  # the node goes
            p.kill(child)
        p.start("ckptd", p.words(pod, ckptd), **env)
        until(lambda: p.probe(pod, ckptd, ckptd["startupProbe"]).returncode == 0, "the next ckptd is there")
        steps = step + 50
        children = [start(number, dict(rank, args=["--steps", str(steps)])) for number in range(ranks)]
        equal([child.wait(DEADLINE) for child in children], [0] * ranks)
        has(p.text("rank0"), f"go on from storage at step {step}")
        equal(final(p.text("rank0")), final(Run("-n", ranks, "--", TRAIN, "--steps", steps).wait().out()))
    return None


sys.exit(cases.end())
