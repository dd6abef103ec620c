"""A server that does not accept its own tokens creates none: they would become valid when tokens are enabled."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command

from tenancy.actor import INTERNAL
from tenancy.services.users import create_service_account
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import use_settings
from tests.token_fixtures import new_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna(callers: NamedCallers, monkeypatch: pytest.MonkeyPatch) -> CallerClient:
    """A user whom an identity provider authenticates."""
    use_settings(monkeypatch, access_tokens=False)
    callers.user("anna")
    return CallerClient("/management/v1", "anna")


def test_none_is_created_or_rotated(
    anna: CallerClient, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], Fingerprint]
) -> None:
    robot = create_service_account(actor=INTERNAL, name="robot").user_id
    use_settings(monkeypatch, access_tokens=None)
    own = anna.post("/token", {"name": "t"}).json()["id"]
    use_settings(monkeypatch, access_tokens=False)
    before = everything()
    for response in (
        anna.post("/token", {"name": "t"}),
        anna.post("/token", {"name": "t", "user-id": robot}),
        anna.post(f"/token/{own}/rotate", {}),
    ):
        assert response.refused(412, "AccessTokensNotAccepted", "ICEKEEPER__ACCESS_TOKENS")
    assert everything() == before
    assert [each["id"] for each in anna.get("/token").json()["tokens"]] == [own]
    assert anna.delete(f"/token/{own}").status == 204


def test_service_accounts_may_be_created_beforehand(anna: CallerClient) -> None:
    account = anna.post("/service-account", {"name": "robot"})
    assert account.status == 201
    target = f"/service-account/{account.json()['id']}"
    assert anna.delete(target).status == 204


def test_commands_create_them_and_report_the_missing_setting(anna: CallerClient) -> None:
    assert settings.ICEKEEPER.access_tokens is False
    assert new_token().startswith("ikp_")
    err = StringIO()
    call_command("create_token", "--user", "local~alice", stdout=StringIO(), stderr=err)
    assert "set ICEKEEPER__ACCESS_TOKENS=true" in err.getvalue()
