"""A store of local files, empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.io.local import LocalStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    return root


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)
