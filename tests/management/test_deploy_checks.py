"""`manage.py check --deploy` warns of unsafe production settings, and of nothing irrelevant to this server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from icekeeper.checks import check_deployment
from icekeeper.conf.database import databases
from icekeeper.conf.environment import read_settings
from tests.storage.test_secrets import VAULT

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "LAKEKEEPER__TRUSTED_ENGINES__TRINO__IDENTITIES__OIDC__"
PROVIDER = {"LAKEKEEPER__OPENID_PROVIDER_URI": "https://idp.example.com", "LAKEKEEPER__OPENID_AUDIENCE": "lake"}
BACKEND = "LAKEKEEPER__AUTHZ_BACKEND"
OPENFGA = {BACKEND: "openfga", "LAKEKEEPER__OPENFGA__ENDPOINT": "https://openfga.example.com:8080"}
POSTGRES = "LAKEKEEPER__PG_DATABASE_URL_WRITE"
SAFE = {
    "LAKEKEEPER__PG_ENCRYPTION_KEY": "another-0123456789-0123456789-0123456789",
    POSTGRES: "postgresql://u:canary@db.example.com/d?sslmode=verify-full",
    "LAKEKEEPER__BASE_URI": "https://catalog.example.com",
    BACKEND: "builtin",
    "ICEKEEPER__SECRET_KEY": "canary-0123456789-0123456789-0123456789",
}


def found(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> list[str]:
    own, _ = read_settings(variables)
    with monkeypatch.context() as patched:
        patched.setattr(settings, "ICEKEEPER", own)
        patched.setattr(settings, "DATABASES", databases(own))
        messages = check_deployment()
    assert all(message.hint for message in messages), "each has a hint"
    assert "canary" not in str(messages)
    return [str(message.id) for message in messages]


def test_a_production_has_nothing_to_complain_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, SAFE) == []


def test_a_laptop_gets_the_production_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, {}) == ["icekeeper.W014", "icekeeper.W002", "icekeeper.W006", "icekeeper.W003"]


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        ({"ICEKEEPER__SECRET_KEY": None}, []),
        (
            {"ICEKEEPER__SECRET_KEY": None, "LAKEKEEPER__PG_ENCRYPTION_KEY": None},
            ["icekeeper.W001", "icekeeper.W010"],
        ),
        ({"LAKEKEEPER__PG_ENCRYPTION_KEY": None}, ["icekeeper.W010"]),
        ({"LAKEKEEPER__PG_ENCRYPTION_KEY": "short"}, ["icekeeper.W011"]),
        ({"LAKEKEEPER__PG_ENCRYPTION_KEY": "a" * 40}, ["icekeeper.W011"]),
        (VAULT, []),
        (VAULT | {"LAKEKEEPER__PG_ENCRYPTION_KEY": None}, []),
        (VAULT | {"LAKEKEEPER__KV2__URL": "http://vault.example.com"}, ["icekeeper.W012"]),
        (VAULT | {"LAKEKEEPER__KV2__URL": "http://127.0.0.1:8200"}, []),
        (VAULT | {"LAKEKEEPER__SECRET_BACKEND": "postgres"}, ["icekeeper.W013"]),
        ({"ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS": "true"}, ["icekeeper.W014"]),
        ({BACKEND: "allowall"}, ["icekeeper.W014"]),
        ({"LAKEKEEPER__OPENFGA__ENDPOINT": "http://openfga.example.com:8080"}, ["icekeeper.W016"]),
        ({"LAKEKEEPER__OPENFGA__ENDPOINT": "https://openfga.example.com:8080"}, []),
        (OPENFGA | {"LAKEKEEPER__ROLE__MAX_NESTING_DEPTH": "10"}, []),
        (OPENFGA | {"LAKEKEEPER__ROLE__MAX_NESTING_DEPTH": "11"}, ["icekeeper.W017"]),
        (OPENFGA | {"LAKEKEEPER__ROLE__MAX_NESTING_DEPTH": "11", BACKEND: "builtin"}, []),
        (PROVIDER | {f"{ENGINE}AUDIENCES": "lake,trino"}, ["icekeeper.W015"]),
        (PROVIDER | {f"{ENGINE}AUDIENCES": "trino"}, []),
        (PROVIDER | {f"{ENGINE}AUDIENCES": "lake", "LAKEKEEPER__OPENID_AUDIENCE": "lake,humans"}, []),
        (PROVIDER | {f"{ENGINE}SUBJECTS": "trino"}, []),
        ({"LAKEKEEPER__BASE_URI": None}, ["icekeeper.W002", "icekeeper.W006"]),
        ({"LAKEKEEPER__BASE_URI": None, "LAKEKEEPER__USE_X_FORWARDED_HEADERS": "false"}, ["icekeeper.W002"]),
        ({"LAKEKEEPER__ALLOW_ORIGIN": "https://a.example.com,*"}, ["icekeeper.W004"]),
        ({"LAKEKEEPER__ALLOW_ORIGIN": "https://a.example.com"}, []),
        ({POSTGRES: "postgresql://u@db.example.com/d"}, ["icekeeper.W005"]),
        ({POSTGRES: "postgresql://u@db.example.com/d?sslmode=prefer"}, ["icekeeper.W005"]),
        ({POSTGRES: "postgresql://u@db.example.com/d", "LAKEKEEPER__PG_SSL_MODE": "require"}, []),
        ({POSTGRES: "postgresql://u@127.0.0.1/d"}, []),
        ({POSTGRES: "postgresql:///d?host=/var/run/postgresql"}, []),
    ],
)
def test_each_check(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], ids: list[str]) -> None:
    variables = {name: value for name, value in (SAFE | change).items() if value is not None}
    assert found(monkeypatch, variables) == ids


def test_the_command_reports_relevant_checks_only(tmp_path: Path) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "ICEKEEPER__DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "icekeeper.settings",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    said = done.stdout + done.stderr
    assert re.findall(r"\((icekeeper\.E\d+)\)", said) == ["icekeeper.E007"], "authentication is off"
    assert "icekeeper.W003" in said
    assert "security." not in said
    assert "drf_spectacular." not in said
