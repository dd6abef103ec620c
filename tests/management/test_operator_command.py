"""Errors of the catalog that end a command: message and hint, and the cause with `--traceback`."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from icekeeper.command_line import CommandLine
from tenancy.services import access_tokens
from tenancy.services.access_tokens import TooManyAccessTokens

pytestmark = pytest.mark.django_db

REPORTED = "local~alice has 0 live tokens: revoke one\nHint: Revoke unused tokens"


@pytest.fixture(autouse=True)
def no_token_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "MAX_LIVE_TOKENS", 0)


def create_token(*options: str) -> None:
    CommandLine(["manage.py", "create_token", "--user", "local~alice", "--create-user", *options]).execute()


def test_the_hint_is_printed_after_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        create_token()
    assert end.value.code == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"CommandError: {REPORTED}\n")


def test_the_cause_is_in_the_traceback() -> None:
    with pytest.raises(CommandError) as raised:
        create_token("--traceback")
    assert str(raised.value) == REPORTED
    assert type(raised.value.__cause__) is TooManyAccessTokens
