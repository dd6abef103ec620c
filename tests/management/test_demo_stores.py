"""The store that the demo starts, on a machine without its program."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from management.management.demo_stores import HOW_TO_GET


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """The command ends in order when it is told to."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_demo_says_how_to_get_a_minio_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty, checkout, scratch = (tmp_path / name for name in ("path", "checkout", "scratch"))
    for folder in (empty, checkout, scratch):
        folder.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(settings, "BASE_DIR", checkout)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with pytest.raises(CommandError) as refused:
        call_command("demo", "--store", "minio")
    said = f"demo: the program `minio` is not installed. To get it: {HOW_TO_GET}"
    assert str(refused.value) == said
    assert "go install github.com/minio/minio@latest" in said
    assert list(scratch.iterdir()) == [], "nothing is left"
