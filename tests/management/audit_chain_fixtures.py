"""Audit records: write them, age them, and set their retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.clock import now
from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord
from tests.harness.recorded_changes import record
from tests.management.warehouse_request_fixtures import use_settings

DAY = 86_400
BOB = Actor(user_id="oidc~bob")


def report(subject: object = "x") -> None:
    record(Change.ROLE_CREATED, actor=BOB, subject=subject, named="Zoë ☃ \x00 \u2028")


def age(days: float, **which: Any) -> None:
    """Age rows that are not sealed yet."""
    AuditRecord.objects.filter(position=None, **which).update(at=now() - timedelta(days=days))


def keep(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    use_settings(monkeypatch, audit=settings.ICEKEEPER.audit.model_copy(update={"retention": days * DAY}))
