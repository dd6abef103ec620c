"""The rows that migrations have written, for tests that empty the tables: Django saves them one by one."""

from __future__ import annotations

from django.core import serializers
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model


def insert_first_rows(connection: BaseDatabaseWrapper, data: str) -> None:
    """Insert the serialized rows, with one statement for each model; foreign keys are checked at the end.

    Django has created some of them again, such as content types, when it emptied the tables.
    """
    by_model: dict[type[Model], list[Model]] = {}
    for each in serializers.deserialize("json", data, using=connection.alias):
        assert not each.m2m_data, "rows between models that Django creates itself"
        by_model.setdefault(type(each.object), []).append(each.object)
    with transaction.atomic(using=connection.alias):
        for model, rows in by_model.items():
            key = model._meta.pk
            model._base_manager.using(connection.alias).bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=[key.name],
                update_fields=[each.name for each in model._meta.concrete_fields if each is not key],
            )
