"""A session of a rank: each method is one call of ``ckpt.h``, whose comment says more (``man ckpt_begin``).

Every call lets other threads run, and several threads may use a session: one at a time may register, rebind, join or restore, and none is in a call when
another one closes it. Times are seconds; None is the default of the session (CKPT_TIMEOUT_MS, else 120 s)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ._ckpt import ffi, lib
from .errors import Error, NoCheckpoint, error
from .memory import HOST, NAMES, memory_of, named_memory
from .piece import Piece, check_place, extents_of, is_whole, table_of

LATEST: int = lib.CKPT_LATEST
LATEST_HEALTHY: int = lib.CKPT_LATEST_HEALTHY
MEMORY: int = lib.CKPT_MEMORY
STORAGE: int = lib.CKPT_STORAGE
PENDING: int = lib.CKPT_PENDING
CAPTURED: int = lib.CKPT_CAPTURED
REPLICATED: int = lib.CKPT_REPLICATED
DURABLE: int = lib.CKPT_DURABLE
VERIFIED: int = lib.CKPT_VERIFIED
SOURCES = {lib.CKPT_FROM_MEMORY: "memory", lib.CKPT_FROM_PEER: "peer", lib.CKPT_FROM_STORAGE: "storage"}
PHASES = {name.removeprefix("CKPT_PHASE_").lower(): getattr(lib, name) for name in dir(lib) if name.startswith("CKPT_PHASE_")}
_NULL = ffi.NULL
_ENCODING: tuple[str, str] = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_NUMBERS = {name: i + 1 for i, name in enumerate(NAMES)}
_SCOPES = {"job": lib.CKPT_SCOPE_JOB, "rank": lib.CKPT_SCOPE_RANK}


def _bytes(text: str | None) -> Any:
    """An argument of a call; what is to live longer is a :func:`_text`."""
    if text is None:
        return _NULL
    if "\0" in text:
        raise ValueError(f"{text!r} has a null character in it")
    return text.encode(*_ENCODING)


def _text(text: str | None) -> Any:
    return _NULL if text is None else ffi.new("char[]", _bytes(text))


def _string(text: Any) -> str:
    return "" if text == ffi.NULL else os.fsdecode(ffi.string(text))


def _keep(memory: Any, incref: Any = ctypes.pythonapi.Py_IncRef, of: Any = ctypes.py_object) -> None:
    """Keeps what the library may still read until the process is gone, also when the interpreter takes all else apart."""
    incref(of(memory))


def _ms(timeout: float | None) -> int:
    return -1 if timeout is None else max(0, min(int(timeout * 1000), 2**31 - 1))


def _stream(stream: int) -> Any:
    return ffi.cast("void *", stream)


@dataclass(frozen=True)
class View:
    """The job in an epoch."""

    epoch: int
    rank: int
    world: int
    joined_before: bool  #: this process was in an earlier epoch: its state is garbage, restore
    addresses: tuple[bytes, ...]  #: what each rank gave to :meth:`Session.join`


@dataclass(frozen=True)
class Restored:
    """What was restored."""

    step: int
    epoch: int  #: in which it was saved
    source: str  #: "memory", "peer" or "storage": the slowest that any piece came from
    bytes: int
    fetch: float  #: seconds until all nodes had all of it, verified
    load: float  #: seconds until the rest was in the memory of this rank
    early_bytes: int
    why: str  #: which newer or better sources were passed over, and why; or ""


class _Handle:
    """What stands for something in the library: neither copied nor sent to another process."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} belongs to the process that made it: it cannot be copied or pickled")


def _free_snapshot(out: Any, free: Any = lib.ckpt_snapshot_free) -> None:
    free(out[0])


class Snapshot(_Handle):
    """A save that was begun. The save goes on when this is gone, unless it had no fence yet."""

    def __init__(self, session: Session, out: Any, number: int) -> None:
        self._session, self._out, self._number, self._step = session, out, number, int(lib.ckpt_snapshot_step(out[0]))
        self._closed = False
        self._closing = threading.Lock()  # cffi frees twice if two threads release at once without a GIL

    @property
    def _handle(self) -> Any:
        """The library would read memory that is no longer its own."""
        if self._closed or self._session._handle == ffi.NULL:
            raise Error(errno.EINVAL, f"step {self._step}: this snapshot was closed, or its session was")
        return self._out[0]

    @property
    def step(self) -> int:
        return self._step

    def fence(self, stream: int = 0, group: str | None = None) -> None:
        """Waits until the state, or one tensor group of it, may change."""
        s = self._session
        if group is not None:
            s._check(lib.ckpt_fence_group(self._handle, _text(group), _stream(stream)))
            return
        code = lib.ckpt_fence(self._handle, _stream(stream))
        if code not in (-errno.ETIMEDOUT, -errno.EINVAL):
            s._let_go(self._number)
        s._check(code)

    def poll(self) -> int:
        """The level that is true for all ranks; raises what ended the save."""
        return self._session._check(lib.ckpt_poll(self._handle))

    def wait(self, level: int = DURABLE, timeout: float | None = None) -> None:
        """Waits until the save has reached a level, or has failed."""
        self._session._check(lib.ckpt_wait(self._handle, level, _ms(timeout)))

    def close(self) -> None:
        """Gives the handle back now. A save without a fence is given up."""
        with self._closing:
            self._closed = True
            ffi.release(self._out)


