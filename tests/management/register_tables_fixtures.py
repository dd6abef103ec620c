"""Lists for `manage.py register_tables`, and runs of it in the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalog.models import LocationClaim, Namespace, Snapshot, Tabular, TabularMetadata
from storage.models import Warehouse
from tenancy.models import Securable
from tests.harness.wsgi_client import ApiClient

CreateTable = Callable[..., dict[str, Any]]


@dataclass
class Done:
    """Output, error output and error of a run."""

    out: str
    err: str
    failure: str | None = None
    report: list[dict[str, Any]] = field(default_factory=list)

    def counts(self, sort: str) -> str:
        return next(line for line in self.out.splitlines() if line.startswith(f"{sort}: ")).removeprefix(f"{sort}: ")


@pytest.fixture
def register(warehouse: Warehouse, tmp_path: Path) -> Callable[..., Done]:
    def run(listed: Path, *options: str) -> Done:
        out, err, report = StringIO(), StringIO(), tmp_path / "report.jsonl"
        words = ["wh", "--list", str(listed), "--report", str(report), *options]
        failure = None
        try:
            call_command("register_tables", *words, stdout=out, stderr=err)
        except CommandError as error:
            failure = str(error)
        lines = report.read_text().splitlines() if report.exists() else []
        return Done(out.getvalue(), err.getvalue(), failure, [json.loads(line) for line in lines])

    return run


@pytest.fixture
def orphans(catalog: ApiClient, create_table: CreateTable) -> Callable[[int], list[dict[str, Any]]]:
    """Entries of tables that were removed from the catalog with their namespace, but whose files exist."""

    def create(count: int) -> list[dict[str, Any]]:
        entries = []
        for number in range(count):
            created = create_table(f"t{number}")
            assert catalog.delete(f"/namespaces/ns/tables/t{number}").status == 204
            entries.append(entry(f"t{number}", created["metadata-location"]))
        assert catalog.delete("/namespaces/ns").status == 204
        return entries

    return create


def entry(name: str, location: str, *levels: str) -> dict[str, Any]:
    return {"namespace": list(levels or ("sales", "eu")), "name": name, "metadata-location": location}


@pytest.fixture
def listed(tmp_path: Path) -> Callable[..., Path]:
    def write(*entries: Any) -> Path:
        path = tmp_path / "list.jsonl"
        lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in entries]
        path.write_bytes(b"\n".join(lines))
        return path

    return write


def rows() -> dict[str, Any]:
    """Every row that a registration may change."""
    models = (Namespace, Tabular, TabularMetadata, Snapshot, Securable, LocationClaim)
    return {model.__name__: sorted(map(str, model.objects.values_list())) for model in models}


def tables(catalog: ApiClient, namespace: str = "sales%1Feu") -> list[str]:
    return [found["name"] for found in catalog.get(f"/namespaces/{namespace}/tables").json()["identifiers"]]
