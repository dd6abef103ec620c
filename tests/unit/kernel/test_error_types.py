"""The `type` of every error in responses."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType

import catalog
import icekeeper
import management
import storage
import tasks
import tenancy
from icekeeper.kernel.errors.types import CatalogError
from storage.documents import InvalidMember
from storage.profiles.kinds import TYPES

PACKAGES = (catalog, icekeeper, management, storage, tasks, tenancy)


def load_modules(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not {"wsgi", "celery", "migrations", "server", "spark"} & set(module.name.split(".")):
            importlib.import_module(module.name)


def subclasses(error: type[CatalogError]) -> set[type[CatalogError]]:
    return {error}.union(*(subclasses(each) for each in error.__subclasses__()))


def test_every_error_type_is_a_proper_name() -> None:
    for package in PACKAGES:
        load_modules(package)
    of_members = InvalidMember.wire_types
    named_by_lakekeeper = {
        f"Invalid{field.alias or name}" for profile in TYPES.values() for name, field in profile.model_fields.items()
    }
    types = {error.wire_type for error in subclasses(CatalogError)} | set(of_members.values())
    assert len(types) > 150
    malformed = {kind for kind in types if re.fullmatch("[A-Z][A-Za-z0-9]+", kind) is None}
    malformed |= {kind for kind in types if re.match("Invalid[a-z]", kind)}
    assert malformed <= named_by_lakekeeper
