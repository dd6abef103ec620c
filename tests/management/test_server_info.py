"""GET /management/v1/info: every member that Lakekeeper's clients know, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import settings
from pydantic import SecretStr

from icekeeper.version import LAKEKEEPER_VERSION, find_commit
from tenancy.models import Server
from tests.harness.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db

api = ApiClient("/management/v1")
SHA = "0123456789abcdef0123456789abcdef01234567"


def test_all_members_of_the_response() -> None:
    info = api.get("/info").json()
    assert info == {
        "version": LAKEKEEPER_VERSION,
        "lakekeeper-version": LAKEKEEPER_VERSION,
        "lakekeeper-commit-sha": None,
        "lakekeeper-enterprise-version": None,
        "lakekeeper-enterprise-commit-sha": None,
        "bootstrapped": False,
        "server-id": str(Server.objects.get().server_id),
        "default-project-id": "00000000-0000-0000-0000-000000000000",
        "authz-backend": "allow-all",
        "aws-system-identities-enabled": False,
        "azure-system-identities-enabled": False,
        "gcp-system-identities-enabled": False,
        "queues": ["soft_deletion", "tabular_purge"],
        "license-status": {
            "license-type": "Apache-2.0",
            "valid": True,
            "customer": None,
            "issuer": None,
            "audience": None,
            "expiration": None,
            "license-id": None,
            "error": None,
        },
        "console": None,
    }
    assert api.post("/bootstrap", {"accept-terms-of-use": True}).status == 204
    assert api.get("/info").json() == info | {"bootstrapped": True}


def test_without_a_default_project(monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings.ICEKEEPER.model_copy(update={"enable_default_project": False})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    assert api.get("/info").json()["default-project-id"] is None


def test_no_secret_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"secret_key": SecretStr("canary"), "pg_password": SecretStr("canary")}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=secrets))
    monkeypatch.setattr(settings, "SECRET_KEY", "canary")
    text = json.dumps(api.get("/info").json())
    assert "canary" not in text
    assert str(settings.ICEKEEPER.data_dir) not in text


@pytest.mark.parametrize("method", ["post", "delete"])
def test_it_is_read_only(method: str) -> None:
    assert getattr(api, method)("/info").refused(405, "MethodNotAllowedException")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"COMMIT": f"{SHA}\n"}, SHA),
        ({"COMMIT": "not one"}, None),
        ({".git/HEAD": f"{SHA}\n"}, SHA),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": f"{SHA}\n"}, SHA),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": f"# pack\n{SHA} refs/heads/main\n"}, SHA),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": f"{SHA} refs/heads/other\n"}, None),
        ({"COMMIT": f"{SHA}\n", ".git/HEAD": "f" * 40}, SHA),
        ({".git": "gitdir: elsewhere"}, None),
    ],
)
def test_the_commit_is_found_where_a_build_or_a_checkout_has_it(
    tmp_path: Path, files: dict[str, str], found: str | None
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert find_commit(tmp_path) == found
