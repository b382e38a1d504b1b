"""scripts/gpu-check on a machine without a GPU says so, measures nothing and ends with 3; its table tells what missed its floor;
scripts/offline-deps says what it lacks."""

import importlib.machinery
import importlib.util
import io
import contextlib
import os
import subprocess
import sys
import tempfile

import tidy

CHECK = tidy.ROOT / "scripts" / "gpu-check"

loader = importlib.machinery.SourceFileLoader("gpu_check", str(CHECK))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
sys.dont_write_bytecode = True
loader.exec_module(gpu_check)


def without_a_gpu():
    if not gpu_check.why_no_gpu():
        tidy.skip("there is a GPU: scripts/gpu-check would run for minutes")
    done = subprocess.run([CHECK], capture_output=True, text=True, cwd="/")
    lines = done.stdout.splitlines()
    problems = [] if done.returncode == gpu_check.NO_GPU else [f"exit status {done.returncode}, not {gpu_check.NO_GPU}"]
    if len(lines) != 1 or "no GPU: not measured (" not in lines[0] or done.stderr:
        problems.append(f"it says {done.stdout!r} {done.stderr!r}")
    return problems


def programs_without_a_gpu():
    """Those that are built say it, too, and are not taken for passed."""
    problems = []
    for program in sorted(gpu_check.BIN.glob("*gpu_*")):
        done = subprocess.run([program], capture_output=True, text=True)
        if done.returncode != gpu_check.SKIPPED or not done.stdout.startswith("no GPU: not measured ("):
            problems.append(f"{program.name}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return problems


def table():
    """Figures of a bench become rows, times are kept apart, a failure is told."""
    lines = ["figure\tfast\t1 of it\tat least 0.9\tyes\tlimit: 3 GB/s", "figure\tslow\t0.5 of it\tat least 0.9\tNO\tnone",
             "times\tblocked\t0.25", "chatter"]
    times = gpu_check.bench([sys.executable, "-c", f"print({chr(10).join(lines)!r})"], dict(os.environ))
    gpu_check.bench([sys.executable, "-c", "raise SystemExit(4)"], dict(os.environ))
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        gpu_check.show()
    text = shown.getvalue()
    wanted = ["| fast ", "| slow ", "| NO ", "| limit: 3 GB/s", "(exit status 4)"]
    problems = [f"not in the table: {word}\n{text}" for word in wanted if word not in text]
    return problems if times == {"blocked": 0.25} else [*problems, f"times: {times}"]


def at_once():
    """A row is there while its bench still runs; what was measured before the time was over counts, and what is no figure does not."""
    kept, had = gpu_check.add_row, list(gpu_check.failures)
    with tempfile.TemporaryDirectory() as folder:
        seen, rows = tidy.pathlib.Path(folder) / "seen", []
        gpu_check.add_row = lambda *cells: (rows.append(cells[0]), seen.touch())
        waits = ("import pathlib, sys, time\nprint('emulated, no figure\\tfake\\t1\\t1\\tno GPU\\tnone')\n"
                 "print('figure\\tfirst\\t1\\t1\\tyes\\tnone', flush=True)\n"
                 "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\nprint('figure\\tsecond\\t1\\t1\\tyes\\tnone', flush=True)\n"
                 "while len(sys.argv) > 2: time.sleep(1)")
        gpu_check.until = gpu_check.time.monotonic() + 120
        gpu_check.bench([sys.executable, "-c", waits, seen], dict(os.environ))
        problems = [] if gpu_check.failures == had else [f"{gpu_check.failures}"]
        gpu_check.until = gpu_check.time.monotonic() + 10
        gpu_check.bench([sys.executable, "-c", waits, seen, "and stays"], dict(os.environ))
    problems += [] if rows == ["first", "second"] * 2 else [f"{rows}"]
    problems += [] if any("(exit status 124)" in line for line in gpu_check.failures[len(had):]) else [f"{gpu_check.failures}"]
    gpu_check.add_row, gpu_check.until, gpu_check.failures[:] = kept, gpu_check.time.monotonic() + 300, had
    return problems


def skipped():
    """A test that lacks its library is told, and is no failure."""
    before = list(gpu_check.failures)
    gpu_check.test("trainer", [sys.executable, "-c", "print('1..0 # SKIP no NCCL'); raise SystemExit(77)"], dict(os.environ))
    good = gpu_check.failures == before and "not measured: no NCCL: trainer" in gpu_check.notes
    gpu_check.test("trainer", [sys.executable, "-c", "print('1..0 # SKIP no NCCL'); raise SystemExit(77)"], dict(os.environ), required=True)
    good = good and len(gpu_check.failures) == len(before) + 1 and "no NCCL" in gpu_check.failures[-1]
    return [] if good else [f"{gpu_check.failures} {gpu_check.notes}"]


def told():
    """What a test measures beside its cases is told, also when it passes."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        gpu_check.test("torch", [sys.executable, "-c", "print('# a save takes 3 ms\\nok 1 - it ends\\n1..1')"], dict(os.environ))
    return [] if said.getvalue() == "gpu-check: test torch: ok\n# a save takes 3 ms\n" else [said.getvalue()]


def torch():
    """It is given the package of the archive; a Python without PyTorch is named."""
    before, kept = (list(gpu_check.failures), len(gpu_check.notes)), gpu_check.BIN
    with tempfile.TemporaryDirectory() as folder:
        gpu_check.BIN = tidy.pathlib.Path(folder) / "bin"
        tidy.plant(tidy.pathlib.Path(folder), {"python/torch.py": "raise ImportError('planted')\n"})
        gpu_check.torch(None, dict(os.environ))
    gpu_check.BIN = kept
    said = gpu_check.notes[before[1]:]
    good = gpu_check.failures == before[0] and len(said) == 1 and ": planted: torch: " in said[0]
    return [] if good else [f"{gpu_check.failures} {said}"]


def wheels():
    """NCCL in a wheel is found, and a wheel without it is not taken for one."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nccl/lib/libnccl.so.2", "cu13/lib/libcublas.so.13", "cudnn/lib/libcudnn.so.9"):
            tidy.plant(tidy.pathlib.Path(folder), {f"nvidia/{name}": ""})
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = folder
        found = gpu_check.wheel_folders(sys.executable)
        os.environ["PYTHONPATH"] = before or ""
    wanted = [f"{folder}/nvidia/cu13/lib", f"{folder}/nvidia/nccl/lib"]
    return [] if sorted(found) == wanted else [f"{found}, not {wanted}"]


