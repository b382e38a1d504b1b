"""What strangers and the ends of sessions cost a cluster, in time: what bench/strangers.py and bench/reconnect.py measure, in small.

alone: it compares times of one run."""

import multiprocessing
import pathlib
import statistics
import sys
import tempfile
from types import SimpleNamespace

from net_nodes import NetNode
from tap import BIN, Cases, expect

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
import reconnect  # noqa: E402
import strangers  # noqa: E402

CONNECTIONS, PAUSE_MS = 400, 10  # each of two strangers, so that they do not take the processors themselves
DROPS, RESTARTS = 15, 5


def saves_keep_their_times_beside_strangers(folder):
    """Other work on this machine makes single rounds slow, a daemon that strangers hold up makes all of them slow: the better half of them counts."""
    args = SimpleNamespace(programs=str(BIN), mib=32, rounds=5, saves=3, connections=CONNECTIONS, pause=PAUSE_MS)
    go, count = multiprocessing.Event(), multiprocessing.Value("q", 0)
    rows = strangers.measure(args, str(folder), go, count)
    ratios = sorted(statistics.median(beside) / statistics.median(quiet) for quiet, beside in rows)
    print(f"# {count.value} connections; ratios: {' '.join(f'{ratio:.2f}' for ratio in ratios)}", flush=True)
    expect(count.value >= CONNECTIONS, "connections:", count.value)
    better = ratios[:(len(ratios) + 1) // 2]
    expect(statistics.median(better) <= strangers.CEILING, "times of saves beside strangers, to those without:", ratios)


def a_session_stands_again_soon_after_it_has_ended(folder):
    """A loss that is not noticed, or a node that is not called at once, makes all of them late: the better quarter counts."""
    pair = reconnect.Pair(folder, NetNode)
    try:
        for name, end, runs in (("dropped", pair.drop, DROPS), ("restarted", pair.restart, RESTARTS)):
            took = sorted(pair.measure(end) for _ in range(runs))
            print(f"# {name}: {' '.join(f'{ms:.0f}' for ms in took)} ms", flush=True)
            expect(took[len(took) // 4] <= reconnect.FLOOR_MS, name, "milliseconds until the next session stands:", took)
    finally:
        pair.close()


cases = Cases()
for case in (saves_keep_their_times_beside_strangers, a_session_stands_again_soon_after_it_has_ended):
    with tempfile.TemporaryDirectory() as home:
        cases.run(case.__name__.replace("_", " "), lambda case=case, home=home: case(pathlib.Path(home)))
sys.exit(cases.end())
