"""How many tests run side by side: as many as there are lanes, and, while the processors wait, up to as many again. A test that only waits
then holds up nobody, and on a busy machine there are no more than the lanes. One lane is one lane."""

import contextlib
import multiprocessing
import pathlib
import time

LOOK_S = 2.0  # over which it is seen how busy the processors are; the next one begins no sooner than that after the last
FREE = 0.3  # of them, on average, for one more


def processor_times():
    """Of all processors since the machine was started: (waiting, all), in ticks. Waiting for a disk is waiting."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(word) for word in words]
    return ticks[3] + ticks[4], sum(ticks)


def free_between(before, after):
    return (after[0] - before[0]) / max(after[1] - before[1], 1)


class Lanes:
    """Shared by the processes that run tests: made before they are forked."""

    def __init__(self, count, context=multiprocessing, times=processor_times, look=LOOK_S):
        self.own, self.more = context.BoundedSemaphore(count), context.BoundedSemaphore(count if count > 1 else 0)
        self.looking = context.Lock()  # one at a time looks, and may begin: the next one sees what that has changed
        self.times, self.look = times, look

    @contextlib.contextmanager
    def entered(self):
        """Begins when a lane is there."""
        lane = self._wait()
        try:
            yield
        finally:
            lane.release()

    def _wait(self):
        while not self.own.acquire(timeout=self.look):
            if self._may_begin():
                return self.more
        return self.own

    def _may_begin(self):
        if not self.looking.acquire(block=False):
            return False
        try:
            return self._is_free() and self.more.acquire(block=False)
        finally:
            self.looking.release()

    def _is_free(self):
        before = self.times()
        time.sleep(self.look)
        return free_between(before, self.times()) >= FREE
