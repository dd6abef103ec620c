"""Views with and without owners, and an engine that reads through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from catalog.identifiers import Levels
from catalog.services.tables.create_view import create_view
from icekeeper.conf.authentication import EngineIdentitySettings, TrustedEngineSettings
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Actor, Identity
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.tree_fixtures import give
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import use_settings

VIEW: dict[str, Any] = {
    "schema": SCHEMA | {"schema-id": 0},
    "view-version": {
        "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["open"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "trino"}],
    },
    "properties": {},
}  # fmt: skip
OWNER = "trino.run-as-owner"
OTHER_OWNER = "other.owner"
AUDIENCE = "the-trino-of-this-project"


def engine(
    *, owner_property: str = OWNER, audiences: Sequence[str] = (AUDIENCE,), subjects: Sequence[str] = ()
) -> TrustedEngineSettings:
    identity = EngineIdentitySettings(audiences=list(audiences), subjects=list(subjects))
    return TrustedEngineSettings(owner_property=owner_property, identities={"oidc": identity})


def trust(monkeypatch: pytest.MonkeyPatch, **engines: TrustedEngineSettings) -> None:
    """Trust exactly these engines."""
    use_settings(monkeypatch, trusted_engines=engines)


@dataclass(frozen=True)
class Lake:
    """A catalog with authorization enabled; `callers` maps a token to its client."""

    warehouse: Warehouse
    callers: NamedCallers
    refs: dict[str, ObjectRef]

    def engine(self, name: str = "trino", *, audiences: tuple[str, ...] = (AUDIENCE,), **more: Any) -> CallerClient:
        """Return a client with a token for these audiences."""
        created = Identity(f"oidc~{name}", "oidc", "application", name, audiences=audiences, **more)
        self.callers.add(name, created)
        return CallerClient(f"/catalog/v1/{self.warehouse.pk}", name)

    def view(self, name: str, owner: str | None = None, *, levels: Levels = ("open",), **properties: str) -> ObjectRef:
        """Create it without an actor who would have rights on it."""
        said = properties | ({} if owner is None else {OWNER: owner})
        created = create_view(
            actor=INTERNAL, warehouse_id=self.warehouse.pk, levels=levels, name=name, schema=VIEW["schema"],
            view_version=VIEW["view-version"], location=None, properties=said,
        )  # fmt: skip
        return ObjectRef(Securable.Type.VIEW, created.id)

    def give(self, privilege: str, on: str | ObjectRef, *who: str) -> None:
        for each in who:
            give(privilege, self.refs[on] if isinstance(on, str) else on, Actor(user_id=f"oidc~{each}"))


def through(*views: str) -> str:
    """Return the query that names the views, as in `open.v`."""
    return "?referenced-by=" + ",".join("%1F".join(quote(part, safe="") for part in view.split(".")) for view in views)
