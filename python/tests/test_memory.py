"""Arrays of others: what DLPack and the interfaces of NumPy and CUDA say of them, taken as it is or refused by name."""

import ctypes
import errno

import numpy as np
import pytest

import ckpt
import ckpt.numpy
from ckpt import Memory, memory_of


class Dlpack:
    """An array that only DLPack can take."""

    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class Older(Dlpack):
    """Of a version of DLPack that does not say whether one may write."""

    def __dlpack__(self):
        return self.data.__dlpack__()


class Elsewhere(Dlpack):
    def __dlpack__(self, **options):
        raise BufferError("it is on a GPU")


class Structure(ctypes.Structure):
    _fields_ = [("numbers", ctypes.c_int * 3)]


class Device:
    def __init__(self, **about):
        self.__dict__.update(about)


class Cuda:
    def __init__(self, device, **about):
        self.device = device
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, **about}


class Nameless:
    __cuda_array_interface__ = Cuda(None).__cuda_array_interface__


def test_what_dlpack_gives_is_saved_and_restored(daemon):
    data, part = np.arange(12, dtype=np.int16).reshape(3, 4), np.arange(20.0).reshape(4, 5)
    want = data.copy(), part.copy()
    with daemon.session() as s:
        s.register("x", Dlpack(data))
        s.register("part", Dlpack(part[1:, ::2]))
        s.join()
        snap = s.begin(1)
        snap.fence()
        snap.wait()
        data[:] = part[:] = 0
        s.join()
        s.restore()
    assert (data == want[0]).all() and (part[1:, ::2] == want[1][1:, ::2]).all() and (part[0] == 0).all() and (part[:, 1] == 0).all()
    with ckpt.Reader(daemon.store) as r:
        assert (ckpt.numpy.read(r)["part"] == want[1][1:, ::2]).all()


def test_the_interface_of_cuda_says_where_an_array_stands():
    for device in (Device(index=3), Device(id=3), Device(index=None, id=3)):
        m = memory_of(Cuda(device))
        assert (m.pointer, m.dtype, m.shape, m.strides, m.device, m.readonly) == (4096, "F32", (2, 3), None, 3, False)
    assert memory_of(Cuda(Device(index=0), strides=(16, 4))).strides == (16, 4)
    assert memory_of(Cuda(Device(index=0))).device == 0


def test_an_array_on_a_gpu_is_refused_where_there_is_none(daemon):
    with daemon.session() as s:
        with pytest.raises(ckpt.Error, match="tensor \"x\"|CUDA") as e:
            s.register("x", Cuda(Device(index=0)))
            s.join()
        assert e.value.strerror


REFUSED = {"a GPU that is not named": (Nameless(), "a Nameless does not say on which GPU it is"),
           "a mask": (Cuda(Device(index=0), mask=np.ones(6)), "an array with a mask"),
           "memory elsewhere": (Elsewhere(np.zeros(3)), "DLPack does not give a Elsewhere to the host"),
           "an older DLPack": (Older(np.zeros(3)), "the memory is read-only"),
           "what DLPack may only read": (Dlpack(np.frombuffer(bytes(8))), "the memory is read-only"),
           "a structure": (Structure(), "elements of format"),
           "gaps in a buffer": (memoryview(bytearray(8))[::2], "contiguous"),
           "no array": (object(), "bytes-like object")}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_taken_is_refused_by_name(daemon, what):
    value, says = REFUSED[what]
    with daemon.session() as s:
        with pytest.raises(TypeError, match=f"tensor layer.weight: .*{says}"):
            s.register("layer.weight", value)
        s.register("layer.weight", np.zeros(1))
        s.join()


class Interface:
    """An array that has its interface alone."""

    def __init__(self, array):
        self.__array_interface__, self.dtype = array.__array_interface__, array.dtype


@pytest.mark.parametrize("kind", ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8", "l", "q"])
def test_an_array_of_numpy_is_what_its_interface_says(kind):
    whole, fixed = np.ones((4, 6), kind), np.ones(3, kind)
    fixed.flags.writeable = False
    for array in (whole, whole[1:], whole[:, 2:], whole.T, whole[::-1], whole[2, 3:3], np.ones((), kind), fixed):
        got, want = memory_of(array), memory_of(Interface(array))
        assert got.owner is array
        got.owner = want.owner = None
        assert got == want


def test_a_memory_is_taken_as_it_is():
    m = Memory(4096, "BF16", (2,), device=1)
    assert memory_of(m) is m


def test_memory_that_cannot_take_the_place_is_refused(daemon):
    """The library takes an address, and would read beyond it."""
    with daemon.session() as s:
        x = np.zeros((4, 3))
        s.register("x", x)
        s.join()
        for other in (np.zeros((4, 2)), np.zeros((4, 3), "f4"), np.zeros((3, 4)).T, np.frombuffer(bytes(96)).reshape(4, 3)):
            with pytest.raises(TypeError, match=r"tensor x: memory of F(64|32) .* cannot take the place of F64 \(4, 3\)"):
                s.rebind("x", other)
        s.rebind("x", np.ones((4, 3)))
        with pytest.raises(ckpt.Error) as e:
            s.rebind("x", x, 1)
        assert e.value.errno == errno.ERANGE
