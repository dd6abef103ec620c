"""The page of the server and its support bundle: for administrators of the server only, and without any secret."""

from __future__ import annotations

import json
from html import unescape
from typing import Any, get_args

import pytest
from django.conf import settings
from pydantic import BaseModel, SecretStr

from icekeeper.conf.listing import MASK, show_settings
from icekeeper.version import VERSION
from tasks.models import PeriodicJob
from tasks.runtime.status import worker_job_statuses
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_server
from tests.authz.tree_fixtures import give
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

PAGES = ("/ui/server/", "/ui/server/support-bundle/")
CANARY = "canary-9f8e7d6c5b4a"


def with_canaries(model: Any, counter: list[int]) -> Any:
    """Return a copy of settings with a canary in every secret, and as the password of every URL."""
    changed: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value, annotation = getattr(model, name, None), str(field.annotation)
        groups = [each for each in get_args(field.annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
        if isinstance(value, BaseModel):
            changed[name] = with_canaries(value, counter)
        elif isinstance(value, dict) and groups:
            changed[name] = {"first": with_canaries(groups[0].model_construct(), counter)}
        elif "SecretStr" in annotation:
            counter[0] += 1
            secret = SecretStr(f"{CANARY}-{name}")
            changed[name] = [secret] if annotation.startswith("list") else secret
        elif value is None and field.is_required() and "Url" not in annotation:
            changed[name] = "required"
        elif annotation in {"<class 'str'>", "str | None"} or "Url" in annotation:
            changed[name] = f"https://user:{CANARY}-{name}@example.com/x"
    return model.model_copy(update=changed)


def test_only_administrators_of_the_server(sign_in: SignIn) -> None:
    for kind in (Kind.LEAD, Kind.ENGINEER, Kind.GUEST):
        browser = sign_in(kind)
        assert [browser.get(each).status for each in PAGES] == [403, 403]
        assert 'href="/ui/server/"' not in browser.get("/ui/").text
    root = sign_in(Kind.ROOT)
    assert [root.get(each).status for each in PAGES] == [200, 200]
    assert 'href="/ui/server/"' in root.get("/ui/").text
    give("admin", ObjectRef(Securable.Type.SERVER, get_server().server_id), Actor(user_id=Kind.GUEST))
    assert [sign_in(Kind.GUEST).get(each).status for each in PAGES] == [200, 200]


def test_what_the_page_shows(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    page = root.get("/ui/server/")
    text = unescape(page.text)
    for shown in (
        VERSION,
        str(get_server().server_id),
        "builtin",
        "write_pool",
        "audit-seals",
        "LAKEKEEPER__AUTHZ_BACKEND",
    ):
        assert shown in text, shown
    filtered = root.get("/ui/server/?q=authz_backend").text
    assert ("LAKEKEEPER__AUTHZ_BACKEND" in filtered, "ICEKEEPER__DATA_DIR" in filtered) == (True, False)
    assert "No settings match" in root.get("/ui/server/?q=nothing").text
    assert is_escaped(root.get("/ui/server/?q=%3Cimg%20src=x{{7*7}}"))


def test_the_error_of_a_job_is_its_type(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "last_finished_at": "2026-01-31T12:00:00Z",
        "last_duration": 1.5,
        "last_error": f"ValueError: {CANARY} {HOSTILE}",
    }
    PeriodicJob.objects.update_or_create(name="audit-seals", defaults=row)

    monkeypatch.setattr("management.admin.operations.server_report.list_job_statuses", worker_job_statuses)
    root = sign_in(Kind.ROOT)
    for page in PAGES:
        text = root.get(page).text
        assert ("ValueError" in text, CANARY in text) == (True, False)


def test_neither_page_nor_bundle_has_a_secret(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sign_in(Kind.ROOT)
    counter = [0]
    guarded = with_canaries(settings.ICEKEEPER, counter)
    assert counter[0] >= 15, "all secret settings"
    shown = show_settings(guarded)
    assert sum(each.is_secret for each in shown) == counter[0]
    monkeypatch.setattr("management.admin.operations.server_report.show_settings", lambda _own: show_settings(guarded))
    for page in PAGES:
        text = unescape(root.get(page).text)
        assert CANARY not in text, text[max(0, text.index(CANARY) - 200) : text.index(CANARY) + 60]
        assert text.count(MASK) >= counter[0]


def test_the_bundle(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sign_in(Kind.ROOT)
    use_settings(monkeypatch, console=settings.ICEKEEPER.console.model_copy(update={"environment": HOSTILE}))
    page = root.get(PAGES[1])
    assert page.header("Content-Type") == "application/json"
    assert page.header("Content-Disposition").startswith('attachment; filename="icekeeper-support-')
    assert page.header("Cache-Control") == "private, no-store"
    bundle = json.loads(page.text)
    assert (bundle["version"], bundle["authorization-backend"]) == (VERSION, "builtin")
    assert {each["name"] for each in bundle["health"]} >= {"write_pool"}
    by_name = {each["variable"]: each for each in bundle["settings"]}
    assert by_name["ICEKEEPER__CONSOLE__ENVIRONMENT"]["value"] == HOSTILE
    assert len(bundle["settings"]) == len(show_settings(settings.ICEKEEPER))
