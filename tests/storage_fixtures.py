"""Real object stores, one server of each for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.parts.azurite import Azurite
from tests.parts.fake_gcs import FakeGcs
from tests.parts.minio import Minio
from tests.parts.recorder import Recorder
from tests.parts.seaweedfs import SeaweedFS

_numbers = count(1)


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    with Minio(tmp_path_factory.mktemp("minio") / "home") as server:
        yield server


@pytest.fixture
def bucket(minio: Minio) -> str:
    """A new, empty one of MinIO."""
    return minio.create_bucket(f"bucket-{next(_numbers)}")


@pytest.fixture
def recorder(minio: Minio) -> Iterator[Recorder]:
    """MinIO by way of somebody who keeps what it is asked."""
    with Recorder(minio.port) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with SeaweedFS(tmp_path_factory.mktemp("seaweedfs") / "home") as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite") / "home") as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    with FakeGcs(tmp_path_factory.mktemp("fake-gcs") / "home") as server:
        yield server
