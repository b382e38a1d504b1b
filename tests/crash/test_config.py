"""Settings of a running daemon: files, reload, and the policies as ranks and operators see them."""

import json
import re
import signal
import subprocess
import sys
import time

import single_node
from single_node import BIN, DEADLINE, Cases, expect, until


def config_of(d, text):
    path = d.top / "ckpt.conf"
    path.write_text(text)
    return path


def with_file(text, test):
    """A daemon whose file lies beside it."""
    with single_node.daemon() as d:
        d.options += ["--config", str(config_of(d, text))]
        test(d.start())


def reload(d, text, says):
    config_of(d, text)
    d.process.send_signal(signal.SIGHUP)
    until(lambda: says in d.text(), f"the log says '{says}'")


def durable_ms(d, step):
    match = until(lambda: re.search(rf"step {step} epoch 1 durable, (\d+) ms", d.text()), f"step {step} is durable")
    return int(match.group(1))


# ---- files

def a_mistake_ends_the_start():
    with single_node.daemon() as d:
        path = config_of(d, "[node]\nmemory-limit = 1G\n[job]\npersist-every = often\n")
        done = subprocess.run([BIN / "ckptd", "--socket", d.socket, "--config", path], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 2, "exit", done.returncode)
        expect(f"{path}:4: [job] persist-every: \"often\" is not allowed: expected a number" in done.stderr, done.stderr)
        code, out, err = d.ckpt("config", "--check", path)
        expect(code == 1 and f"{path}:4:" in err, code, out, err)
        code, out, err = d.ckpt("config", "--check", config_of(d, "[job]\npersist-every = 2\n"))
        expect(code == 0 and "no mistakes" in out, code, out, err)


def settings(d, *args):
    code, out, err = d.ckpt("config", "--config", d.top / "ckpt.conf", "--json", *args)
    expect(code == 0, err)
    return {(s["section"], s["key"]): s for s in json.loads(out)["settings"]}


def what_file_and_daemon_say_is_compared(d):
    path = config_of(d, "[node]\nname = other\n[job]\npersist-every = 3\nlinger = 1m\n")
    found = settings(d)
    every, name, store = (found[key] for key in (("job", "persist-every"), ("node", "name"), ("node", "store")))
    expect((every["value"], every["daemon"], every["remedy"]) == ("3", "2", "reload: SIGHUP"), every)
    expect(every["from"] == f"{path}:4", every)
    expect((name["daemon"], name["remedy"]) == ("n0", "--node"), name)
    expect((store["daemon"], store["remedy"]) == (str(d.store), "--store"), store)
    expect(found["job", "linger"]["daemon"] == "10m", found["job", "linger"])


def a_reload_takes_effect_or_changes_nothing(d):
    reload(d, "[job]\npersist-every = 7\n[node]\nsocket = /elsewhere\nwrite-bandwidth = 1M\n", "was read again")
    until(lambda: "[node] write-bandwidth is now 1M, was 0" in d.text(), "the new limit")
    expect("[node] socket stays" not in d.text(), "an option wins over the file, so that nothing changes")
    expect(settings(d)["job", "persist-every"]["daemon"] == "7", "the daemon has the new value")
    reload(d, "[job]\npersist-every = 8\nnonsense = 1\n", "the configuration stays as it is")
    expect("ckpt.conf:3: \"nonsense\" is not a setting of [job]" in d.text(), d.text())
    expect(settings_of_daemon(d)["job", "persist-every"] == "7", "the old value stays")


def settings_of_daemon(d):
    return {(s["section"], s["key"]): s["value"] for s in d.status()["config"]}


def what_needs_a_restart_is_said(d):
    d.options = [o for o in d.options if o not in ("--node", "n0")]
    d.stop()
    d.start()
    name = settings_of_daemon(d)["node", "name"]
    reload(d, "[node]\nname = other\n", "takes effect when ckptd is started again")
    expect(settings_of_daemon(d)["node", "name"] == name, "the name stays")


# ---- policies

def one_save_in_two_is_written_and_the_last_one_after_all(d):
    rank = d.rank(0, 1, "--steps", 6, "--storage", 1, "--elements", 2000, "--wait", "durable", "--deadline", 20000)
    expect(rank.wait() == 0, rank.lines()[-3:])
    expect(sorted(rank.reached("durable")) == [(1, 1), (1, 3), (1, 5)], rank.lines())
    failed = rank.of("failed")
    expect([line[1:3] for line in failed] == [[str(s), "EOPNOTSUPP"] for s in (2, 4, 6)], failed)
    expect("persist-every = 2 writes one save in 2" in " ".join(failed[0]), failed[0])
    until(lambda: (1, 6) in d.committed(), "the last step is written when the rank has closed")
    expect(d.committed() == [(1, 1), (1, 3), (1, 5), (1, 6)], d.committed())


