"""The manifests of deploy/kubernetes, the tools that put them together, and pods that are played without a cluster: each container in PID and mount
namespaces of its own, with its user, its capabilities, its seccomp profile and a root file system that is only read."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import seccomp
import yaml
from launcher import ENVIRONMENT
from loopback_cluster import free_port
from tap import BIN, DEADLINE, equal, until

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PROFILE = FOLDER / "seccomp" / "ckptd.json"
FOREVER = ["--steps", "1000000", "--save-storage-every", "1000000", "--stopped-status", "75"]
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# The volumes of the container stay as they are, everything else of the file system is only read; no /proc but its own.
INSIDE = 'while [ "$1" != -- ]; do mount --bind "$1" "$1"; shift; done; shift; mount -o remount,bind,ro / && exec "$@"'


def documents(*names):
    return [document for name in names or sorted(path for path in FOLDER.rglob("*.yaml") if path.parent.name != "templates")
            for document in yaml.safe_load_all((FOLDER / name).read_text())]


def tool(name):
    """Its path: of build/kube (tests/kube.py), else of PATH; None: there is none."""
    path = ROOT / "build" / "kube" / name
    return str(path) if path.exists() else shutil.which(name)


def output(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=DEADLINE)
    equal(done.returncode, 0, f"{command}: {done.stderr}")
    return done.stdout


def built(folder):
    """What kubectl kustomize makes of it, without a tool that could not be had: None."""
    return list(yaml.safe_load_all(output(tool("kubectl"), "kustomize", folder))) if tool("kubectl") else None


def daemon_set(*patches):
    """The pod of the base, with what the named folders add to it as kustomize adds it: in front."""
    pod = documents("base/daemonset.yaml")[0]["spec"]["template"]["spec"]
    for name in patches:
        merge(pod, documents(f"{name}/daemonset.yaml")[0]["spec"]["template"]["spec"])
    return pod


def merge(into, patch):
    for key, value in patch.items():
        if isinstance(value, dict):
            into[key] = {**into.get(key, {}), **value}
        elif key == "containers":
            merge(into[key][0], value[0])
        elif isinstance(value, list):
            into[key] = value + into.get(key, [])
        else:
            into[key] = value


def may_not():
    """Why pods cannot be played here, or None."""
    if os.geteuid():
        return "namespaces need root here"
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 9):
        return "pidfds of other PID namespaces need Linux 6.9"
    if not seccomp.numbers():
        return "the numbers of system calls are those of x86_64"
    return None


class Node:
    """What the containers of a node find there: hostPath, volumes, and an address that is the pods', too."""

    def __init__(self, top, name, store, secret=None):
        self.name, self.top, self.store, self.secret = name, top / name, store, secret
        self.address = f"127.99.{random.randrange(256)}.{random.randrange(1, 255)}"
        self.http, self.port, self.children, self.etcd = free_port(self.address), free_port(self.address), {}, None
        for folder in ("run", "key"):
            (self.top / folder).mkdir(parents=True)
        (self.top / "key").chmod(0o777)  # as an emptyDir

    @property
    def socket(self):
        return self.top / "run" / "1000" / "ckptd.sock"

    def here(self, text):
        places = {"/run/ckpt": self.top / "run", "/store": self.store, "/key": self.top / "key", "0.0.0.0:9470": f"{self.address}:{self.http}",
                  "$(POD_IP):7470": f"{self.address}:{self.port}", "/secret": self.secret or "/secret", "etcd://etcd:2379/ckpt": self.etcd or "etcd://"}
        for theirs, ours in places.items():
            text = text.replace(theirs, str(ours))
        return text

    def words(self, pod, container, capabilities=None, user=None, profile=None, command=None):
        """The command, with what puts it in its place. The last four: in place of the manifest's."""
        context = {**pod["securityContext"], **container["securityContext"]}
        user = str(context["runAsUser"]) if user is None else user
        added = context["capabilities"].get("add", []) if capabilities is None else capabilities
        bounds = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
        mounts = [self.here(m["mountPath"]) for m in container["volumeMounts"] if not m.get("readOnly")]
        place = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh", *mounts, "--",
                 "setpriv", f"--bounding-set={bounds}", "--inh-caps=-all", "--no-new-privs"]
        if user != "0":
            place += ["--reuid", user, "--regid", str(context.get("runAsGroup", user)), "--clear-groups"]
        if profile or context["seccompProfile"]["type"] == "Localhost":
            place += [sys.executable, str(ROOT / "tests" / "lib" / "seccomp.py"), str(profile or PROFILE)]
        return [*place, *map(self.here, command or container.get("command", []) + container.get("args", []))]

    def env(self, container, **fields):
        """As the manifest has it. fields: what the downward API and Kubernetes itself would tell."""
        told = {"status.podIP": self.address, "spec.nodeName": self.name, **fields}
        env = {e["name"]: self.here(e["value"]) if "value" in e else told[e["valueFrom"]["fieldRef"]["fieldPath"]] for e in container.get("env", [])}
        return {**ENVIRONMENT, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_CONFIG": "/dev/null", "HOME": "/", **env}

    def start(self, name, pod, container, fields=None, **how):
        with open(self.top / f"{name}.log", "ab") as log:
            self.children[name] = subprocess.Popen(self.words(pod, container, **how), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   env=self.env(container, **(fields or {})))
        return self.children[name]

    def run(self, pod, container, **how):
        return subprocess.run(self.words(pod, container, **how), capture_output=True, text=True, timeout=DEADLINE, env=self.env(container))

    def probe(self, pod, container, action):
        """As in the container: its user, its rights."""
        return self.run(pod, container, command=action["exec"]["command"])

    def ckptd(self, pod):
        """Its pod, until the startup probe passes."""
        for container in pod["initContainers"]:
            done = self.run(pod, container)
            equal(done.returncode, 0, f"{container['name']}: {done.stderr}")
        ckptd = pod["containers"][0]
        self.start("ckptd", pod, ckptd)
        until(lambda: self.probe(pod, ckptd, ckptd["startupProbe"]).returncode == 0 or self.children["ckptd"].poll() is not None, "the startup probe passes")
        equal(self.children["ckptd"].poll(), None, self.text("ckptd")[-2000:])

    def rank(self, job, number, args=None):
        """A pod of an Indexed Job."""
        pod = job["template"]["spec"]
        container = dict(pod["containers"][0], **({"args": args} if args else {}))
        return self.start(f"rank{number}", pod, container, {INDEX: str(number)})

    def signal(self, name, number=signal.SIGKILL):
        """To the first process of the container; SIGKILL, and so to all of it."""
        subprocess.run(["pkill", f"-{int(number)}", "-P", str(self.children[name].pid)], check=False)

    def kill(self, name):
        self.signal(name)
        return self.children[name].wait(DEADLINE)

    def step(self):
        """The newest of any rank."""
        done = subprocess.run([BIN / "ckpt", "status", "--json", "--socket", self.socket], capture_output=True, text=True, env=ENVIRONMENT)
        jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
        return max((rank.get("step") or 0 for job in jobs for rank in job["ranks"]), default=0)

    def text(self, name):
        return (self.top / f"{name}.log").read_text(errors="replace")


@contextlib.contextmanager
def nodes(*names, key=None):
    """Nodes with a store that they share; with the cluster's key as the kubelet shows a Secret to a pod with an fsGroup."""
    top = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o755)
    (top / "store").mkdir()
    os.chown(top / "store", 1000, 1000)
    if key:
        (top / "secret").mkdir()
        give_key(top / "secret", key)
    made = [Node(top, name, top / "store", top / "secret" if key else None) for name in names]
    try:
        yield made
    except Exception:
        for path in sorted(top.glob("*/*.log")):
            print(f"# ---- {path.relative_to(top)}\n" + "".join(f"# {line}\n" for line in path.read_text(errors="replace")[-1500:].splitlines()))
        raise
    finally:
        for node in made:
            for name in node.children:
                node.kill(name)
        shutil.rmtree(top, ignore_errors=True)


def give_key(secret, text):
    """The Secret is changed: another file in place of the former one."""
    path = secret / "new"
    path.write_text(text)
    os.chown(path, 0, 1000)
    path.chmod(0o440)
    path.rename(secret / "cluster.key")
