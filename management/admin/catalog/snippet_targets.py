"""What the code to copy is about, at the address where the browser sees the server."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from catalog.identifiers import Levels
from icekeeper.kernel.http.base_url import base_url
from management.admin.catalog.snippets import STORAGE_BY_PROFILE_TYPE, SnippetTarget
from storage.models import Warehouse
from tenancy.authn.providers import authenticators


def snippet_target(
    request: HttpRequest, warehouse: Warehouse, levels: Levels, name: str, **members: Any
) -> SnippetTarget:
    """Return the target for an object of a warehouse; `members` are further ones of `SnippetTarget`."""
    profile = warehouse.storage_profile
    default_project = settings.ICEKEEPER.default_project_id if settings.ICEKEEPER.enable_default_project else None
    return SnippetTarget(
        base_url=base_url(request.META, settings.ICEKEEPER),
        warehouse=warehouse.name,
        levels=levels,
        name=name,
        project_id=None if warehouse.project_id == default_project else warehouse.project_id,
        has_authentication=bool(authenticators()),
        storage=STORAGE_BY_PROFILE_TYPE[profile["type"]],
        region=profile.get("region"),
        endpoint=profile.get("endpoint"),
        is_path_style=bool(profile.get("path-style-access")),
        **members,
    )
