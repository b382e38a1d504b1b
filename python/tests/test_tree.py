"""Documents: what goes in comes out, and what is hostile does nothing."""

import collections
import enum
import json
import math

import pytest

from ckpt import TreeError, codec
from ckpt.tree import DEPTH, dumps, loads

VALUES = [None, True, 0, -(2**80), 1.5, 5e-324, float("inf"), "text\ud7ff\0", "", [], {}, [1, [2, {"a": None}]], (1, (2,)), {1, 2}, frozenset("ab"),
          b"\0\xff", bytearray(b"x"), {"$": 1}, {1: "a", (2, 3): "b"}, collections.deque([1, 2]), collections.Counter("aab"), {"a": {"b": (1,)}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value):
    again = loads(dumps(value, "state"), "state")
    assert again == value and type(again) is type(value)


def test_what_is_no_number_is_written_as_json_allows():
    document = dumps([float("nan"), -math.inf], "state")
    assert b"NaN" not in document and math.isnan(loads(document, "state")[0])


class Colour(enum.IntEnum):
    RED = 1


class Named(collections.namedtuple("Named", "a b")):
    pass


@pytest.mark.parametrize("value", [object(), Colour.RED, Named(1, 2), print, 1j, type("Text", (str,), {})("x")], ids=lambda v: type(v).__name__)
def test_a_type_that_nobody_knows_is_refused_by_its_path(value):
    with pytest.raises(TreeError, match=r"^state\.optim\.groups\[1\]\.x is a .*: only numbers"):
        dumps({"optim": {"groups": [{}, {"x": value}]}}, "state")


def test_a_codec_makes_it_known():
    class Range:
        def __init__(self, first, last):
            self.first, self.last = first, last

    codec(Range, "test-range", lambda r: [r.first, r.last], lambda v: Range(*v))
    again = loads(dumps({"r": Range(1, 2)}, "state"), "state")["r"]
    assert (again.first, again.last) == (1, 2)


def test_what_a_codec_refuses_is_refused_by_its_path():
    class Moody:
        pass

    codec(Moody, "test-moody", lambda m: 1 // 0, lambda v: Moody())
    with pytest.raises(TreeError, match=r"^state\.a\[0\] cannot be written as test-moody: ZeroDivisionError"):
        dumps({"a": [Moody()]}, "state")


def test_a_number_with_more_digits_than_python_writes_is_refused():
    assert loads(dumps([-(10**4000)], "state"), "state") == [-(10**4000)]
    with pytest.raises(TreeError, match=r"^state: .*digits"):
        dumps([10**5000], "state")


WRAPS = [lambda v: [v], lambda v: {"a": v}, lambda v: (v,), lambda v: {1: v}, lambda v: {"$": v}]
LEAVES = [1, "x", None, 1.5, math.inf, [], {}, (), b"x"]


def written(value):
    """None: it is too deep."""
    try:
        return dumps(value, "state")
    except TreeError as e:
        assert "deeper than" in str(e)
        return None


@pytest.mark.parametrize("wrap", range(len(WRAPS)))
@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
def test_what_is_written_can_be_read_however_deep_it_is(wrap, leaf):
    """Else the save would be acknowledged, and the restore refused."""
    value, depth = leaf, 0
    while document := written(value):
        assert loads(document, "state") == value
        value, depth = WRAPS[wrap](value), depth + 1
        assert depth < 2 * DEPTH
    assert depth > DEPTH // 4


HOSTILE = [
    b"", b"\xff\xfe", b"nul", b"[" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"NaN", b"[Infinity]", b'{"$":"os.system","v":"true"}',
    b'{"$":"bytes","v":3}', b'{"$":"bytes","v":"***"}', b'{"$":"tuple","v":{"a":1}}', b'{"$":"dict","v":[[1]]}', b'{"$":"dict","v":[[[1],2]]}',
    b'{"$":["bytes"],"v":""}', b'{"$":"bytes","v":"","x":1}', b'{"$":"float","v":"1e999"}', b'{"$":"set","v":[[1]]}', b'{"$":"counter","v":1}',
    b'{"$":{"$":"bytes","v":""},"v":1}', b"9" * 10000, b"cos\nsystem\n(S'true'\ntR.", b"\x80\x04\x95", b'{"$":"deque","v":7}',
]


@pytest.mark.parametrize("document", HOSTILE, ids=lambda d: repr(d[:24]))
def test_a_hostile_document_is_an_error_with_its_path(document):
    with pytest.raises(TreeError, match="^state"):
        loads(document, "state")


def test_no_document_may_be_deeper_than_one_that_is_written():
    deep = value = []
    for _ in range(DEPTH + 1):
        value.append([])
        value = value[0]
    with pytest.raises(TreeError, match="deeper than"):
        dumps(deep, "state")
    with pytest.raises(TreeError, match="deeper than"):
        loads(json.dumps(deep).encode(), "state")
