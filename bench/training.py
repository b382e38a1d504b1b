"""ckpt run with ranks of ckpt-train, and what it and they report. For the benchmarks of this folder."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from node import DEADLINE, Failed

# Options of ckpt-train. The state is 12 bytes per parameter: the parameters, and AdamW's two moments split over the ranks.
MODELS = {"demo": [], "64 MiB": ["--width", "256", "--layers", "7", "--heads", "4", "--seq", "16", "--batch", "4"],
          "256 MiB": ["--width", "768", "--layers", "6", "--heads", "12", "--seq", "16", "--batch", "3"],
          "1 GiB": ["--width", "1024", "--layers", "7", "--heads", "8", "--seq", "16", "--batch", "4"]}


class Training:
    """with Training(programs, folder, world, options) as training: a run in progress, with a store of its own."""

    def __init__(self, programs, folder, world, options, run=()):
        self.home = tempfile.mkdtemp(prefix="ckpt-bench-", dir=folder)
        self.summary, self.report = os.path.join(self.home, "run.json"), os.path.join(self.home, "report")
        self.spans = os.path.join(self.home, "spans")
        self.at, self.events = 0, []
        command = [os.path.join(programs, "ckpt"), "run", "-n", str(world), "--store", os.path.join(self.home, "store"),
                   "--report", self.summary, *run, "--", os.path.join(programs, "ckpt-train"), "--report", self.report, *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
        environment["CKPT_SPAN_LOG"] = self.spans
        self.errors = open(os.path.join(self.home, "stderr"), "w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
                                        env=environment)

    def __enter__(self):
        return self

    def read(self):
        """The lines that the ranks have reported since the last call."""
        if not os.path.exists(self.report):
            return []
        with open(self.report) as file:
            file.seek(self.at)
            lines = file.read()
        whole = lines[:lines.rfind("\n") + 1]
        self.at += len(whole.encode())
        new = [json.loads(line) for line in whole.splitlines()]
        self.events += new
        return new

    def wait(self, condition, what):
        """Reads until condition(all events so far) is true."""
        limit = time.monotonic() + DEADLINE
        while not condition(self.events):
            if time.monotonic() > limit or self.process.poll() is not None:
                raise self.failed(f"{what} did not come")
            if not self.read():
                time.sleep(0.002)

    def of(self, event, **fields):
        return [e for e in self.events if e["event"] == event and all(e[key] == value for key, value in fields.items())]

    def finish(self):
        """Waits for the end; what ckpt run reports."""
        if self.process.wait(DEADLINE):
            raise self.failed(f"exit status {self.process.returncode}")
        self.read()
        with open(self.summary) as file:
            return json.load(file)

    def state_bytes(self):
        """That a save takes into memory, on all ranks; after finish()."""
        with open(self.spans) as file:
            return max(json.loads(line).get("captured_bytes", 0) for line in file)

    def failed(self, what):
        self.errors.seek(0)
        return Failed(f"{what}: {self.errors.read()[-2000:]}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()
        shutil.rmtree(self.home, ignore_errors=True)
