"""The demo command starts a MinIO, or reports how to install it."""

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
    """Restore the signal handler that the command replaces."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_demo_reports_how_to_install_a_missing_minio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert list(scratch.iterdir()) == [], "no file remains"
