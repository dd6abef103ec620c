"""A fake catalog and the real Open Policy Agent with our policies, both for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.opa.fake_batch_check import FakeBatchCheck
from tests.opa.opa_request_fixtures import OPTIONS, POLICIES, settings_for
from tests.parts.opa import Opa


@pytest.fixture(scope="session")
def running_fake() -> Iterator[FakeBatchCheck]:
    with FakeBatchCheck() as fake:
        yield fake


@pytest.fixture
def fake(running_fake: FakeBatchCheck) -> FakeBatchCheck:
    """It was asked nothing yet and grants nothing."""
    running_fake.reset()
    return running_fake


@pytest.fixture(scope="session")
def running_bridge(running_fake: FakeBatchCheck, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opa]:
    home = tmp_path_factory.mktemp("bridge") / "home"
    with Opa(home, POLICIES, settings_for(running_fake), *OPTIONS) as server:
        yield server


@pytest.fixture
def bridge(running_bridge: Opa, fake: FakeBatchCheck) -> Opa:
    """Our policies, asking `fake`. Its token and warehouses may be in its cache."""
    return running_bridge
