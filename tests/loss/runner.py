"""Plays pairs side by side, and says of each kind how it went."""

import concurrent.futures
import contextlib
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import traceback

from tap import BIN, Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Runner:
    """make: a pair of a seed. play: what plays it. kinds: their names, in the order in which seeds have them."""

    def __init__(self, script, make, play, kinds, beside):
        self.script, self.make, self.play, self.kinds, self.beside = script, make, play, kinds, beside

    def again(self, seed):
        """The command that plays it once more."""
        command = ["python3", pathlib.Path(self.script).resolve().relative_to(ROOT), str(seed)]
        if BIN != ROOT / "build" / "release" / "bin":
            command.insert(0, f"CKPT_BUILD={BIN}")
        return f"again: {shlex.join(map(str, command))}"

    def one(self, seed, tell=lambda text: None):
        """The pair, and None or how it failed."""
        pair = self.make(seed)
        top = pathlib.Path(tempfile.mkdtemp(prefix="pair-"))
        done = self.play(pair, top, tell)
        try:
            done.play()
            return pair, None
        except Exception as error:  # what else goes wrong is told as well
            what = str(error) if isinstance(error, Failure) else traceback.format_exc()
            return pair, f"seed {pair.seed}, {pair.kind}: {what}\n{self.again(seed)}"
        finally:
            with contextlib.suppress(Exception):
                tell(done.service.text())
            done.service.close()
            shutil.rmtree(top, ignore_errors=True)

    def report(self, results):
        """A case for each kind that was met."""
        failed = 0
        met = [kind for kind in self.kinds if any(pair.kind == kind for pair, _ in results)]
        for number, kind in enumerate(met, 1):
            of = [(pair, why) for pair, why in results if pair.kind == kind]
            bad = [why for _, why in of if why]
            for why in bad:
                print("".join(f"# {line}\n" for line in why.splitlines()), end="")
            failed += bool(bad)
            print(f"{'not ok' if bad else 'ok'} {number} - {kind}: {len(of)} pairs{f', {len(bad)} failed' if bad else ''}")
        print(f"1..{len(met)}")
        return 1 if failed or not met else 0

    def main(self, pairs):
        """These seeds of the command line, telling what happens; or so many from CKPT_SEED on."""
        if sys.argv[1:]:
            failures = [why for seed in map(int, sys.argv[1:]) for _, why in [self.one(seed, print)] if why]
            print("\n".join(failures) or "nothing was lost")
            return 1 if failures else 0
        first = int(os.environ.get("CKPT_SEED", 1))
        print(f"# seeds {first} to {first + pairs - 1}, programs of {BIN}", flush=True)
        with concurrent.futures.ThreadPoolExecutor(self.beside) as pool:
            return self.report(list(pool.map(self.one, range(first, first + pairs))))
