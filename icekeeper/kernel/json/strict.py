"""JSON parser and writer. The parser is strict, so that nothing that a client sent is changed silently.

orjson converts 2^64 to a float and keeps the last of two equal keys; the standard library accepts NaN, lone surrogates
and floats that overflow. `read_json` raises `BadRequest` for all of these.
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
    """Limits of the memory that a document takes when it is parsed: `{}` is 2 bytes of JSON and 64 bytes in Python.

    Brackets and commas are counted in the bytes, before anything is decoded. Those in strings are counted as well, so
    the limits are far above real documents.
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
    """Parse UTF-8 JSON from a client or a file.

    Raises `BadRequest` for malformed documents (invalid UTF-8 or surrogates, duplicate keys, NaN, numbers outside of 64
    bits, more than the 254 levels that can be written) and for those that exceed `bound`.
    """
    containers = data.count(b"{") + data.count(b"[")
    if containers > bound.containers:
        raise BadRequest(f"JSON document has more than {bound.containers} objects and arrays")
    if containers + data.count(b",") > bound.values:
        raise BadRequest(f"JSON document has more than {bound.values} values")
    try:
        value = _STRICT.decode(data.decode("utf-8"))
        orjson.dumps(value)  # raises for lone surrogates and for nesting too deep to be stored
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
    """Parse the body of a request, which must be an object. Raises what `read_json` raises."""
    value = read_json(data, bound=REQUEST_BOUND)
    if not isinstance(value, dict):
        raise BadRequest("Malformed request: the body must be a JSON object")
    return value


def read_stored_json(data: bytes) -> Any:
    """Parse JSON that this server wrote: without checks, several times faster."""
    return orjson.loads(data)


JsonText = orjson.Fragment
"""Bytes of JSON that `write_json` copies into the document."""


def write_json(value: Any) -> bytes:
    return orjson.dumps(value)
