"""A kill at any step leaves a change with its audit record or neither, and a chain that is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records, verify_chain
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, Project
from tests.faults import kill_fixtures
from tests.faults.kill_fixtures import kill_at_step_after_step, no_pool
from tests.harness.recorded_changes import record
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(600)]

__all__ = ["no_pool"]

ROOT = Path(__file__).resolve().parents[2]
TRACED = (
    "tenancy/audit",
    "tenancy/services/projects.py",
    "management/api/projects",
    "icekeeper/kernel/db/transactions.py",
)
api = ApiClient("/management/v1")


@pytest.fixture(autouse=True)
def projects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_fixtures, "TRACED", tuple(str(ROOT / path) for path in TRACED))


def test_a_change_and_its_record(bootstrapped: None) -> None:
    def act(step: int) -> Callable[[], Any]:
        return lambda: api.post("/project", {"project-name": f"p{step}", "project-id": f"p{step}"})

    def check(step: int) -> bool:
        is_there = Project.objects.filter(pk=f"p{step}").exists()
        assert AuditRecord.objects.filter(event="project.created", object_id=f"p{step}").count() == is_there
        return is_there

    kill_at_step_after_step(act, check, old=6)


def test_sealing(bootstrapped: None) -> None:
    first = [2 + AuditRecord.objects.count()]

    def act(step: int) -> Callable[[], Any]:
        for number in range(2):
            record(Change.ROLE_CREATED, actor=INTERNAL, subject=f"{step}-{number}")

        def seal() -> Any:
            seal_records(actor=INTERNAL)
            return api.get("/project")

        return seal

    def check(_: int) -> bool:
        found = verify_chain()
        assert found.unsealed in {0, 2, *first}
        first.clear()
        assert found.count + found.unsealed == AuditRecord.objects.count()
        is_new = not found.unsealed
        seal_records(actor=INTERNAL)
        assert verify_chain().unsealed == 0
        return is_new

    kill_at_step_after_step(act, check, old=6)
