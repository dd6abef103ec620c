"""Each route that writes to the catalog asks the rules about changes first; also each new one.

The stories of the OpenAPI documents contain every operation. A route of the catalog APIs that changes something must
have asked, or be listed below with a reason; of the management API exactly the listed routes ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from catalog.services.approval.port import ContractVerifier, ProposedChange
from catalog.services.approval.rule_set import configured_verifiers
from management.openapi import documents as openapi
from tests.harness.routes import ROUTES
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings
from tests.openapi_examples.story import Story
from tests.openapi_examples.test_changing_routes import CHANGES_NOTHING

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ASKED_BY_MANAGEMENT = {
    "POST /management/v1/warehouse/{warehouse_id}/deleted-tabulars/undrop",
    "POST /management/v1/warehouse/{warehouse_id}/namespace/{namespace_id}/move",
    "POST /management/v1/warehouse/{warehouse_id}/task/control",
}
"""The last one cancels expirations, which restores tables."""

READS = {"GET", "HEAD"}


class AskedVerifier(ContractVerifier):
    """Records the changes that it is asked about."""

    asked: ClassVar[list[ProposedChange]] = []

    def find_violations(self, change: ProposedChange) -> list[str]:
        self.asked.append(change)
        return []


class ApprovedStory(Story):
    """Record the routes whose successful requests asked."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.asking: set[str] = set()

    def _send(self, operation_id: str, parameters: dict[str, Any], body: Any) -> Response:
        method, path, _ = self._operations[operation_id]
        AskedVerifier.asked.clear()
        response = super()._send(operation_id, parameters, body)
        if response.status < 400 and method not in READS:
            if AskedVerifier.asked:
                self.asking.add(f"{method} {path}")
        else:
            assert not AskedVerifier.asked or response.status >= 400
        return response


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configured_verifiers.cache_clear()
    yield
    configured_verifiers.cache_clear()


@pytest.mark.parametrize("name", openapi.APIS)
def test_each_write_asks(name: str, play_story: Any, asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, contract_verifiers=[f"{__name__}.AskedVerifier"])
    story = play_story(name, ApprovedStory)
    if name == "management":
        assert story.asking == ASKED_BY_MANAGEMENT
        return
    prefix = f"/{openapi.APIS[name].prefix}"
    writes = {
        f"{method} {route.template}"
        for route in ROUTES
        if route.template.startswith(prefix) and hasattr(route.view, "cls")
        for method in route.methods
        if method not in READS
    }
    documented = {f"{method} {path}" for method, path, _ in story._operations.values()}
    assert writes <= documented
    assert story.asking == (writes & documented) - CHANGES_NOTHING.keys()
