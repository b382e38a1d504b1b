"""What is no tensor, as JSON: numbers, texts, lists, tuples, mappings, bytes, and types that somebody gave a codec.

Nothing is pickled. A document is data: reading one runs no code but the codecs of this process. What a document may be: at most 64 levels deep, a
"$" in an object names a codec, and a name that this process does not know is an error with the path to it."""

from __future__ import annotations

import base64
import collections
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

DEPTH = 64
TAG = "$"
_PLAIN = frozenset({type(None), str, bool, int})  # what stands in JSON as it is


class TreeError(ValueError):
    """A value that has no place in a document, or a document that is none: the sentence has the path."""


class _Codec:
    def __init__(self, kind: type, tag: str, to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> None:
        self.kind, self.tag, self.to_json, self.from_json = kind, tag, to_json, from_json


_by_kind: dict[type, _Codec] = {}
_by_tag: dict[str, _Codec] = {}


def codec(kind: type, tag: str, to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> None:
    """Says how values of a type are written: ``to_json`` gives what has a place in a document already, ``from_json`` makes the value of it again.

    ``tag`` stands in documents: choose one that stays. ``from_json`` gets what a document says: it must check it."""
    _by_kind[kind] = _by_tag[tag] = _Codec(kind, tag, to_json, from_json)


def unbytes(text: Any) -> bytes:
    """Bytes out of base64; anything else is a ValueError."""
    if not isinstance(text, str):
        raise ValueError("no base64")
    return base64.b64decode(text, validate=True)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, list) or not all(isinstance(p, list) and len(p) == 2 for p in value):
        raise ValueError("no list of pairs")
    return [(k, v) for k, v in value]


def _float(value: Any) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError("no such number")
    return float(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("no list")
    return value


codec(bytes, "bytes", lambda b: base64.b64encode(b).decode(), unbytes)
codec(bytearray, "bytearray", lambda b: base64.b64encode(b).decode(), lambda t: bytearray(unbytes(t)))
codec(tuple, "tuple", list, lambda v: tuple(_list(v)))
codec(set, "set", lambda s: sorted(s, key=repr), lambda v: set(_list(v)))
codec(frozenset, "frozenset", lambda s: sorted(s, key=repr), lambda v: frozenset(_list(v)))
codec(collections.deque, "deque", list, lambda v: collections.deque(_list(v)))
codec(collections.Counter, "counter", lambda c: [[k, n] for k, n in c.items()], lambda v: collections.Counter(dict(_pairs(v))))
_by_tag["dict"] = _Codec(dict, "dict", lambda d: [[k, v] for k, v in d.items()], lambda v: dict(_pairs(v)))
_by_tag["float"] = _Codec(float, "float", repr, _float)


def _tagged(c: _Codec, value: Any, path: str, depth: int) -> dict[str, Any]:
    try:
        written = c.to_json(value)
    except Exception as e:  # noqa: BLE001 - a codec is anybody's code, and what it refuses is no reason to end a training
        raise TreeError(f"{path} cannot be written as {c.tag}: {type(e).__name__}: {e}") from e
    return {TAG: c.tag, "v": _encode(written, path, depth + 1)}


def _mapping(value: Mapping[Any, Any], path: str, depth: int) -> Any:
    if TAG in value or not all(type(k) is str for k in value):
        return _tagged(_by_tag["dict"], value, path, depth)
    return {k: v if type(v) in _PLAIN else _encode(v, f"{path}.{k}", depth + 1) for k, v in value.items()}


def _encode(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > DEPTH:
        raise TreeError(f"{path}: deeper than {DEPTH} levels")
    if kind is float:
        return value if math.isfinite(value) else _tagged(_by_tag["float"], value, path, depth)
    if kind is list:
        return [v if type(v) in _PLAIN else _encode(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    if kind is dict or kind is collections.OrderedDict or kind is collections.defaultdict:
        return _mapping(value, path, depth)
    found = next((_by_kind[k] for k in kind.__mro__ if k in _by_kind), None)
    if found is None or (found.kind is not kind and found.kind in (tuple, set, frozenset, bytes, collections.deque)):
        raise TreeError(f"{path} is a {kind.__module__}.{kind.__qualname__}: only numbers, texts, lists, mappings, bytes and tensors are saved. Leave it "
                        f"out, or say with ckpt.codec how it is written")
    return _tagged(found, value, path, depth)


def _decode(value: Any, path: str, depth: int) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    if depth > DEPTH:
        raise TreeError(f"{path}: deeper than {DEPTH} levels")
    if isinstance(value, list):
        return [_decode(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    if TAG not in value:
        return {k: _decode(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
    tag = value[TAG]
    found = _by_tag.get(tag) if isinstance(tag, str) else None
    if found is None or set(value) != {TAG, "v"}:
        raise TreeError(f"{path}: {str(tag)[:80]!r} is written by no codec of this process: give it to ckpt.codec before the restore")
    inner = _decode(value["v"], path, depth + 1)
    try:
        return found.from_json(inner)
    except (ValueError, TypeError, KeyError, OverflowError) as e:
        raise TreeError(f"{path}: this is no {found.tag}: {e}") from e


def dumps(value: Any, path: str) -> bytes:
    """A value as a document. ``path`` is its name in sentences. Raises :class:`TreeError`."""
    tree = _encode(value, path, 0)
    try:
        return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as e:  # a whole number of more digits than Python writes
        raise TreeError(f"{path}: {e}") from e


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def loads(document: bytes, path: str) -> Any:
    """The value of a document. Raises :class:`TreeError`, whatever the bytes are."""
    try:
        value = json.loads(document, parse_constant=_no_number)
    except (ValueError, RecursionError) as e:
        raise TreeError(f"{path} is no document: {str(e)[:200]}") from e
    return _decode(value, path, 0)
