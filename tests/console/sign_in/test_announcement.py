"""What `manage.py serve` prints about the console: a one-time address only where no other way to sign in is open."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import connection

from management.management.commands.serve import _describe_console
from management.models import SignInAddress
from tenancy import maintenance
from tenancy.models import User
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.conftest import SetVariables
from tests.console.sign_in.session_fixtures import code_of, is_signed_in

pytestmark = pytest.mark.django_db

PLAIN = ["  console               http://127.0.0.1:8181/ui/"]


@pytest.fixture(autouse=True)
def _on_port_8181(variables: SetVariables) -> None:
    variables(LAKEKEEPER__LISTEN_PORT="8181", LAKEKEEPER__BIND_IP="0.0.0.0")  # noqa: S104


def lines() -> list[str]:
    return _describe_console(settings.ICEKEEPER)


def test_the_embedded_default(browser: Browser) -> None:
    printed = lines()
    if connection.vendor != "sqlite":
        assert printed == PLAIN
        return
    address, note = printed
    assert address.startswith(f"{PLAIN[0]}sign-in/once/?code=")
    assert note == "    signs local~admin in once, within 15 minutes"
    assert browser.post("/ui/sign-in/once/", {"code": code_of(address.split()[1])}).status == 302
    assert is_signed_in(browser)
    assert lines() != printed, "each start has an address of its own"


def test_a_blocked_user() -> None:
    User.objects.create(pk="local~admin", name="admin", is_active=False)
    assert lines()[0] == PLAIN[0]
    assert SignInAddress.objects.count() == 0


@pytest.mark.parametrize("setting", ["ICEKEEPER__ACCESS_TOKENS", "ICEKEEPER__CONSOLE__ENABLED"])
def test_no_address(variables: SetVariables, setting: str) -> None:
    variables(
        **{setting: "true" if setting.endswith("TOKENS") else "false", "LAKEKEEPER__BASE_URI": "https://a.example/x/"}
    )
    assert lines() == (["  console               https://a.example/x/ui/"] if setting.endswith("TOKENS") else [])
    assert SignInAddress.objects.count() == 0
    assert not User.objects.filter(pk="local~admin").exists()


def test_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance.switch, "is_on", True)
    assert lines() == PLAIN
    assert SignInAddress.objects.count() == 0
