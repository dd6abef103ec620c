"""What clients ask for and what they are given (storage.md §3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from storage.vending.delegation import Asked, Delegation, asked_in, choose_delegation

VENDED, SIGNING, BOTH, NONE = (
    Delegation(vended=vended, signing=signing)
    for vended, signing in ((True, False), (False, True), (True, True), (False, False))
)


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        (None, Asked.NOTHING),
        ("", Asked.NOTHING),
        (" , ,", Asked.NOTHING),
        ("vended-credentials", Asked.VENDED),
        ("remote-signing", Asked.SIGNING),
        ("client-managed", Asked.CLIENT_MANAGED),
        ("vended-credentials,remote-signing", Asked.VENDED | Asked.SIGNING),
        (" remote-signing ,\tvended-credentials, other", Asked.VENDED | Asked.SIGNING),
        ("client-managed, vended-credentials", Asked.VENDED),
        ("remote-signing,client-managed", Asked.SIGNING),
        ("client-managed,client-managed", Asked.CLIENT_MANAGED),
        ("Vended-Credentials", Asked.NOTHING),
        ("vended-credentials;q=1", Asked.NOTHING),
        ("vended credentials", Asked.NOTHING),
        ("x" * 100_000, Asked.NOTHING),
        ("client-managed, unknown", Asked.CLIENT_MANAGED),
    ],
)
def test_the_header(header: str | None, asked: Asked) -> None:
    assert asked_in(header) == asked


def s3(*, sts: bool, signing: bool) -> dict[str, Any]:
    return {"type": "s3", "sts-enabled": sts, "remote-signing-enabled": signing}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (Asked.NOTHING, (VENDED, SIGNING, VENDED, NONE)),
        (Asked.VENDED, (VENDED, SIGNING, VENDED, NONE)),
        (Asked.SIGNING, (SIGNING, SIGNING, VENDED, NONE)),
        (Asked.VENDED | Asked.SIGNING, (BOTH, SIGNING, VENDED, NONE)),
        (Asked.CLIENT_MANAGED, (NONE, NONE, NONE, NONE)),
    ],
)
def test_the_choice(asked: Asked, chosen: tuple[Delegation, ...]) -> None:
    profiles = [
        s3(sts=sts, signing=signing) for sts, signing in ((True, True), (False, True), (True, False), (False, False))
    ]
    assert tuple(choose_delegation(asked, profile) for profile in profiles) == chosen


@pytest.mark.parametrize(
    ("profile", "chosen"),
    [
        ({"type": "adls", "sas-enabled": True}, VENDED),
        ({"type": "adls", "sas-enabled": False}, NONE),
        ({"type": "onelake", "sas-enabled": True}, VENDED),
        ({"type": "gcs", "sts-enabled": True}, VENDED),
        ({"type": "gcs", "sts-enabled": False}, NONE),
        ({"type": "local"}, NONE),
    ],
)
@pytest.mark.parametrize("asked", [Asked.NOTHING, Asked.VENDED, Asked.SIGNING, Asked.VENDED | Asked.SIGNING])
def test_other_stores_know_no_signing(asked: Asked, profile: dict[str, Any], chosen: Delegation) -> None:
    assert choose_delegation(asked, profile) == chosen
    assert choose_delegation(Asked.CLIENT_MANAGED, profile) == NONE
