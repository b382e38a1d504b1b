"""What a call of the library can fail with. Each error is an OSError: ``errno`` is the code, ``strerror`` the library's sentence."""

import errno


class Error(OSError):
    """A call failed for a reason that has no class of its own."""

    @property
    def code(self) -> int:
        """The negative errno, as the C library returns it."""
        return -(self.errno or 0)


class StaleEpoch(Error):
    """The epoch is over: a rank was lost or joined. Leave the step, join again and restore."""


class WorldChanged(Error):
    """The job goes on with another world: register the pieces of the new place, join again and restore."""


class Busy(Error):
    """All slots hold saves that are still being captured or written: go on without this save."""


class Superseded(Error):
    """A later save took the place of this one."""


class NoCheckpoint(Error):
    """There is none. With ``errno.ENOENT`` there is none at all: a fresh start; with ``errno.ENODATA`` there are others."""


class Damaged(Error):
    """Bytes do not match their digests: the sentence names them."""


class ReplicasDiffer(Error):
    """Replicas of one tensor are not the same on all ranks: the sentence names the tensor and, by majority, the ranks."""


class Timeout(Error, TimeoutError):
    """The deadline passed: the sentence says who is late."""


CLASSES: dict[int, type[Error]] = {
    errno.ESTALE: StaleEpoch,
    errno.EREMCHG: WorldChanged,
    errno.EBUSY: Busy,
    errno.ECANCELED: Superseded,
    errno.ENODATA: NoCheckpoint,
    errno.EBADMSG: Damaged,
    errno.EUCLEAN: ReplicasDiffer,
    errno.ETIMEDOUT: Timeout,
}


def error(code: int, sentence: str, missing: type[Error] = Error) -> Error:
    """The error for a negative errno. ``missing`` is the class of ENOENT."""
    kind = missing if code == -errno.ENOENT else CLASSES.get(-code, Error)
    return kind(-code, sentence)
