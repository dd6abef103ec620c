from __future__ import annotations

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.authn.own_tokens.stored_tokens import (
    ALPHABET,
    TokenKind,
    create_token_text,
    read_prefix,
    read_token,
    token_digest,
    token_prefix,
)

IDS = st.uuids()


@given(kind=st.sampled_from(TokenKind), token_id=IDS)
def test_a_token_text_contains_its_kind_and_id(kind: TokenKind, token_id: UUID) -> None:
    token = create_token_text(kind, token_id)
    assert re.fullmatch(r"ik[ps]_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}", token)
    text = read_token(token)
    assert text is not None
    assert (text.kind, text.token_id) == (kind, token_id)
    assert token.startswith(token_prefix(kind, token_id) + "_")
    assert read_prefix(token_prefix(kind, token_id)) == token_id


@pytest.mark.parametrize("token_id", [UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)])
def test_the_first_and_the_last_id(token_id: UUID) -> None:
    text = read_token(create_token_text(TokenKind.SERVICE, token_id))
    assert text is not None
    assert text.token_id == token_id


@given(token_id=IDS, location=st.integers(4, 75), character=st.sampled_from(ALPHABET))
def test_one_wrong_character_is_detected(token_id: UUID, location: int, character: str) -> None:
    token = create_token_text(TokenKind.PERSONAL, token_id)
    wrong = token[:location] + character + token[location + 1 :]
    assert (read_token(wrong) is None) is (wrong != token)


@given(st.text() | st.text(ALPHABET + "_", min_size=70, max_size=80).map(lambda text: f"ikp_{text}"))
def test_anything_else_is_no_token(text: str) -> None:
    assert read_token(text) is None
    assert read_prefix(text) is None


def test_ids_beyond_a_uuid_are_none() -> None:
    assert read_prefix("ikp_" + "z" * 22) is None
    assert read_prefix("ikp_" + "0" * 21) is None
    assert read_prefix("xxx_" + "0" * 22) is None


def test_tokens_differ_and_so_do_their_digests() -> None:
    tokens = {create_token_text(TokenKind.PERSONAL, UUID(int=7)) for _ in range(100)}
    assert len({token_digest(token) for token in tokens}) == len({token[27:70] for token in tokens}) == 100