def stages():
    """A stage that is named runs alone, in its own time; behind a device layer that fails nothing runs."""
    ran, kept = [], list(gpu_check.failures)
    names = ("smoke", "small", "trainer", "torch", "sanitize", "full")
    former = {name: getattr(gpu_check, name) for name in names}
    for name in names:
        setattr(gpu_check, name, lambda args, env, name=name: ran.append((name, gpu_check.left())))
    gpu_check.failures[:] = []
    gpu_check.run_stages(["trainer", "torch", "full"], None, {})
    gpu_check.smoke = lambda args, env: gpu_check.failures.append("planted")
    gpu_check.run_stages(gpu_check.STAGES, None, {})
    gpu_check.failures[:] = kept
    for name in names:
        setattr(gpu_check, name, former[name])
    good = [name for name, _ in ran] == ["trainer", "torch", "full"] and all(
        abs(seconds - gpu_check.BUDGETS_S[name]) < 30 for name, seconds in ran)
    return [] if good else [f"{ran}"]


def memory():
    """What does not fit the memory is made smaller, or not measured, and told."""
    given = [(20, 100), (20, 66), (20, 3), (0.5, 1.7)]
    sizes = [gpu_check.fitting(gib, available) for gib, available in given]
    problems = [] if sizes == [20, 19, 0, 0.5] else [f"{given} gave {sizes}"]
    wanted = ("66.0 GiB of memory are available, and 20 GiB of state take 60: measured with 19 GiB",
              "3.0 GiB of memory are available, and 20 GiB of state take 60: not measured")
    problems += [f"not noted: {line}: {gpu_check.notes}" for line in wanted if line not in gpu_check.notes]
    return problems if gpu_check.available_gib() > 0.1 else [*problems, f"available: {gpu_check.available_gib()}"]


def growth():
    """The full size is what ends in time, as far as the small one tells; what is no larger than that is left out; a row is printed at once."""
    kept, sizes = gpu_check.sized, []
    gpu_check.sized = lambda gib, args, env: sizes.append(gib)
    args = type("Args", (), {"gib": 4, "full_gib": 20})
    for seconds in (None, 60, 200, 500):
        gpu_check.measured.clear()
        gpu_check.measured.update({} if seconds is None else {"gib": 4, "seconds": seconds})
        gpu_check.full(args, {})
    gpu_check.sized = kept
    gpu_check.measured.clear()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        gpu_check.add_row("figure", "1", "at least 1", "yes", "limit")
    gpu_check.rows.pop()
    problems = [] if sizes == [20, 20, 8] and any("3 GiB are no more" in note for note in gpu_check.notes) else [f"{sizes} {gpu_check.notes}"]
    return problems if "figure | 1 | at least 1" in said.getvalue() else [*problems, said.getvalue()]


def built():
    """With --no-build, a program that is not there or lacks a library is named."""
    kept, said = gpu_check.BIN, []
    with tempfile.TemporaryDirectory() as folder:
        gpu_check.BIN = tidy.pathlib.Path(folder)
        for word in ("is not there", "cannot start here"):
            try:
                gpu_check.check_built()
            except SystemExit as end:
                said.append(f"{end} / {word}")
            for name in gpu_check.BUILT:
                (gpu_check.BIN / name).write_text("no program")
    gpu_check.BIN = kept
    good = len(said) == 2 and all(line.partition(" / ")[2] in line.partition(" / ")[0] for line in said)
    return [] if good else [f"{said}"]


def offline_deps_without_apt():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("dirname", "bash", "env"):
            os.symlink(f"/usr/bin/{name}", f"{folder}/{name}")
        done = subprocess.run([f"{folder}/bash", tidy.ROOT / "scripts" / "offline-deps"], capture_output=True, text=True,
                              env={"PATH": folder})
    good = done.returncode == 3 and "no apt-get" in done.stderr
    return [] if good else [f"exit status {done.returncode}: {done.stdout}{done.stderr}"]


with contextlib.redirect_stdout(sys.stderr):
    cases = [
        ("without a GPU it measures nothing and says so", without_a_gpu()),
        ("so do its programs, where they are built", programs_without_a_gpu()),
        ("the table tells what missed its floor", table()),
        ("a row is there as soon as its bench has measured it", at_once()),
        ("what lacks its library is not measured, and a failure where it is needed", skipped()),
        ("what a test measures is told", told()),
        ("the stage torch takes the package of the archive, and says what it lacks", torch()),
        ("NCCL and cuBLAS are found in wheels", wheels()),
        ("a stage that is named runs alone, in its own time", stages()),
        ("a state that the memory has no room for is made smaller", memory()),
        ("the full size is what ends in time", growth()),
        ("a program that was not built is named", built()),
        ("offline-deps says that there is no apt-get", offline_deps_without_apt()),
    ]
tidy.report(cases)
