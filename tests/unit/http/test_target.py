"""For random request targets, the prefix that selects the stack is the prefix that routes."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.http.application import set_path
from icekeeper.kernel.errors.types import BadRequest, CatalogError, NotFound

PREFIXES = ("/catalog/", "/lakekeeper/", "/management/")

PIECES = st.sampled_from(
    ["/", "catalog", "management", "ui", ".", "..", "%2e", "%2E%2e", "%2f", "%63", "atalog", "c", "%25", "%252e", "+",
     "//", "?", "#", "http://", "x", "\\", ";", "%00", "%5c", "%c0%ae", "%1F", ":", "@", "*"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_reading_but_one(target: str) -> None:
    environ: dict[str, Any] = {}
    try:
        is_api = set_path(environ, target, PREFIXES)
    except CatalogError:
        return
    raw = environ["icekeeper.path"]
    path = environ["PATH_INFO"]
    assert path.startswith("/")
    assert "?" not in raw
    assert is_api == raw.startswith(PREFIXES) == path.startswith(PREFIXES)
    if is_api:
        assert path == raw
        segments = [unquote(segment) for segment in path.split("/")]
    else:
        segments = path.split("/")
    assert "." not in segments
    assert ".." not in segments
    assert "\x00" not in unquote(path)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/catalog/v1/a%2Fb?x=/catalog/", "/catalog/v1/a%2Fb", "x=/catalog/"),
        ("https://host:1/management/v1?y#z", "/management/v1", "y"),
        ("*", "/", ""),
        ("/ui/a%20b", "/ui/a b", ""),
        ("/%C3%A9", "/\xc3\xa9", ""),
    ],
)
def test_path_and_query(target: str, path: str, query: str) -> None:
    environ: dict[str, Any] = {"SCRIPT_NAME": "/elsewhere", "PATH_INFO": "/old"}
    set_path(environ, target, PREFIXES)
    assert (environ["PATH_INFO"], environ["QUERY_STRING"], environ["SCRIPT_NAME"]) == (path, query, "")


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("/catalog/%2E%2E/x", BadRequest),
        ("/a/%2e/b", BadRequest),
        ("/a%2f..%2fb", BadRequest),
        ("javascript://host/catalog/", BadRequest),
        ("host:443", BadRequest),
        ("/a?%00", BadRequest),
        ("/%63atalog/v1", NotFound),
        ("/catalog%2fv1", NotFound),
        ("/manage%6Dent/v1", NotFound),
    ],
)
def test_refused(target: str, error: type[CatalogError]) -> None:
    with pytest.raises(error):
        set_path({}, target, PREFIXES)
