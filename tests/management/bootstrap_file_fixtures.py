"""Files for `manage.py bootstrap --file`, and runs of it in the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

DEFAULT = "00000000-0000-0000-0000-000000000000"
NOTHING = "Everything is as declared.\n"
CANARY = "canary-7f3a"


@pytest.fixture
def declared(tmp_path: Path, storage_root: Path) -> Callable[[Any], str]:
    """Write a declaration and return its path."""

    def write(content: Any) -> str:
        path = tmp_path / "catalog.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(json.loads(json.dumps(content))))
        return str(path)

    return write


@pytest.fixture
def full(storage_root: Path) -> dict[str, Any]:
    return {
        "administrators": [
            {"user-id": "oidc~alice", "user-name": "Alice", "user-email": "alice@example.com"},
            {"user-id": "oidc~robot", "user-type": "application", "is-operator": True},
        ],
        "projects": [
            {"project-id": DEFAULT, "project-name": "Analytics"},
            {"project-id": "lab", "project-name": "Laboratory"},
        ],
        "warehouses": [
            {
                "warehouse-name": "sales",
                "storage-profile": {"type": "local", "path": str(storage_root / "sales")},
                "delete-profile": {"type": "soft", "expiration-seconds": 604800},
                "allowed-format-versions": [3, 2],
                "default-format-version": 2,
                "protected": True,
                "managed-by": "instance-admin",
            },
            {
                "warehouse-name": "Sandbox",
                "project-id": "lab",
                "storage-profile": {"type": "local", "path": f"{storage_root}/sandbox/"},
            },
        ],
    }


def run(location: str, *options: str) -> str:
    out = StringIO()
    call_command("bootstrap", "--file", location, *options, stdout=out)
    return out.getvalue()


def refused(location: str, *options: str) -> str:
    """Return the error on stderr of a run that changed nothing."""
    with pytest.raises(CommandError) as error:
        run(location, *options)
    assert error.value.returncode == 1
    return str(error.value)


def entry(kind: str, **members: Any) -> dict[str, Any]:
    good: dict[str, dict[str, Any]] = {
        "administrators": {"user-id": "oidc~a"},
        "projects": {"project-id": "p", "project-name": "P"},
        "warehouses": {"warehouse-name": "w", "storage-profile": {"type": "local", "path": "/x"}},
    }
    return {kind: [good[kind] | {name.replace("_", "-"): value for name, value in members.items()}]}
