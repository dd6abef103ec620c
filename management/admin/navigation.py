"""The shell around every page: sidebar, breadcrumb, user menu and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from catalog.selectors.browse import PathStep
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.version import VERSION
from tenancy.actor import Actor
from tenancy.authn.providers import authenticators
from tenancy.selectors.console_sections import GUARDED, OpenSections, find_open_sections

Text = str | Promise


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the sidebar. `section` is that of the pages on which it is marked as current."""

    section: str
    title: Text
    icon: str
    view: str
    url: str = ""
    is_current: bool = False
    key: str = ""
    """The letter that opens it after `g`."""


@dataclass(frozen=True, slots=True)
class Group:
    title: Text
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Crumb:
    """A step of the breadcrumb; without `url` it is the page itself."""

    title: Text
    url: str = ""


GROUPS: Final = (
    Group(
        "",
        (
            Entry("overview", _("Overview"), "overview", "admin:index", key="o"),
            Entry("catalog", _("Catalog"), "catalog", "admin:catalog", key="c"),
            Entry("sql", _("SQL"), "sql", "admin:sql"),
            Entry("deleted", _("Deleted objects"), "deleted", "admin:deleted", key="d"),
        ),
    ),
    Group(
        _("Access"),
        (
            Entry("roles", _("Roles"), "roles", "admin:roles"),
            Entry("users", _("Users"), "user", "admin:users"),
            Entry("service-accounts", _("Service accounts"), "service", "admin:service-accounts"),
            Entry("tags", _("Tags"), "tag", "admin:tags"),
            Entry("grants", _("Grants"), "key", "admin:grants", key="a"),
            Entry("access-review", _("Access review"), "review", "admin:access-review"),
        ),
    ),
    Group(
        _("Operations"),
        (
            Entry("warehouses", _("Warehouses"), "warehouse", "admin:warehouses"),
            Entry("tasks", _("Tasks"), "tasks", "admin:tasks", key="t"),
            Entry("statistics", _("Statistics"), "statistics", "admin:statistics"),
            Entry("change-rules", _("Change rules"), "rule", "admin:change-rules"),
            Entry("audit", _("Audit"), "audit", "admin:audit"),
            Entry("events", _("Events"), "branch", "admin:events"),
            Entry("event-sinks", _("Event sinks"), "cloud", "admin:event-sinks"),
        ),
    ),
    Group(
        _("Server"),
        (
            Entry("server", _("Settings"), "settings", "admin:server"),
            Entry("identity-providers", _("Identity providers"), "provider", "admin:identity-providers"),
        ),
    ),
)


def navigation(actor: Actor, section: str) -> list[Group]:
    """Return the entries that `actor` may open. Statements of `find_open_sections`; it raises none of its errors."""
    try:
        sections = find_open_sections(actor=actor)
    except (CatalogError, DatabaseError):  # also the page of this error has a sidebar
        sections = OpenSections(GUARDED, frozenset())
    hidden = set() if settings.ICEKEEPER.console.sql.enabled else {"sql"}
    groups = [
        Group(
            group.title,
            tuple(
                replace(entry, url=reverse(entry.view), is_current=entry.section == section)
                for entry in group.entries
                if sections.shows(entry.section) and entry.section not in hidden
            ),
        )
        for group in GROUPS
    ]
    return [group for group in groups if group.entries]


def shell_context(request: HttpRequest, *, section: str = "") -> dict[str, Any]:
    """Return what the templates of the shell show. Only a template with the sidebar runs statements for it."""
    shown = cache(partial(navigation, request.actor, section))  # type: ignore[attr-defined]  # of the middleware
    return {
        "navigation": shown,
        "shortcuts": partial(list_shortcuts, shown) if has_shortcuts(request) else None,
        "is_authentication_off": not authenticators(),
        "version": VERSION,
        "environment_name": settings.ICEKEEPER.console.environment,
        "user_initial": _initial(request),
        # A script that sent a form follows the redirect and opens the page again, where the messages belong.
        "is_fetched": request.headers.get("X-Requested-With") == "fetch",
    }


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A letter that opens a page of the sidebar after `g`."""

    key: str
    title: Text
    url: str


def list_shortcuts(groups: Callable[[], list[Group]]) -> list[Shortcut]:
    return [Shortcut(entry.key, entry.title, entry.url) for group in groups() for entry in group.entries if entry.key]


def has_shortcuts(request: HttpRequest) -> bool:
    """Return whether single keys are shortcuts in this browser; the profile switches them off."""
    return request.COOKIES.get(SHORTCUTS_COOKIE) != "off"


def _initial(request: HttpRequest) -> str:
    return str(request.user)[:1].upper()


SHORTCUTS_COOKIE: Final = "icekeeper_shortcuts"
"""`off` without shortcuts of single keys. A cookie, as it belongs to one browser and is no secret."""

VIEW_OF_KIND: Final = {
    "table": "admin:table",
    "view": "admin:view",
    "generic-table": "admin:generic-table",
    "namespace": "admin:namespace",
}


def object_url(kind: str, object_id: object, warehouse_id: object) -> str:
    """Return the address of the page of an object in a warehouse, by the id that clients see."""
    if kind == "warehouse":
        return reverse("admin:warehouse", args=[object_id])
    return reverse(VIEW_OF_KIND[kind], args=[warehouse_id, object_id])


def crumbs(path: Iterable[PathStep], *last: Text) -> list[Crumb]:
    """Return the breadcrumb of an object: the objects above it, and the page itself."""
    steps = list(path)
    warehouse_id = next((step.id for step in steps if step.kind == "warehouse"), None)
    return [*(Crumb(step.name, _step_url(step, warehouse_id)) for step in steps), *(Crumb(title) for title in last)]


def _step_url(step: PathStep, warehouse_id: str | None) -> str:
    if step.kind == "project":
        return reverse("admin:project", args=[step.id])
    return object_url(step.kind, step.id, warehouse_id)
