"""Access delegation: the requested and the returned mechanism (storage.md §3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from storage.vending.delegation import Delegation, RequestedAccess, choose_delegation, parse_requested_access

VENDED, SIGNING, BOTH, NONE = (
    Delegation(vended=vended, signing=signing)
    for vended, signing in ((True, False), (False, True), (True, True), (False, False))
)


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        (None, RequestedAccess.NOTHING),
        ("", RequestedAccess.NOTHING),
        (" , ,", RequestedAccess.NOTHING),
        ("vended-credentials", RequestedAccess.VENDED),
        ("remote-signing", RequestedAccess.SIGNING),
        ("client-managed", RequestedAccess.CLIENT_MANAGED),
        ("vended-credentials,remote-signing", RequestedAccess.VENDED | RequestedAccess.SIGNING),
        (" remote-signing ,\tvended-credentials, other", RequestedAccess.VENDED | RequestedAccess.SIGNING),
        ("client-managed, vended-credentials", RequestedAccess.VENDED),
        ("remote-signing,client-managed", RequestedAccess.SIGNING),
        ("client-managed,client-managed", RequestedAccess.CLIENT_MANAGED),
        ("Vended-Credentials", RequestedAccess.NOTHING),
        ("vended-credentials;q=1", RequestedAccess.NOTHING),
        ("vended credentials", RequestedAccess.NOTHING),
        ("x" * 100_000, RequestedAccess.NOTHING),
        ("client-managed, unknown", RequestedAccess.CLIENT_MANAGED),
    ],
)
def test_the_header(header: str | None, asked: RequestedAccess) -> None:
    assert parse_requested_access(header) == asked


def s3(*, sts: bool, signing: bool) -> dict[str, Any]:
    return {"type": "s3", "sts-enabled": sts, "remote-signing-enabled": signing}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (RequestedAccess.NOTHING, (VENDED, SIGNING, VENDED, NONE)),
        (RequestedAccess.VENDED, (VENDED, SIGNING, VENDED, NONE)),
        (RequestedAccess.SIGNING, (SIGNING, SIGNING, VENDED, NONE)),
        (RequestedAccess.VENDED | RequestedAccess.SIGNING, (BOTH, SIGNING, VENDED, NONE)),
        (RequestedAccess.CLIENT_MANAGED, (NONE, NONE, NONE, NONE)),
    ],
)
def test_the_choice(asked: RequestedAccess, chosen: tuple[Delegation, ...]) -> None:
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
@pytest.mark.parametrize(
    "asked",
    [
        RequestedAccess.NOTHING,
        RequestedAccess.VENDED,
        RequestedAccess.SIGNING,
        RequestedAccess.VENDED | RequestedAccess.SIGNING,
    ],
)
def test_other_stores_know_no_signing(asked: RequestedAccess, profile: dict[str, Any], chosen: Delegation) -> None:
    assert choose_delegation(asked, profile) == chosen
    assert choose_delegation(RequestedAccess.CLIENT_MANAGED, profile) == NONE
