"""Fixtures: a store of local files, and stores on the emulators of the clouds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.io.local import LocalStore
from tests.parts.recorder import Recorder
from tests.storage.cloud_fixtures import Cloud, azure, gcs
from tests.storage.open_store_fixtures import use_storage_settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    return root


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


@pytest.fixture(
    params=[
        pytest.param("azure", marks=pytest.mark.part("azurite")),
        pytest.param("gcs", marks=pytest.mark.part("fake_gcs")),
    ]
)
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    if request.param == "azure":
        return azure(request.getfixturevalue("azurite"), monkeypatch)
    return gcs(request.getfixturevalue("fake_gcs"), request.getfixturevalue("tokens"), monkeypatch)


@pytest.fixture
def through(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Record the requests of stores that are opened after this point."""
    with Recorder(cloud.part.relay.port, host=cloud.host) as recorder:
        asked = f"{recorder.endpoint.rstrip('/')}{cloud.address.partition('://')[2].partition('/')[2] and '/{account}'}"
        use_storage_settings(monkeypatch, **{cloud.setting: asked})
        yield recorder
