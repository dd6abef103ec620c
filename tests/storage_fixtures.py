"""Real object stores, one server of each kind for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.parts import vault as real_vault
from tests.parts.azurite import Azurite
from tests.parts.fake_gcs import FakeGcs
from tests.parts.fake_vault import FakeVault
from tests.parts.minio import Minio
from tests.parts.recorder import Recorder
from tests.parts.seaweedfs import SeaweedFS
from tests.parts.vault import Vault
from tests.storage.vending.fake_service import FakeService

_numbers = count(1)


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio") / "home") as server:
        yield server


@pytest.fixture
def bucket(minio: Minio) -> str:
    """A new, empty bucket of MinIO."""
    return minio.create_bucket(f"bucket-{next(_numbers)}")


@pytest.fixture
def recorder(minio: Minio) -> Iterator[Recorder]:
    """A recording proxy in front of MinIO."""
    with Recorder(minio.port) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with SeaweedFS(tmp_path_factory.mktemp("seaweedfs") / "home") as server:
        yield server


@pytest.fixture
def tokens() -> Iterator[FakeService]:
    """A fake of the token services of clouds."""
    with FakeService() as service:
        yield service


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite") / "home") as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with FakeGcs(tmp_path_factory.mktemp("fake-gcs") / "home") as server:
        yield server


@pytest.fixture(params=["fake", "real"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeVault | Vault]:
    """A fake Vault, and then a real one where `python -m tests.parts.vault` has built it."""
    if request.param == "fake":
        with FakeVault() as fake:
            yield fake
        return
    if not real_vault.PROGRAM.is_file():
        pytest.skip("no real Vault here: python -m tests.parts.vault builds it in ten minutes")
    with Vault(tmp_path / "vault") as real:
        yield real


@pytest.fixture
def fake_vault() -> Iterator[FakeVault]:
    """A fake Vault, for states that a real one cannot be put into or does not reach by itself."""
    with FakeVault() as fake:
        yield fake
