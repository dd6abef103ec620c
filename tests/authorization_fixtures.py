"""Real authorization servers: one OpenFGA for the whole run, and an Open Policy Agent for each set of policies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.parts.opa import Opa
from tests.parts.openfga import OpenFga

StartOpa = Callable[..., Opa]
"""`(policies, settings, *options)`: an Open Policy Agent with the policies of that folder and those variables."""


@pytest.fixture(scope="session")
def openfga(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenFga]:
    """One server without authentication for all tests; each test creates its own store."""
    with OpenFga(tmp_path_factory.mktemp("openfga") / "home") as server:
        yield server


@pytest.fixture
def opa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartOpa]:
    """Start servers that end with the test."""
    with contextlib.ExitStack() as started:

        def start(policies: Path, settings: Mapping[str, str] | None = None, *options: str) -> Opa:
            return started.enter_context(Opa(tmp_path_factory.mktemp("opa"), policies, settings, *options))

        yield start
