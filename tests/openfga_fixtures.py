"""Fixtures of tests with a real OpenFGA as authorizer, each with its own store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from icekeeper.conf.external_services import OpenFgaSettings
from icekeeper.kernel.ids import new_id
from tenancy.authz import port
from tenancy.authz.openfga import store as stores
from tenancy.authz.openfga.backend import OpenFgaAuthorizer
from tenancy.authz.openfga.store import PAGE_SIZE, OpenFgaStore, install, openfga_store
from tenancy.authz.openfga.tuples import desired_tuples_on, end_of
from tenancy.models import Securable, UndeliveredTuple
from tests.parts.openfga import OpenFga


@pytest.fixture
def by_openfga(openfga: OpenFga, monkeypatch: pytest.MonkeyPatch, storage_root: object) -> Iterator[OpenFgaAuthorizer]:
    """Authorization by OpenFGA, with a store of this test that has the model and no tuples."""
    choose_openfga(monkeypatch, endpoint=openfga.url, store_name=f"test-{new_id()}")
    install(openfga_store())
    chosen = port.authorizer()
    assert isinstance(chosen, OpenFgaAuthorizer)
    yield chosen
    port.authorizer.cache_clear()
    stores._openfga_store.cache_clear()


def choose_openfga(monkeypatch: pytest.MonkeyPatch, **chosen: Any) -> None:
    """Switch to authorization by OpenFGA with these settings."""
    given = settings.ICEKEEPER.openfga.model_dump() | chosen
    changed = {"authz_backend": "openfga", "openfga": OpenFgaSettings(**given)}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))
    stores._openfga_store.cache_clear()
    port.authorizer.cache_clear()


def deliver_as_recorded(store: OpenFgaStore) -> None:
    """Write the tuples of all rows, with their expirations, to the store, delete all others, and empty the
    outbox.

    For tests whose transaction is never committed.
    """
    ids = list(Securable.objects.values_list("pk", flat=True))
    wanted = desired_tuples_on(ids)
    there = dict(all_tuples(store))
    ends = {key: end_of(condition) for key, condition in wanted.items()}
    stale = [key for key, end in there.items() if key not in wanted or ends[key] != end]
    for first in range(0, len(stale), PAGE_SIZE):
        store.write({}, stale[first : first + PAGE_SIZE])
    missing = [key for key in wanted if key not in there or ends[key] != there[key]]
    for first in range(0, len(missing), PAGE_SIZE):
        store.write({key: wanted[key] for key in missing[first : first + PAGE_SIZE]}, [])
    UndeliveredTuple.objects.all().delete()


def all_tuples(store: OpenFgaStore) -> list[tuple[Any, str | None]]:
    """Return all tuples with their expirations."""
    found, after = [], ""
    while True:
        page, after = store.read(after=after)
        found += [(each.key, each.expires_at) for each in page]
        if not after:
            return found
