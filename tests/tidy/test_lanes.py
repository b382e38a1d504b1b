"""tests/lanes.py: who may begin while others run, where the processors wait and where they do not."""

import contextlib
import pathlib
import sys
import threading

import tidy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import lanes as under_test  # noqa: E402

DEADLINE, LOOK, LOOKS = 30, 0.01, 20


class Machine:
    """Processors of which this part waits."""

    def __init__(self, free):
        self.free, self.waited, self.all = free, 0, 0
        self.seen = threading.Semaphore(0)

    def times(self):
        self.waited, self.all = self.waited + 100 * self.free, self.all + 100
        self.seen.release()
        return self.waited, self.all


def runners(machine, count, others):
    """Lanes in which `count` run, and others that want to: how many of them have begun after some looks, and again when one of the first has ended."""
    shared = under_test.Lanes(count, times=machine.times, look=LOOK)
    begun, end = threading.Semaphore(0), threading.Event()

    def one():
        with shared.entered():
            begun.release()
            end.wait(DEADLINE)

    with contextlib.ExitStack() as first:
        for _ in range(count - 1):
            first.enter_context(shared.entered())
        last = first.enter_context(contextlib.ExitStack())
        last.enter_context(shared.entered())
        threads = [threading.Thread(target=one) for _ in range(others)]
        for thread in threads:
            thread.start()
        for _ in range(2 * LOOKS if count > 1 or machine.free else 0):
            if not machine.seen.acquire(timeout=DEADLINE):
                raise SystemExit("nobody looks how busy the processors are")
        before = 0
        while begun.acquire(timeout=LOOK):
            before += 1
        last.close()
        after = before + begun.acquire(timeout=DEADLINE)
        end.set()
    for thread in threads:
        thread.join(DEADLINE)
    return before, after


def case(name, found, due):
    return name, [] if found == due else [f"{found}, not {due}"]


tidy.report([
    case("where the processors wait as many again begin, and one for each that ends", runners(Machine(0.5), 2, 4), (2, 3)),
    case("where they are busy nobody does, until one has ended", runners(Machine(0.1), 2, 4), (0, 1)),
    case("one lane is one lane", runners(Machine(0.9), 1, 2), (0, 1)),
    case("waiting for a disk is waiting", 0 <= under_test.processor_times()[0] <= under_test.processor_times()[1], True),
])
