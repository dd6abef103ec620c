"""Errors name the member that a form marks; neither this nor a hint is part of the response."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Grantee
from tenancy.services.access_tokens import AccessTokensNotAccepted
from tenancy.services.grants import GrantSpec, build_difference
from tenancy.services.projects import checked_project_name
from tenancy.services.registration import checked_email, checked_name

SPEC = GrantSpec("select", Grantee(user_id="oidc~ann"))


@pytest.mark.parametrize(
    ("check", "member"),
    [
        (lambda: checked_project_name(" "), "project-name"),
        (lambda: checked_project_name(" ", field="new-name"), "new-name"),
        (lambda: checked_project_name("n" * 129), "project-name"),
        (lambda: checked_name(" "), "name"),
        (lambda: checked_name("a\nb"), "name"),
        (lambda: checked_email("e" * 321), "email"),
        (lambda: build_difference(writes=[SPEC, SPEC], deletes=[]), "writes"),
        (lambda: build_difference(writes=[], deletes=[SPEC, SPEC]), "deletes"),
    ],
)
def test_the_wrong_member_is_named(check: Callable[[], object], member: str) -> None:
    with pytest.raises(CatalogError) as raised:
        check()
    assert raised.value.field == member


def test_a_hint_is_not_part_of_the_response() -> None:
    error = AccessTokensNotAccepted("Access tokens are disabled", hint="Set ICEKEEPER__ACCESS_TOKENS=true")
    members = {"message": "Access tokens are disabled", "type": "AccessTokensNotAccepted", "code": 412}
    assert error.envelope(error_id="1") == {"error": members | {"stack": ["Error ID: 1"]}}
