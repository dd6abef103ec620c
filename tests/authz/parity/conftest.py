"""Fixtures of the parity tests: the tree, with a role that can be owned and assumed."""

from __future__ import annotations

import pytest
from django.conf import settings

from storage.models import Warehouse
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.store import install, openfga_store
from tenancy.models.securable import ObjectRef
from tests.authz.parity.pair_fixtures import Pair, T
from tests.authz.tree_fixtures import create_tree, role
from tests.management.warehouse_request_fixtures import use_settings


@pytest.fixture
def tree(warehouse: Warehouse) -> dict[str, ObjectRef]:
    created = create_tree(warehouse)
    return {**created, "role": ObjectRef(T.ROLE, role("of the tree").pk)}


@pytest.fixture
def pair(by_openfga: OpenFgaAuthorizer, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """OpenFGA without time limits: hundreds of roles have grants here, and the machine may be busy."""
    patient = settings.ICEKEEPER.openfga_connection.model_copy(update={"request_timeout": 60.0})
    use_settings(monkeypatch, openfga_connection=patient)
    install(openfga_store())
    return Pair(by_openfga)