ELEMENTS = 1 << 20
BYTES = 2 * 8 * ELEMENTS
RATE = 8 << 20


def writes_keep_the_limit(d):
    rank = d.rank(0, 1, "--steps", 1, "--storage", 1, "--elements", ELEMENTS, "--wait", "durable", "--deadline", 25000)
    expect(rank.wait() == 0, rank.lines()[-3:])
    took, least = durable_ms(d, 1) / 1000, BYTES / RATE
    print(f"# {BYTES >> 20} MiB under {RATE >> 20} MiB/s: {took:.2f} s, the limit alone is {least:.2f} s")
    expect(took > 0.95 * least, f"faster than the limit: {took:.2f} s")
    rank.check_memory()


def a_limit_that_is_lifted_lets_a_save_go(d):
    began = time.monotonic()
    rank = d.rank(0, 1, "--steps", 1, "--storage", 1, "--elements", ELEMENTS, "--wait", "durable", "--deadline", 60000)
    until(lambda: list(d.store.glob("main/.writing-step-*/*.safetensors")), "the file is begun")
    reload(d, "", "[job main] write-bandwidth is now 0, was 64K")
    expect(rank.wait() == 0, rank.lines()[-3:])
    expect(time.monotonic() - began < BYTES / (64 << 10) / 4, "not at the old pace")
    d.verify_all()


def a_daemon_that_ends_lifts_its_limits(d):
    rank = d.rank(0, 1, "--steps", 1, "--storage", 1, "--elements", ELEMENTS, "--wait", "durable", "--deadline", 20000)
    until(lambda: list(d.store.glob("main/.writing-step-*/*.safetensors")), "the file is begun")
    expect(d.stop() == 0, d.text())
    rank.kill()
    expect(d.committed() == [(1, 1)], d.directories())
    d.verify_all()


def a_refused_save_stays_in_memory(d):
    # Slow enough that the second save meets the first, until that is seen; the third finds room again or not: the first must be whole in any case.
    rank = d.rank(0, 1, "--steps", 3, "--storage", 1, "--elements", 1 << 17, "--deadline", 20000)
    rank.until(lambda: any(line[2] == "EBUSY" for line in rank.of("failed")), "a save is refused")
    reload(d, "[job]\nsave-policy = refuse\n", "[job main] write-bandwidth is now 0, was 64K")
    expect(rank.wait() == 0, rank.lines()[-3:])
    refused = [line for line in rank.of("failed") if line[2] == "EBUSY"]
    expect(refused and "step 1 is still being written, and the policy is to refuse" in " ".join(refused[0]), rank.lines())
    expect(("1", int(refused[0][1])) not in rank.reached("durable"), rank.lines())
    until(lambda: (1, 1) in d.committed(), "the first is written")


def a_job_has_a_ceiling_of_its_own(d):
    rank = d.rank(0, 1, "--steps", 1, "--elements", ELEMENTS, "--deadline", 5000)
    expect(rank.wait() == 1, "exit", rank.process.returncode)
    said = " ".join(rank.lines()[-1].split())
    expect("the limit of this job is 8.0 MiB: raise memory-limit of [job main]" in said, said)


def main():
    cases = Cases()
    cases.run("a mistake in a file ends the start and is found by ckpt config --check", a_mistake_ends_the_start)
    cases.run("ckpt config tells file and daemon apart", with_file, "[job]\npersist-every = 2\n",
              what_file_and_daemon_say_is_compared)
    cases.run("SIGHUP takes effect, or changes nothing", with_file, "[job]\npersist-every = 2\n",
              a_reload_takes_effect_or_changes_nothing)
    cases.run("what needs a restart is said", with_file, "", what_needs_a_restart_is_said)
    cases.run("persist-every", with_file, "[job ma*]\npersist-every = 2\n",
              one_save_in_two_is_written_and_the_last_one_after_all)
    cases.run("save-policy = refuse", with_file, "[job]\nsave-policy = refuse\nwrite-bandwidth = 64K\n",
              a_refused_save_stays_in_memory)
    cases.run("write-bandwidth", with_file, f"[node]\nwrite-bandwidth = {RATE}\n", writes_keep_the_limit)
    cases.run("a limit that is lifted", with_file, "[job]\nwrite-bandwidth = 64K\n", a_limit_that_is_lifted_lets_a_save_go)
    cases.run("the end of a daemon under a limit", with_file, "[node]\nwrite-bandwidth = 1M\n",
              a_daemon_that_ends_lifts_its_limits)
    cases.run("memory-limit of a job", with_file, "[job main]\nmemory-limit = 8M\n", a_job_has_a_ceiling_of_its_own)
    return cases.end()


sys.exit(main())
