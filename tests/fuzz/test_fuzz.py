"""Every target of libFuzzer for a few seconds, from what the encoders write and what earlier runs have found; nightly two minutes each.
An input that breaks one stays in build/fuzz/artefacts, and the failure names it. `test_fuzz.py TARGET SECONDS` runs one (scripts/fuzz)."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from tap import BIN, NIGHTLY, Cases, expect

HERE = pathlib.Path(__file__).resolve().parent
TOP = BIN.parent
SECONDS = 120 if NIGHTLY else 2  # by day: that what is known to be hostile is still refused
INPUT_MAX = 1 << 16
SEAL = 44  # bytes at the end of a sealed document
FILES = {"MANIFEST.json": "fuzz_manifest", "node-*.json": "fuzz_node_manifest", "HEALTH.json": "fuzz_marks", "PINNED": "fuzz_marks",
         "VERDICT.json": "fuzz_marks",         "*.xxh": "fuzz_sidecar", "*.safetensors": "fuzz_safetensors", "*.ckptz": "fuzz_ckptz"}


# Of etcd 3.4, behind the number of their kind: ranges, messages of a watch, other words; and an address.
HEADER = b'"header":{"cluster_id":"13455796455940752355","member_id":"7","revision":"9","raft_term":"2"}'
RECORD = b'{"key":"L2NrcHQvYQ==","create_revision":"2","mod_revision":"3","version":"1","lease":"7","value":"aGVsbG8="}'
ANSWERS = {
    "range": b"\0{" + HEADER + b',"kvs":[' + RECORD + b"," + RECORD.replace(b"YQ==", b"Yg==") + b'],"more":true,"count":"41"}',
    "created": b'\1{"result":{' + HEADER + b',"created":true}}',
    "events": b'\1{"result":{' + HEADER + b',"fragment":true,"events":[{"kv":' + RECORD + b'},{"type":"DELETE","kv":{"key":"L2NrcHQvYQ==","mod_revision":"4"}}]}}',
    "compacted": b'\1{"result":{' + HEADER + b',"canceled":true,"compact_revision":"3","cancel_reason":"x"}}',
    "error": b'\1{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}}',
    "transaction": b"\2{" + HEADER + b',"succeeded":true,"responses":[{"response_put":{"header":{"revision":"2"}}}]}',
    "grant": b"\2{" + HEADER + b',"ID":"7","TTL":"5"}',
    "keepalive": b'\2{"result":{' + HEADER + b',"ID":"7","TTL":"5"}}',
    "token": b"\2{" + HEADER + b',"token":"gLPPdjRKOYhKRsvF.41"}',
    "refusal": b'\2{"error":"etcdserver: permission denied","message":"etcdserver: permission denied","code":7}',
    "address": b"\3etcds://a:2379,[::1]:7,10.0.0.7/ckpt/x",
}


def seed(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def make_seeds(top):
    """top/TARGET: the inputs to begin with."""
    subprocess.run([BIN / "fuzz_seeds", top], check=True)
    store = top / "store"
    subprocess.run([BIN / "make_store", "--rows", "6", "--cols", "5", "--nodes", "2", "--damaged", "rowwise", "--pin", "why", "--verdict", "unhealthy", store, "7"],
                   check=True)
    subprocess.run([BIN / "make_store", "--rows", "60", "--cols", "50", "--packed", "--weights", store, "8"], check=True)
    seed(top / "fuzz_config", "small", b"# a comment\n[node]\nmemory-limit = 4G ; why\n[job gpt*]\nkeep-last = 3\nsave-timeout = 5s\n")
    for name, data in ANSWERS.items():
        seed(top / "fuzz_registry_answer", name, data)
    for number in range(32):  # a byte of each file of its store
        seed(top / "fuzz_reader", str(number), bytes([number, 9, 0, 1, 7]))
    for pattern, target in FILES.items():
        for path in store.glob(f"main/step-*/{pattern}"):
            data = path.read_bytes()
            seed(top / target, path.name, data)
            if data.endswith(b'"}\n'):
                seed(top / target, path.name + ".bare", data[:-SEAL])
                seed(top / "fuzz_json", path.name, data)


def figures(log):
    runs, edges = re.search(r"stat::number_of_executed_units: (\d+)", log), re.findall(r"cov: (\d+)", log)
    return f"{runs.group(1) if runs else '?'} inputs, {edges[-1] if edges else '?'} edges covered"


def run(target, seconds, number, seeds):
    corpus, kept = TOP / "corpus" / target, TOP / "artefacts"
    corpus.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    (seeds / target).mkdir(exist_ok=True)
    done = subprocess.run([BIN / target, f"-max_total_time={seconds}", f"-seed={number}", f"-max_len={INPUT_MAX}", "-timeout=20",
                           "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={kept}/{target}-", corpus, seeds / target],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds + 100)
    artefact = re.search(r"Test unit written to (\S+)", done.stdout)
    expect(done.returncode == 0, f"exit {done.returncode}; the input is kept as {artefact.group(1) if artefact else '?'}\n{done.stdout[-3000:]}")
    print(f"# {target}: {seconds} s, seed {number}: {figures(done.stdout)}")


def main():
    targets = sorted(path.stem for path in HERE.glob("fuzz_*.c"))
    if not all((BIN / target).exists() for target in targets):
        print("the targets are not built: clang or its runtime (libclang-rt-dev) is missing")
        return 77
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    if wanted and wanted not in targets:
        print(f"there is no {wanted}; targets: {' '.join(targets)}")
        return 2
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    number = int(os.environ.get("CKPT_SEED", random.randrange(1, 1 << 31)))
    print(f"# CKPT_SEED={number}", flush=True)
    cases, seeds = Cases(), pathlib.Path(tempfile.mkdtemp())
    make_seeds(seeds)
    for target in [wanted] if wanted else targets:
        cases.run(target, run, target, seconds, number, seeds)
    shutil.rmtree(seeds, ignore_errors=True)
    return cases.end()


sys.exit(main())
