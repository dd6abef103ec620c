"""A fake catalog and the real Open Policy Agent with our policies, shared by all tests of this folder."""

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
    """The fake catalog, without requests and grants."""
    running_fake.reset()
    return running_fake


@pytest.fixture(scope="session")
def running_bridge(running_fake: FakeBatchCheck, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opa]:
    home = tmp_path_factory.mktemp("bridge") / "home"
    with Opa(home, POLICIES, settings_for(running_fake), *OPTIONS) as server:
        yield server


@pytest.fixture
def bridge(running_bridge: Opa, fake: FakeBatchCheck) -> Opa:
    """OPA with our policies on `fake`. Its token and the warehouses may be in OPA's cache."""
    return running_bridge
