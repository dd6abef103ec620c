"""Names, paths, tokens, ids and JSON: the basic text formats."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import BadRequest, InvalidPageToken
from icekeeper.kernel.http.paging import read_page_token, write_page_token
from icekeeper.kernel.http.raw_path import decode_levels, decode_segment, raw_path
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.json.strict import read_json
from icekeeper.kernel.names import name_key, require_name


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/catalog/v1/config?warehouse=x", "/catalog/v1/config"),
        ("http://host:1/catalog?x#y", "/catalog"),
        ("/a%2Fb/%1F?x=/c", "/a%2Fb/%1F"),
        ("//catalog/v1", "//catalog/v1"),
        ("/a#b", "/a"),
        ("http://host", "/"),
        ("*", "/"),
    ],
)
def test_the_raw_path_of_a_target(target: str, path: str) -> None:
    assert raw_path(target) == path


@pytest.mark.parametrize(
    ("segment", "name"),
    [("a%2Fb", "a/b"), ("a+b", "a b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("%25", "%"), ("%zz", "%zz"), ("%", "%")],
)
def test_segments_are_decoded_once(segment: str, name: str) -> None:
    assert decode_segment(segment) == name


def test_levels_are_split_at_the_separator_only() -> None:
    assert decode_levels("a%1Fb%1fc") == ("a", "b", "c")
    assert decode_levels("a.b%2Fc") == ("a.b/c",)


@pytest.mark.parametrize("segment", ["%ff", "%c3%28", "a%E2%98"])
def test_segments_that_are_not_utf8(segment: str) -> None:
    with pytest.raises(BadRequest):
        decode_segment(segment)


@pytest.mark.parametrize(("one", "other"), [("A", "a"), ("ß", "SS"), ("\uff21", "a"), ("é", "e\u0301"), ("ﬁ", "FI")])
def test_names_that_are_the_same(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@given(st.text())
def test_keys_are_stable(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


@given(st.text(max_size=300))
def test_a_legal_name_has_a_key_that_fits_an_index(name: str) -> None:
    try:
        require_name(name, "name")
    except BadRequest:
        return
    assert 0 < len(name_key(name).encode()) <= 1020
    assert "\x1f" not in name_key(name)
    assert "\x00" not in name_key(name)


def test_ids_are_time_ordered_and_parsed_in_one_spelling() -> None:
    ids = [new_id() for _ in range(1000)]
    assert ids == sorted(ids)
    assert {each.version for each in ids} == {7}
    assert parse_id(str(ids[0]).upper()) == ids[0]
    text = str(UUID(int=7))
    for other in ("", text[:-1], text.replace("-", ""), "{" + text + "}", "urn:uuid:" + text, text + "\n", "g" * 36):
        assert parse_id(other) is None


@given(st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_page_tokens_survive_the_round_trip(key: str) -> None:
    assert read_page_token(write_page_token("tables", key), "tables", parts=1) == [key]


@given(st.text(max_size=60))
def test_forged_page_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidPageToken):
        read_page_token(token, "tables", parts=1)


def test_a_token_of_another_listing_is_refused() -> None:
    with pytest.raises(InvalidPageToken):
        read_page_token(write_page_token("namespaces", "x"), "tables", parts=1)
    with pytest.raises(InvalidPageToken):
        read_page_token(write_page_token("tables", "x", "y"), "tables", parts=1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values)
def test_good_json_is_read_as_it_is(value: Any) -> None:
    try:
        text = orjson.dumps(value)
    except TypeError:
        return  # a lone surrogate, which has no UTF-8 form
    assert read_json(text) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    try:
        value = read_json(data)
    except BadRequest:
        return
    assert orjson.loads(data) == value
