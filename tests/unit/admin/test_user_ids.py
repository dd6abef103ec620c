"""User ids as one segment of an address: a round trip for every id, one address for each."""

from __future__ import annotations

import re

import pytest
from django.urls import resolve
from hypothesis import example, given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import BadRequest
from management.admin.accounts.user_ids import decode_user_id, encode_user_id, user_url
from tenancy.actor import require_user_id

SUBJECTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(SUBJECTS)
@example("../../etc")
@example("a/b?c=#d%2F é\"'<b>")
@example("a~b~c")
@example("=41")
@example(".")
@example("//")
@example("x;y&z+\\")
@example("\N{SNOWFLAKE}\N{VARIATION SELECTOR-16}")
def test_round_trip(subject: str) -> None:
    user_id = f"oidc~{subject}"
    try:
        require_user_id(user_id)
    except BadRequest:
        with pytest.raises(ValueError, match=r"."):
            decode_user_id(encode_user_id(user_id))
        return
    segment = encode_user_id(user_id)
    assert re.fullmatch(r"[A-Za-z0-9._~@=-]+", segment), "no character that a proxy decodes or a path is split at"
    assert segment not in {".", ".."}
    assert decode_user_id(segment) == user_id
    address = user_url(user_id)
    assert address == f"/ui/user/{segment}/"
    assert resolve(address).kwargs == {"user_id": user_id}


def test_readable_ids_stay_readable() -> None:
    assert encode_user_id("local~ada.lindqvist") == "local~ada.lindqvist"
    assert encode_user_id("oidc~ada@example.com") == "oidc~ada@example.com"
    assert encode_user_id("kubernetes~system:serviceaccount:jobs:spark") == (
        "kubernetes~system=3Aserviceaccount=3Ajobs=3Aspark"
    )


@pytest.mark.parametrize(
    "segment",
    ["oidc~=61", "oidc~=c3=a9", "oidc~=C3", "oidc~=", "oidc~=0", "oidc~a=00", "oidc~", "oidc", "~a", "..", ""],
)
def test_other_texts_are_no_addresses(segment: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_user_id(segment)
