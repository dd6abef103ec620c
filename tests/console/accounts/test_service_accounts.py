"""Service accounts: list, page, tokens that are shown once, and deletion."""

from __future__ import annotations

import json
import logging
import re
from uuid import uuid4

import pytest
from django.apps import apps

from management.models import ConsoleSession
from management.sign_in.session_store import SessionStore
from tenancy.models import AccessToken, ServiceAccount, User
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.console.accounts.test_profile import TOKEN, token_in
from tests.console.sign_in.browser import Browser
from tests.harness.wsgi_client import call

pytestmark = pytest.mark.django_db

LIST = "/ui/service-account/"
NEW_TOKEN = {"action": "create-token", "name": "nightly", "scopes": "catalog", "days": "90"}


def create(root: Browser, name: str = HOSTILE) -> str:
    """Create a service account and return the address of its page."""
    created = root.post(LIST, {"action": "create", "name": name, "description": HOSTILE})
    assert created.status == 302, created.text
    return created.location


def test_only_administrators_of_the_server(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    address = create(root)
    create_it = {"action": "create", "name": "mine"}
    for kind in (Kind.LEAD, Kind.ENGINEER, Kind.GUEST):
        browser = sign_in(kind)
        assert [browser.get(each).status for each in (LIST, address, f"{address}delete/")] == [403] * 3
        assert browser.post(LIST, create_it).status == 403
        assert browser.post(address, NEW_TOKEN).status == 403
        assert browser.post(f"{address}delete/", {"action": "delete"}).status == 403
        assert f'href="{LIST}"' not in browser.get("/ui/").text
    assert f'href="{LIST}"' in root.get("/ui/").text
    assert (ServiceAccount.objects.count(), AccessToken.objects.count()) == (1, 0)


def test_create_and_show(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    address = create(root)
    assert is_escaped(root.get(address))
    assert is_escaped(root.get(LIST))
    again = root.post(LIST, {"action": "create", "name": HOSTILE.upper(), "description": "kept & shown"})
    assert (again.status, "already exists" in again.text, "kept &amp; shown" in again.text) == (409, True, True)
    assert root.get(f"{LIST}{uuid4()}/").status == 404
    account = ServiceAccount.objects.get()
    page = root.get(f"/ui/user/{account.user_id}/")
    assert ("Rename" in page.text, "Delete user" in page.text) == (False, False)
    assert f'href="{address}"' in page.text


def test_a_secret_is_shown_once_and_found_nowhere_else(sign_in: SignIn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    root = sign_in(Kind.ROOT)
    address = create(root)
    page = root.post(address, NEW_TOKEN)
    assert (page.status, page.header("Cache-Control")) == (201, "private, no-store")
    token = token_in(page)
    assert call("GET", "/catalog/v1/config", headers={"authorization": f"Bearer {token}"}).status != 401
    (row,) = AccessToken.objects.all()
    rotated = root.post(address, {"action": "rotate-token", "token_id": str(row.pk)})
    secrets = [each.rpartition("_")[2] for each in (token, token_in(rotated))]
    later = root.get(address)
    assert TOKEN.findall(later.text) == []
    stored = [repr(each) for model in apps.get_models() for each in model._default_manager.values_list()]
    stored += [repr(SessionStore().decode(each.session_data)) for each in ConsoleSession.objects.all()]
    logged = [json.dumps(each.__dict__, default=str) for each in caplog.records]
    assert [text[:200] for text in [*stored, *logged] for secret in secrets if secret in text] == []


def test_revoke_and_delete(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    address = create(root)
    for _ in range(2):
        root.post(address, NEW_TOKEN)
    first, second = AccessToken.objects.order_by("pk")
    assert root.post(f"/ui/token/{first.pk}/revoke/", {"action": "delete"}).location == address
    assert len(re.findall("/ui/token/.*?/revoke/", root.get(address).text)) == 1
    page = root.get(f"{address}delete/")
    assert is_escaped(page)
    assert ServiceAccount.objects.count() == 1
    assert root.post(f"{address}delete/", {"action": "delete"}).location == LIST
    second.refresh_from_db()
    assert second.revoked_at is not None
    assert User.objects.get(pk=first.user_id).deleted_at is not None
    assert root.get(address).status == 404
