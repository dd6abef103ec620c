"""The catalog that generated requests are sent to: created once for a module, because every test restores it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import transaction
from pytest_django import DjangoDbBlocker

from events.selectors import feed_waits
from events.selectors.publication_watch import publication_watch
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authn import providers, requests
from tenancy.authn.own_tokens import oauth
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tenancy.selectors.projects import get_project
from tenancy.services.server import bootstrap
from tests.fuzz.object_id_fixtures import CALLER
from tests.fuzz.response_fixtures import ResponseChecker
from tests.fuzz.target_fixtures import World, create_world
from tests.harness.named_callers import CallerClient, NamedCallers


@pytest.fixture(scope="module")
def world(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    root = tmp_path_factory.mktemp("fuzz").resolve()
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), transaction.atomic():
        patch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": root}))
        # Thousands of its lines would hide the failure.
        patch.setattr(logging.getLogger("icekeeper.access"), "disabled", True)
        bootstrap(actor=INTERNAL, accept_terms_of_use=True)
        profile = {"type": "local", "path": str(root / "wh")}
        warehouse = create_warehouse(actor=INTERNAL, project=get_project(None), name="wh", storage_profile=profile)
        callers = NamedCallers()
        callers.user(CALLER)
        for module in (providers, requests, oauth):
            patch.setattr(module, "authenticators", lambda: (callers, AccessTokenAuthenticator()))
        assert CallerClient("/management/v1", CALLER).post("/user", {}).status == 201
        yield create_world(lambda base: CallerClient(base, CALLER), warehouse, root)
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def nothing_waits_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are none to wait for: requests do not write while another one waits."""
    monkeypatch.setattr(publication_watch, "wait", lambda *_, **__: False)
    monkeypatch.setattr(feed_waits, "MAX_STREAM_SECONDS", 0.0)


@pytest.fixture
def checker(world: World) -> ResponseChecker:
    return ResponseChecker(world)
