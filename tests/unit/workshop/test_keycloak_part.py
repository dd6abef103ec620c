"""Keycloak in `.parts/`: complete and prepared, or absent."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.parts import keycloak, maven
from tests.parts.process import PartError


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "parts"
    monkeypatch.setattr(keycloak, "PARTS", folder)
    return folder


def gather_an_archive(pom: Path, home: Path) -> None:
    home.mkdir()
    with zipfile.ZipFile(home / f"keycloak-quarkus-dist-{keycloak.version()}.zip", "w") as packed:
        packed.writestr(f"keycloak-{keycloak.version()}/lib/quarkus-run.jar", "not a jar")


def test_a_server_that_cannot_be_prepared_is_not_kept(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "gather", gather_an_archive)
    with pytest.raises(PartError, match="could not be prepared"):
        keycloak.install()
    assert list(parts.iterdir()) == []
    assert keycloak.find_home() is None


def test_a_prepared_server_replaces_it(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "gather", gather_an_archive)
    monkeypatch.setattr(keycloak, "_build", lambda home: (home / "prepared").touch())
    home = keycloak.install()
    assert (home / "prepared").exists()
    assert keycloak.find_home() == home == keycloak.install()
    assert list(parts.iterdir()) == [home]


def test_other_options_want_another_server(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keycloak._home()
    monkeypatch.setattr(keycloak, "BUILD_OPTIONS", ("--db=dev-file",))
    assert keycloak._home() != before
