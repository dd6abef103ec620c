"""The rows that refer to secrets: a secret of none of them is orphaned."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import Q


class SecretOwner(NamedTuple):
    """A row with a secret. `type` is the name of its model, such as `warehouse` or `event sink`."""

    type: str
    id: UUID
    name: str
    secret_id: UUID


def list_owners(secret_ids: Collection[UUID] | None = None) -> Iterator[SecretOwner]:
    """Yield the rows that have secrets, or one of `secret_ids`, by type and id."""
    for model in _owner_models():
        rows = _with_secrets(model)
        if secret_ids is not None:
            rows = rows.filter(secret_id__in=secret_ids)
        kind = str(model._meta.verbose_name)  # noqa: SLF001
        for pk, name, secret_id in rows.order_by("pk").values_list("pk", "name", "secret_id"):
            yield SecretOwner(kind, pk, name, secret_id)


def newest_secrets(limit: int) -> list[UUID]:
    """Return up to `limit` secrets of the newest rows of each type."""
    found: list[UUID] = []
    for model in _owner_models():
        found += _with_secrets(model).order_by("-pk").values_list("secret_id", flat=True)[:limit]
    return found


def is_in_use(secrets_column: str) -> Q:
    """Return the condition that the column has the id of a secret that a row refers to."""
    used = Q()
    for model in _owner_models():
        used |= Q(**{f"{secrets_column}__in": _with_secrets(model).values("secret_id")})
    return used


def is_owned(secret_id: UUID) -> bool:
    return any(True for _ in list_owners([secret_id]))


def _with_secrets(model: type[models.Model]) -> models.QuerySet[Any]:
    rows: models.QuerySet[Any] = model._default_manager.filter(secret_id__isnull=False)  # noqa: SLF001
    return rows


def _owner_models() -> list[type[models.Model]]:
    """Return the models of `SECRET_OWNERS`, each with the columns `name` and `secret_id`."""
    found: list[Any] = [apps.get_model(label) for label in settings.SECRET_OWNERS]
    return found
