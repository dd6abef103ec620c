"""Grants of an earlier version: where they lie is read from what they are on, by a migration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.db import IntegrityError, connection, migrations, transaction

from tenancy.models import Grant, Securable, User
from tests.tree_invariants import check_trees
from tests.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db
migration: Any = import_module("tenancy.migrations.0011_grant_paths")


@pytest.fixture
def granted(bootstrapped: None, catalog: ApiClient) -> None:
    assert catalog.post("/namespaces", {"namespace": ["a"]}).status == 200
    User.objects.create(id="oidc~ann", name="Ann")
    for own_id in Securable.objects.filter(type__in=["server", "namespace"]).values_list("pk", flat=True):
        Grant.objects.create(securable_id=own_id, user_id="oidc~ann", privilege="ownership")


def test_grants_know_where_they_lie_after_the_upgrade(granted: None) -> None:
    assert Grant.objects.update(path="unknown") == 2
    (fill,) = (each for each in migration.Migration.operations if isinstance(each, migrations.RunSQL))
    with connection.cursor() as cursor:
        cursor.execute(fill.sql)
    check_trees()


def test_no_grant_lies_nowhere(granted: None) -> None:
    with pytest.raises(IntegrityError, match="grant_has_a_place"), transaction.atomic():
        Grant.objects.update(path="")
