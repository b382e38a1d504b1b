"""deploy/kubernetes: the manifests keep to the published schemas, kustomize and helm make the same of them, and they give no right that is not named."""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import packages

packages.need("yaml", "kubernetes_validate")
import kubernetes_validate  # noqa: E402
import seccomp  # noqa: E402
import yaml  # noqa: E402
from pods import FOLDER, PROFILE, ROOT, built, daemon_set, documents, output, tool  # noqa: E402
from pages import commands  # noqa: E402
from tap import DEADLINE, Cases, equal, expect, has  # noqa: E402

VERSION = "1.32"
# Kinds that Kubernetes itself does not have, and what of them is one of its own.
OTHERS = {"Kustomization": None, "Component": None, "ServiceMonitor": None, "Chart": None, "JobSet": "Job"}
cases = Cases()
case = cases.case
no_kubectl = None if tool("kubectl") else "there is no kubectl: python3 tests/kube.py build/kube fetches it"
no_helm = None if tool("helm") else "there is no helm: python3 tests/kube.py build/kube fetches it"


def jobs():
    """{file: (specification of the Job, its disruption budget, ranks in all)}"""
    job, budget = documents("job.yaml")
    sets, budgets = documents("jobset.yaml")
    (nodes,) = sets["spec"]["replicatedJobs"]
    return {"job.yaml": (job["spec"], budget["spec"], job["spec"]["completions"]),
            "jobset.yaml": (nodes["template"]["spec"], budgets["spec"], nodes["replicas"] * nodes["template"]["spec"]["completions"])}


def by_name(found):
    return {(d["kind"], d["metadata"]["name"]): d for d in found if d and d["kind"] != "Namespace"}


