"""JSON that expands to far more memory than its bytes is rejected before decoding."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.strict import FILE_BOUND, REQUEST_BOUND, JsonBound, read_json, read_json_object, write_json

MILLION = 1_000_000
HOSTILE = {
    "[" + ",".join(["{}"] * 8): "objects and arrays",
    "[[],[],[]": "objects and arrays",
    '{"a":{"b":{"c":[': "objects and arrays",
    "0,": "values",
    '"",': "values",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize("read", [read_json, read_json_object])
def test_texts_that_unfold(part: str, read: Callable[[bytes], Any]) -> None:
    """24 MB of empty objects took 1.4 GB."""
    data = (part * (24 * MILLION // len(part))).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match=f"JSON document has more than [0-9]+ {HOSTILE[part]}"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < MILLION
    finally:
        tracemalloc.stop()


def test_the_bounds_are_exact() -> None:
    bound = JsonBound(containers=3, values=5)
    assert read_json(b"[[],{},0]", bound=bound) == [[], {}, 0]
    with pytest.raises(BadRequest, match=r"^JSON document has more than 5 values$"):
        read_json(b"[[],{},0,0]", bound=bound)
    with pytest.raises(BadRequest, match=r"^JSON document has more than 3 objects and arrays$"):
        read_json(b"[[],{},[]]", bound=bound)


def test_text_full_of_commas_is_no_document_full_of_values() -> None:
    body = {"updates": {"list": "a,{b},[c]," * 100_000}}
    assert read_json_object(write_json(body)) == body


def test_documents_of_clients_are_far_below_the_limits() -> None:
    expiry = {"updates": [{"action": "remove-snapshots", "snapshot-ids": [n]} for n in range(10_000)]}
    summary = {f"total-data-files-{n}": "1" for n in range(20)}
    history = {"snapshots": [{"snapshot-id": n, "schema-id": 0, "summary": summary} for n in range(5_000)]}
    columns = {"fields": [{"id": n, "name": f"c{n}", "required": False, "type": "int"} for n in range(50_000)]}
    for document in (expiry, history, columns):
        data = write_json(document)
        assert 2 * (data.count(b"{") + data.count(b"[")) < REQUEST_BOUND.containers
        assert 4 * (data.count(b"{") + data.count(b"[") + data.count(b",")) < REQUEST_BOUND.values
        assert read_json_object(data) == document
    assert FILE_BOUND.containers > REQUEST_BOUND.containers
    assert FILE_BOUND.values > REQUEST_BOUND.values
