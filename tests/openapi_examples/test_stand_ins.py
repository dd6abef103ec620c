"""Stand-ins replace values that differ between two runs of a story, and no others."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from management.openapi import documents as openapi
from management.openapi.examples import FOLDER as EXAMPLES
from tenancy.authn.own_tokens.stored_tokens import TokenKind, create_token_text, read_prefix, read_token, token_prefix
from tests.openapi_examples.stand_ins import FOLDER, StandIns


def reported(*ids: UUID, location: str = "loadTable/0") -> object:
    first, second = ids
    row = {"warehouse": str(first), "location": f"file:///tmp/x/{first}/{second}", "members": [f"icekeeper~{second}"]}
    return StandIns(Path("/tmp/x")).instead_of(row, location)


def test_ids_of_two_runs_get_the_same_stand_ins() -> None:
    once = reported(new_id(), new_id())
    assert reported(new_id(), new_id()) == once
    assert reported(uuid4(), uuid4()) != once, "the UUID version is kept"
    assert reported(new_id(), new_id(), location="loadTable/1") != once


def test_equal_values_stay_equal_and_others_different() -> None:
    row = reported(new_id(), new_id())
    assert isinstance(row, dict)
    first, second = row["warehouse"], row["members"][0].removeprefix("icekeeper~")
    assert row["location"] == f"file://{FOLDER}/{first}/{second}"
    assert first != second
    same = new_id()
    assert reported(same, same) != row


@pytest.mark.parametrize(
    "value", [None, True, 7, 1.5, "", "orders", [], {}, "00000000-0000-0000-0000-000000000000", "2026-01-15T09:30:00Z"]
)
def test_other_values_are_unchanged(value: object) -> None:
    assert repr(StandIns(Path("/tmp/x")).instead_of({"a": value}, "")) == repr({"a": value})


@pytest.mark.parametrize("kind", TokenKind)
def test_a_secret_is_replaced_by_a_placeholder(kind: TokenKind) -> None:
    token_id = new_id()
    token = create_token_text(kind, token_id)
    row = {"id": str(token_id), "prefix": token_prefix(kind, token_id), "token": token}
    reported = StandIns(Path("/tmp/x")).instead_of(row, "")
    assert read_prefix(reported["prefix"]) == UUID(reported["id"]) != token_id
    assert reported["token"] == f"{reported['prefix']}_{'EXAMPLE' * 7}"
    assert len(reported["token"]) == len(token)
    assert read_token(reported["token"]) is None


def test_tokens_of_pages_and_sessions() -> None:
    reported = StandIns(Path("/tmp/x")).instead_of([write_page_token("roles", str(new_id())), "ika_eyJ-_.e30.x_y"], "")
    assert reported == [write_page_token("example"), "ika_EXAMPLE.EXAMPLE.EXAMPLE"]


@pytest.mark.parametrize("name", openapi.APIS)
def test_no_committed_example_contains_machine_specific_values(name: str) -> None:
    text = (EXAMPLES / f"{name}.json").read_text()
    words = text.replace('"', " ").split()
    assert not any(read_token(word) for word in words)
    assert not any(word in text for word in ("PRIVATE KEY", "AKIA", "eyJ", "/tmp/", "/home/", "pytest"))