@case("every manifest keeps to the schema, strictly, and one with an unknown field does not")
def _():
    whole = [d for d in documents() if d.get("kind") and d["kind"] not in OTHERS and (d["kind"] != "DaemonSet" or "selector" in d["spec"])]
    for document in whole:
        kubernetes_validate.validate(document, VERSION, strict=True)
    equal(sorted(document["kind"] for document in whole), ["DaemonSet", "Job", "Namespace", "NetworkPolicy", "NetworkPolicy", "PodDisruptionBudget", "PodDisruptionBudget", "Service"])
    kubernetes_validate.validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "node"}, "spec": jobs()["jobset.yaml"][0]}, VERSION, strict=True)
    wrong = documents("base/daemonset.yaml")[0]
    wrong["spec"]["template"]["spec"]["containers"][0]["privilegd"] = True
    try:
        kubernetes_validate.validate(wrong, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        return
    expect(False, "an unknown field passes")


@case("each kustomization names all files beside it, builds, and what it makes keeps to the schema")
def _():
    for folder in ("base", "cluster", "monitoring", "seccomp"):
        made = documents(f"{folder}/kustomization.yaml")[0]
        named = made.get("resources", []) + [patch["path"] for patch in made.get("patches", [])]
        equal(sorted(name for name in named if name.endswith(".yaml")), sorted(p.name for p in (FOLDER / folder).glob("*.yaml") if p.name != "kustomization.yaml"))
    if no_kubectl:
        return no_kubectl
    for folder in ("base", "cluster", "monitoring"):
        found = built(FOLDER / folder)
        equal({d["metadata"].get("namespace", "ckpt") for d in found}, {"ckpt"})
        for document in found:
            if document["kind"] not in OTHERS:
                kubernetes_validate.validate(document, VERSION, strict=True)
    pod = by_name(built(FOLDER / "cluster"))["DaemonSet", "ckptd"]["spec"]["template"]["spec"]
    equal(pod, daemon_set("cluster"), "the pod that the tests play")
    return None


@case("helm makes of them what kustomize makes")
def _():
    if no_kubectl or no_helm:
        return no_kubectl or no_helm
    for values, folders in (([], ["base"]), (["cluster=true"], ["cluster"]), (["cluster=true", "monitoring=true"], ["cluster", "monitoring"])):
        charted = output(tool("helm"), "template", "ckpt", FOLDER, "--namespace", "ckpt", *(word for value in values for word in ("--set", value)))
        kustomized = [document for folder in folders for document in built(FOLDER / folder)]
        equal(by_name(yaml.safe_load_all(charted)), by_name(kustomized), values)
    output(tool("helm"), "lint", FOLDER)
    return None


@case("each value of the chart is used, and its default is what the manifests say")
def _():
    if no_helm:
        return no_helm
    defaults = yaml.safe_load((FOLDER / "values.yaml").read_text())
    others = {"image": "site/ckpt:7", "user": "2345", "memory": "7Gi", "storeClaim": "other-claim", "registry": "etcd://elsewhere:1/x", "seccomp": "a/b.json"}
    equal(set(others) | {"cluster", "monitoring"}, set(defaults))
    words = [word for name, value in others.items() for word in ("--set", f"{name}={value}")]
    text = output(tool("helm"), "template", "ckpt", FOLDER, "--namespace", "elsewhere", "--set", "cluster=true", *words)
    has(text, *others.values())
    for name in set(others) - {"image", "seccomp"}:
        expect(str(defaults[name]) not in text, name, "stays")
    equal(set(re.findall(r"image: (.*)", text)), {others["image"]})
    plain = output(tool("helm"), "template", "ckpt", FOLDER, "--set", "cluster=true")
    has(plain, *(str(defaults[name]) for name in others))
    equal({d["metadata"]["namespace"] for d in yaml.safe_load_all(text) if d}, {"elsewhere"})
    return None


@case("the dashboard and the collection of metrics are those of docs/monitoring and of the service")
def _():
    service = documents("base/service.yaml")[0]
    monitor = documents("monitoring/servicemonitor.yaml")[0]["spec"]
    equal(monitor["selector"]["matchLabels"], service["metadata"]["labels"])
    (end,) = monitor["endpoints"]
    equal(end["port"], service["spec"]["ports"][0]["name"])
    equal((FOLDER / "monitoring" / "grafana.json").resolve(), (ROOT / "docs" / "monitoring" / "grafana.json").resolve())
    if no_kubectl:
        return no_kubectl
    shown = by_name(built(FOLDER / "monitoring"))["ConfigMap", "ckpt-dashboard"]
    equal(shown["metadata"]["labels"], {"grafana_dashboard": "1"})
    equal(json.loads(shown["data"]["grafana.json"]), json.loads((ROOT / "docs" / "monitoring" / "grafana.json").read_text()))
    return None


@case("who was asked to stop is started again, and a drain is not held up")
def _():
    for name, (job, budget, ranks) in jobs().items():
        rank = job["template"]["spec"]["containers"][0]
        status = int(rank["args"][rank["args"].index("--stopped-status") + 1])
        has(str(job["podFailurePolicy"]["rules"]), str({"operator": "In", "values": [status]}), "DisruptionTarget")
        equal({rule["action"] for rule in job["podFailurePolicy"]["rules"]}, {"Ignore"})
        equal(job["template"]["spec"]["restartPolicy"], "Never", f"{name}: what podFailurePolicy asks for")
        equal(budget, {"minAvailable": ranks - 1, "selector": {"matchLabels": job["template"]["metadata"]["labels"]}})
        world = next(e["value"] for e in rank["env"] if e["name"] == "CKPT_WORLD")
        equal(int(world), ranks)


@case("ranks of a JobSet have the numbers from 0 to the world's size, each once")
def _():
    job, _, ranks = jobs()["jobset.yaml"]
    (nodes,) = documents("jobset.yaml")[0]["spec"]["replicatedJobs"]
    rank = job["template"]["spec"]["containers"][0]
    seen = [int(output("env", f"NODE={node}", f"JOB_COMPLETION_INDEX={index}", *rank["command"], "sh", "-c", "echo $CKPT_RANK"))
            for node in range(nodes["replicas"]) for index in range(job["completions"])]
    equal(sorted(seen), list(range(ranks)))


@case("nothing is privileged, and only the folder is made with a capability")
def _():
    for pod in [daemon_set("cluster", "seccomp"), *(job["template"]["spec"] for job, _, _ in jobs().values())]:
        expect(not {"hostPID", "hostIPC", "hostNetwork"} & set(pod), pod)
        has("RuntimeDefault Localhost", pod["securityContext"]["seccompProfile"]["type"])
        equal([v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v], ["/run/ckpt"])
        for container in pod.get("initContainers", []) + pod["containers"]:
            context = container["securityContext"]
            equal([context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"], context["capabilities"]["drop"]], [False, True, ["ALL"]])
            equal(context["capabilities"].get("add", []), ["CHOWN"] if container["name"] == "folder" else [])


# What a process of ckptd's container has no use for.
FORBIDDEN = ("mount umount2 pivot_root chroot setns unshare clone3 ptrace process_vm_readv process_vm_writev bpf perf_event_open userfaultfd keyctl add_key "
             "request_key init_module finit_module delete_module kexec_load reboot swapon swapoff sethostname setuid setgid setgroups capset mknod mknodat "
             "pidfd_getfd open_by_handle_at name_to_handle_at quotactl settimeofday clock_settime iopl ioperm personality acct nfsservctl lookup_dcookie")


@case("the seccomp profile names what it allows once, and none of what opens a container")
def _():
    rules = json.loads(PROFILE.read_text())["syscalls"]
    plain = [name for rule in rules if "args" not in rule for name in rule["names"]]
    equal(len(plain), len(set(plain)), "names that stand twice")
    equal(set(plain) & set(FORBIDDEN.split()), set())
    known = seccomp.numbers()
    if not known:
        return "the numbers of system calls are those of x86_64"
    equal({name for name in [*plain, *FORBIDDEN.split()] if name not in known}, set(), "names that no kernel has")
    return None


# In place of a cluster: what is to be applied is printed; what is to be run in pods is test_kubernetes.py's.
STANDS_IN = {"kubectl": """case "$* " in
*"apply -k"*) exec {tool} kustomize "$3" ;;
*"apply -f"*) exec cat "$3" ;;
*"get pods"*) echo pod/one pod/two ;;
*" exec "*) echo "# in $4: $8" ;;
*kustomize* | *--dry-run*) exec {tool} "$@" ;;
*) exec {tool} "$@" --dry-run=client -o yaml ;;
esac""", "helm": """[ "$1" != install ] || { shift; set -- template "$@"; }
exec {tool} "$@"
"""}


@case("what the page says is typed, and what comes of it keeps to the schema")
def _():
    if no_kubectl or no_helm:
        return no_kubectl or no_helm
    with tempfile.TemporaryDirectory() as held:
        top = pathlib.Path(held)
        (top / "bin").mkdir()
        (top / "deploy").symlink_to(FOLDER.parent)
        for name, text in STANDS_IN.items():
            (top / "bin" / name).write_text(f"#!/bin/sh\n{text.replace('{tool}', tool(name))}\n")
            (top / "bin" / name).chmod(0o755)
        env = {**os.environ, "PATH": f"{top}/bin:{os.environ['PATH']}"}
        for command in commands("run-on-kubernetes.md"):
            command = command.replace("-f -", "-f /dev/stdin")
            done = subprocess.run(command, shell=True, cwd=top, env=env, capture_output=True, text=True, timeout=DEADLINE)
            equal(done.returncode, 0, f"{command}: {done.stderr}")
            kinds = {document["kind"] for document in yaml.safe_load_all(done.stdout) if document}
            for document in yaml.safe_load_all(done.stdout):
                if document and document["kind"] not in OTHERS:
                    kubernetes_validate.validate(document, VERSION, strict=True)
            expect(kinds or not re.match("kubectl|helm", command), command, "makes nothing")
            if "secret" in command and "exec" not in command:
                (secret,) = yaml.safe_load_all(done.stdout)
                keys = base64.b64decode(secret["data"]["cluster.key"]).decode().split("\n")[:-1]
                equal([len(base64.b64decode(key)) for key in keys], [32] * (2 if "apply" in command else 1), "keys")
    return None


@case("an overlay as the page shows it: ckptd with the profile of the tree")
def _():
    if no_kubectl:
        return no_kubectl
    page = (ROOT / "docs" / "howto" / "run-on-kubernetes.md").read_text()
    overlay = "\n".join(line[8:] for line in page.split("kustomization.yaml`:\n\n")[1].split("\n\n")[0].splitlines())
    # Beside the manifests, as a checkout has it: kustomize takes no absolute path.
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as held:
        path = pathlib.Path(held) / "kustomization.yaml"
        path.write_text(overlay.replace("ckpt/deploy/", "../../deploy/"))
        pod = by_name(built(held))["DaemonSet", "ckptd"]["spec"]["template"]["spec"]
    equal(pod["securityContext"]["seccompProfile"], {"type": "Localhost", "localhostProfile": "ckpt/ckptd.json"})
    has(page, "/var/lib/kubelet/seccomp/ckpt/ckptd.json")
    return None


sys.exit(cases.end())
