"""Errors of the catalog that end a command: message and hint, and the cause for `--traceback`."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from tenancy.services import access_tokens
from tenancy.services.access_tokens import TooManyAccessTokens

pytestmark = pytest.mark.django_db


def test_the_hint_follows_the_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(access_tokens, "MAX_LIVE_TOKENS", 0)
    with pytest.raises(CommandError) as raised:
        call_command("create_token", user="local~alice", create_user=True)
    assert str(raised.value) == "local~alice has 0 live tokens: revoke one\nHint: Revoke unused tokens"
    assert type(raised.value.__cause__) is TooManyAccessTokens
    assert raised.value.returncode == 1
    assert capsys.readouterr().out == ""