class Session(_Handle):
    """The session of this rank with the daemon of its node. What is not given comes from the environment."""

    def __init__(self, job: str | None = None, socket: str | None = None, *, rank: int = 0, world: int = 0, local_world: int = 0,
                 strict: bool = False, staging: bool = False, vote: bool | None = None, slots: int = 0, timeout: float | None = None) -> None:
        self._handle: Any = ffi.NULL
        self._kept: dict[tuple[str, int], Any] = {}  # what is registered, by name and piece: an array that can be asked again, else its Memory
        self._former: list[tuple[int, Any]] = []  # what was, and the save that is the last to read it
        self._lock = threading.RLock()  # around these two, the handle's end, and the number of the last save; what is let go may call us
        self._beginning = threading.Lock()  # saves have their numbers in the order in which they begin
        self._begun = 0
        names = [_text(job), _text(socket)]
        options = ffi.new("ckpt_options *", {"size": ffi.sizeof("ckpt_options"), "job": names[0], "socket": names[1], "rank": rank, "world": world,
                                             "local_world": local_world, "strict": strict, "staging": staging, "slots": slots,
                                             "vote": 0 if vote is None else 1 if vote else -1,
                                             "timeout_ms": 0 if timeout is None else _ms(timeout)})
        out, why = ffi.new("ckpt **"), ffi.new("char[]", 512)
        code = lib.ckpt_open(options, out, why, len(why))
        if code:
            raise error(code, _string(why))
        self._handle = out[0]

    # ---- errors and life

    def _check(self, code: int, missing: type[Error] = Error) -> int:
        if code >= 0:
            return code
        raise error(code, _string(lib.ckpt_error(self._handle)), missing)

    def close(self) -> None:
        """Ends the session: waits until saves to storage are durable or have failed, and raises the first failure."""
        with self._lock:
            handle, self._handle = self._handle, ffi.NULL
        if handle == ffi.NULL:  # another thread is at it, or was: what is registered is no longer this one's
            return
        code = lib.ckpt_close(handle)
        with self._lock:
            held = self._kept, self._former
            self._kept, self._former = {}, []
        if code == -errno.ETIMEDOUT:  # a GPU may still read it
            _keep(held)
        if code:
            raise error(code, "the session ended with a save that failed: the sentence is on stderr")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def abandon(self) -> None:
        """Lets go of the session without ending it: the daemon then takes the end of this process for the loss of a rank. For a rank that failed."""
        with self._lock:
            _keep((self._kept, self._former))
            self._handle = ffi.NULL

    def __del__(self, ends: Any = sys.is_finalizing, keep: Any = _keep) -> None:
        if getattr(self, "_handle", ffi.NULL) == ffi.NULL:
            return
        if ends():
            keep((self._kept, self._former))
            return
        with contextlib.suppress(Error):  # the sentence is on stderr
            self.close()
        warnings.warn("a Session was not closed", ResourceWarning, source=self)

    def _let_go(self, number: int | None = None) -> None:
        """Of what was registered: what no save after this number reads; None: all. Outside of the lock, since that may run code of somebody else."""
        with self._lock:
            former = self._former
            self._former = [] if number is None else [(last, kept) for last, kept in former if last > number]

    @property
    def rank(self) -> int:
        return self._check(lib.ckpt_rank(self._handle))

    @property
    def world(self) -> int:
        return self._check(lib.ckpt_world(self._handle))

    @property
    def epoch(self) -> int:
        """The epoch that this session has joined; 0 before the join."""
        return int(lib.ckpt_epoch(self._handle))

    @property
    def has_storage(self) -> bool:
        return bool(self._check(lib.ckpt_has_storage(self._handle)))

    @property
    def should_stop(self) -> bool:
        """Whether the operator has asked the job to end."""
        return bool(lib.ckpt_should_stop(self._handle))

    def epoch_fd(self) -> int:
        """A descriptor that is readable while the epoch that was joined is over. Only wait for it."""
        return self._check(lib.ckpt_epoch_fd(self._handle))

    # ---- registration

    def register(self, name: str, *pieces: Piece | Any, shape: Sequence[int] | None = None, dtype: str | None = None, group: str | None = None,
                 replica: str | None = None) -> None:
        """Registers a tensor and the pieces that this rank holds: arrays, or :class:`Piece` where they are not the whole. Nothing is copied: an
        array must not be freed or moved before the session is closed, and is kept alive here. Without a piece, ``shape`` and ``dtype`` say what the
        tensor is."""
        placed = [p if isinstance(p, Piece) else Piece(p) for p in pieces]
        places = [named_memory(f"tensor {name}", p.array) for p in placed]
        if shape is None:
            shape = places[0].shape if places else ()
        if dtype is None and places:
            dtype = places[0].dtype
        if dtype not in _NUMBERS:
            raise TypeError(f"tensor {name}: dtype {dtype} is none of {', '.join(NAMES)}")
        for p, m in zip(placed, places):
            check_place(name, p, m, shape, dtype)
        whole = len(placed) == 1 and is_whole(placed[0], places[0])
        table, _boxes = (_NULL, None) if whole else table_of(placed, places, dtype)  # the table points to the boxes
        self._check(lib.ckpt_register_fields(
            self._handle, _bytes(name), _NUMBERS[dtype], len(shape), extents_of(tuple(shape)), _bytes(group), _bytes(replica),
            places[0].device if places else HOST, places[0].pointer if whole else 0, table, len(placed)))
        with self._lock:
            self._kept.update({(name, i): p.array if places[i].owner is p.array else places[i] for i, p in enumerate(placed)})

    def register_blob(self, name: str, buffer: Any, scope: str = "job") -> None:
        """Registers a writable buffer of a fixed size."""
        m = named_memory(f"blob {name}", buffer)
        if m.readonly:
            raise TypeError(f"blob {name}: the memory is read-only, and a restore writes to it")
        self._check(lib.ckpt_register_device_blob(self._handle, _text(name), _SCOPES[scope], ffi.cast("void *", m.pointer), m.bytes, m.device))
        with self._lock:
            self._kept[name, 0] = m

    def register_sized_blob(self, name: str, most: int, scope: str = "job") -> None:
        """Registers a blob whose size changes from save to save, up to ``most`` bytes."""
        self._check(lib.ckpt_register_sized_blob(self._handle, _text(name), _SCOPES[scope], most))

    def set_blob(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Puts bytes into a blob of changing size, before a save."""
        held = ffi.from_buffer(data)
        self._check(lib.ckpt_set_blob(self._handle, _text(name), held, len(held)))  # bytes; of a view, len(data) is that of its first dimension

    def get_blob(self, name: str) -> bytes:
        """The bytes of a blob of changing size, also what a restore brought."""
        size = self._check(lib.ckpt_get_blob(self._handle, _text(name), ffi.NULL, 0))
        room = ffi.new("char[]", size + 1)
        return bytes(ffi.buffer(room, self._check(lib.ckpt_get_blob(self._handle, _text(name), room, size))))

    def rebind(self, name: str, array: Any, piece: int = 0) -> None:
        """Gives a piece another address from the next save or restore on. The former array may go when the saves begun before have had their
        fence."""
        m, kept = named_memory(f"tensor {name}", array), self._kept.get((name, piece))
        was = None if kept is None else memory_of(kept)
        if was is not None and (m.dtype, m.shape, m.strides, m.device, m.readonly) != (was.dtype, was.shape, was.strides, was.device, False):
            raise TypeError(f"tensor {name}: memory of {m.dtype} {m.shape}{', read-only,' if m.readonly else ''} cannot take the place of {was.dtype} "
                            f"{was.shape}: its type, shape, steps and device stay")
        self._check(lib.ckpt_rebind(self._handle, _text(name), piece, ffi.cast("void *", m.pointer)))
        with self._lock:
            self._former.append((self._begun, kept))
            self._kept[name, piece] = m

    # ---- membership, saves, restores

    def join(self, address: bytes = b"", timeout: float | None = None) -> View:
        """Waits until each rank of the job is here, and enters the current epoch. Raises :class:`WorldChanged`."""
        out = ffi.new("ckpt_view const **")
        held = ffi.from_buffer(address)
        code = lib.ckpt_join(self._handle, held if len(held) else ffi.NULL, len(held), out, _ms(timeout))
        if code == -errno.EREMCHG:
            with self._lock:
                _gone, self._kept = self._kept, {}
        if code in (0, -errno.EREMCHG):
            self._let_go()
        self._check(code)
        v = out[0]
        return View(v.epoch, v.rank, v.world, bool(v.joined_before),
                    tuple(bytes(ffi.buffer(v.addresses + r * lib.CKPT_ADDRESS_MAX, v.address_len[r])) for r in range(v.world)))

    def due(self, step: int) -> int | None:
        """MEMORY or STORAGE where a save is due at this step, by what the daemon has measured (``interval = auto`` in its configuration); else None.
        All ranks ask at each step, and those that are answered are answered alike."""
        due = self._check(lib.ckpt_due(self._handle, step))
        return STORAGE if due & lib.CKPT_DUE_STORAGE else MEMORY if due else None

    def begin(self, step: int, target: int = STORAGE, stream: int = 0) -> Snapshot:
        """Starts to capture the state, and returns at once. Do not change it before the fence. Raises :class:`Busy`."""
        out = ffi.gc(ffi.new("ckpt_snapshot **"), _free_snapshot)  # its owner from before the call on: an interrupt may come with the return
        with self._beginning:
            with self._lock:
                self._begun = number = self._begun + 1  # before the save: what is rebound from now on may be read by it
            self._check(lib.ckpt_begin(self._handle, step, target, _stream(stream), out))
            return Snapshot(self, out, number)

    def wait_slot(self, timeout: float | None = None) -> None:
        """Waits until the next begin is not :class:`Busy`."""
        self._check(lib.ckpt_wait_slot(self._handle, _ms(timeout)))

    def restore(self, step: int = LATEST, stream: int = 0, timeout: float | None = None) -> Restored:
        """Fills what is registered with a checkpoint. Raises :class:`NoCheckpoint`."""
        r = ffi.new("ckpt_restored *", {"size": ffi.sizeof("ckpt_restored")})
        self._check(lib.ckpt_restore(self._handle, step, _stream(stream), r, _ms(timeout)), NoCheckpoint)
        return Restored(r.step, r.epoch, SOURCES[r.source], r.bytes, r.fetch_ns / 1e9, r.load_ns / 1e9, r.early_bytes, _string(r.why))

    @property
    def restore_progress(self) -> tuple[int, int]:
        """Bytes that are in their place, and of how many, of the restore in which another thread is, or of the last one. 0 of 0: not known yet."""
        total = ffi.new("uint64_t *")
        done = self._check(lib.ckpt_restore_progress(self._handle, total))
        return done, int(total[0])

    def mark(self, step: int, healthy: bool, reason: str | None = None, epoch: int = 0, timeout: float | None = None) -> None:
        """Says whether training should go on from a checkpoint."""
        health = lib.CKPT_HEALTHY if healthy else lib.CKPT_UNHEALTHY
        self._check(lib.ckpt_mark(self._handle, step, epoch, health, _text(reason), _ms(timeout)))

    # ---- liveness

    def beat(self, step: int, phase: str = "idle", loss: float | None = None, grad_norm: float | None = None) -> None:
        """Tells the daemon that the loop is alive, and where it is: ``phase`` is a key of :data:`PHASES`.

        ``loss`` is that of the step, and ``grad_norm`` the norm of all its gradients before they are clipped: hand them over once per step."""
        if loss is None:
            if grad_norm is not None:
                raise ValueError("grad_norm without loss")
            lib.ckpt_beat(self._handle, step, PHASES[phase])
        else:
            lib.ckpt_beat_loss(self._handle, step, PHASES[phase], loss, -1 if grad_norm is None else grad_norm)

    def collective_enter(self, op: str | None = None, seq: int = 0, size: int = 0, dtype: str | None = None) -> None:
        """``dtype``: of the elements, as in :meth:`register`; None: not known."""
        if dtype is not None and dtype not in NAMES:
            raise TypeError(f"collective {op}: dtype {dtype} is none of {', '.join(NAMES)}")
        lib.ckpt_collective_enter_typed(self._handle, _text(op), NAMES.index(dtype) + 1 if dtype else 0, seq, size)

    def collective_leave(self) -> None:
        lib.ckpt_collective_leave(self._handle)

    def fault(self) -> tuple[str, float] | None:
        """The fault that the operator wants this rank to play (``ckpt fault``), and the seconds that belong to it; it is asked for once. For programs
        under test."""
        name, ms = ffi.new("char[]", 24), ffi.new("uint64_t *")
        return (_string(name), ms[0] / 1e3) if self._check(lib.ckpt_fault(self._handle, name, len(name), ms)) else None


def version() -> str:
    """The version of the library that is loaded."""
    return _string(lib.ckpt_version())
