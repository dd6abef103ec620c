from __future__ import annotations

import base64
from uuid import UUID

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from catalog.selectors.visible_pages import LONG_PLAIN_BYTES, open_page_token, seal_page_token
from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import MAX_KEY_BYTES, name_key

KEYS = st.lists(st.one_of(st.uuids().map(str), st.floats(0, 1).map(repr)), min_size=1, max_size=2)


@given(KEYS)
def test_who_sealed_it_opens_it(after: list[str]) -> None:
    assert open_page_token(seal_page_token("a list", *after), "a list") == after


@given(similarity=st.floats(0, 1), tabular_id=st.uuids())
def test_neither_its_text_nor_its_length_reveals_its_content(similarity: float, tabular_id: UUID) -> None:
    token = seal_page_token("a list", repr(similarity), str(tabular_id))
    assert token != seal_page_token("a list", repr(similarity), str(tabular_id))
    assert len(token) == len(seal_page_token("a list", "1.0", str(tabular_id))) == 208
    raw = base64.urlsafe_b64decode(token)
    for text in (str(tabular_id).encode(), tabular_id.hex.encode(), tabular_id.bytes, b"a list"):
        assert text not in raw
        assert text not in token.encode()


@given(st.text(max_size=255).filter(lambda name: len(name_key(name).encode(errors="replace")) <= MAX_KEY_BYTES))
def test_tokens_with_a_name_have_one_length(name: str) -> None:
    key = name_key(name).encode(errors="replace").decode()
    token = seal_page_token("a list", "1", key, plain_bytes=LONG_PLAIN_BYTES)
    assert open_page_token(token, "a list") == ["1", key]
    assert len(token) == len(seal_page_token("a list", "0", "", plain_bytes=LONG_PLAIN_BYTES)) == 1_744


def test_the_longest_names_fit() -> None:
    for letter in ('"', "\\", "é", "日", "\U00010300"):
        key = letter * min(255, MAX_KEY_BYTES // len(letter.encode()))
        token = seal_page_token("a list", "1", key, plain_bytes=LONG_PLAIN_BYTES)
        assert open_page_token(token, "a list") == ["1", key]


def test_a_changed_token_is_refused() -> None:
    token = seal_page_token("a list", "1.0", str(new_id()))
    for at, letter in enumerate(token):
        for other in {"A", "z", "_", "+", "=", "!", "\n", "ä", ""} - {letter}:
            with pytest.raises(InvalidPageToken):
                open_page_token(token[:at] + other + token[at + 1 :], "a list")
    for changed in (token + "A", token + "AAAA", token + "=", token[:-4], token * 2, " " + token):
        with pytest.raises(InvalidPageToken):
            open_page_token(changed, "a list")


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_unsealed_tokens_are_rejected(token: str) -> None:
    with pytest.raises(InvalidPageToken):
        open_page_token(token, "a list")
    with pytest.raises(InvalidPageToken):
        open_page_token(write_page_token("a list", token), "a list")


def test_a_token_of_another_list_or_of_another_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    token = seal_page_token("a list", "1.0")
    with pytest.raises(InvalidPageToken):
        open_page_token(token, "another list")
    with monkeypatch.context() as patched:
        patched.setattr(settings, "SECRET_KEY", "another one")
        with pytest.raises(InvalidPageToken):
            open_page_token(token, "a list")
    assert open_page_token(token, "a list") == ["1.0"]


def test_a_token_of_a_former_key_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    token = seal_page_token("a list", "1.0")
    former = settings.SECRET_KEY
    monkeypatch.setattr(settings, "SECRET_KEY", "another one")
    monkeypatch.setattr(settings, "FORMER_SECRET_KEYS", ["an older one", former])
    assert open_page_token(token, "a list") == ["1.0"]
    renewed = seal_page_token("a list", "1.0")
    monkeypatch.setattr(settings, "FORMER_SECRET_KEYS", [])
    assert open_page_token(renewed, "a list") == ["1.0"], "the first one seals"


def test_long_content_is_not_sealed() -> None:
    with pytest.raises(ValueError, match="too long"):
        seal_page_token("a list", "x" * 200)
