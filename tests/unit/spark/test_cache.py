"""The cache directory of Spark's parts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tasks.spark import java


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = java.cache_dir("ivy")
    assert folder == tmp_path / "icekeeper" / "ivy"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "icekeeper").stat().st_mode & 0o777 == 0o700


def test_without_a_cache_folder_it_is_below_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java.cache_dir("java") == tmp_path / ".cache" / "icekeeper" / "java"


def test_where_neither_can_be_created_the_temporary_folder_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert java.cache_dir() == tmp_path / f"cache-{os.getuid()}" / "icekeeper"


def test_a_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(java.UnsafeCacheError, match="XDG_CACHE_HOME"):
        java.cache_dir("java")
    assert not (tmp_path / "icekeeper" / "java").exists()
