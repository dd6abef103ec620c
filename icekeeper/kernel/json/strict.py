"""JSON in and out. What comes in is read strictly: nothing that a client sent is changed silently.

orjson alone turns 2^64 into a float and keeps the last of two equal keys; the standard library alone accepts NaN,
lone surrogates and floats that overflow. Here each of these is a 400.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from icekeeper.kernel.errors.types import BadRequest

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_MAX_INT64_DIGITS = len(str(INT64_MIN))


@dataclass(frozen=True, slots=True)
class JsonBound:
    """How much a text may unfold to: `[{},{},{}]` is a Python object of 64 bytes and more for every three of its own.

    Brackets and commas are counted in the bytes, before anything is decoded. Those inside of strings count too, so
    the bounds lie far above what anybody sends.
    """

    containers: int
    """Opening brackets and braces."""
    values: int
    """Opening brackets and braces, and commas."""


REQUEST_BOUND = JsonBound(containers=500_000, values=2_000_000)
"""A commit that removes 10,000 snapshots one by one has 40,000 values; 50,000 columns have 250,000."""

FILE_BOUND = JsonBound(containers=1_500_000, values=6_000_000)
"""64 MiB of metadata: 85,000 snapshots with full summaries have 2.7 million values, a million columns 4 million."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadRequest(f"Malformed JSON: key {key[:100]!r} appears twice in one object")
            seen.add(key)
    return members


def _int64(digits: str) -> int:
    if len(digits) <= _MAX_INT64_DIGITS:
        number = int(digits)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    raise BadRequest(f"Malformed JSON: number {digits[:40]} does not fit into 64 bits")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise BadRequest(f"Malformed JSON: number {digits[:40]} does not fit into 64 bits")
    return number


def _no_constant(name: str) -> NoReturn:
    raise BadRequest(f"Malformed JSON: {name} is not a JSON number")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_int=_int64, parse_float=_finite, parse_constant=_no_constant
)


def read_json(data: bytes, *, bound: JsonBound = FILE_BOUND) -> Any:
    """Parse UTF-8 JSON from outside: a metadata file, unless another bound is given.

    Raises `BadRequest` for anything malformed: bad UTF-8 or surrogates, duplicate keys, NaN, numbers outside 64 bits,
    nesting deeper than can be written back (254 levels); and for what unfolds beyond `bound`.
    """
    containers = data.count(b"{") + data.count(b"[")
    if containers > bound.containers:
        raise BadRequest(f"JSON document has more than {bound.containers} objects and arrays")
    if containers + data.count(b",") > bound.values:
        raise BadRequest(f"JSON document has more than {bound.values} values")
    try:
        value = _STRICT.decode(data.decode("utf-8"))
        orjson.dumps(value)  # refuses lone surrogates and what is nested too deep to be stored again
    except UnicodeDecodeError as error:
        raise BadRequest(f"Malformed JSON: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadRequest(f"Malformed JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BadRequest("Malformed JSON: nested too deep") from None
    except (TypeError, UnicodeEncodeError) as error:
        raise BadRequest(f"Malformed JSON: {error}") from None
    return value


def read_json_object(data: bytes) -> dict[str, Any]:
    """As `read_json` for the body of a request, and the document must be an object."""
    value = read_json(data, bound=REQUEST_BOUND)
    if not isinstance(value, dict):
        raise BadRequest("Malformed request: the body must be a JSON object")
    return value


def read_stored_json(data: bytes) -> Any:
    """Parse JSON that this server wrote itself: no checks, several times faster."""
    return orjson.loads(data)


def write_json(value: Any) -> bytes:
    return orjson.dumps(value)
