"""The addresses of all pages of the console, filled with the objects of `ConsoleServer`."""

from __future__ import annotations

from collections.abc import Mapping

TABS = {
    "warehouse/{warehouse}": ("", "storage/", "rules/", "access/"),
    "warehouse/{warehouse}/namespace/{sales}": ("", "properties/", "access/"),
    "warehouse/{warehouse}/table/{table}": (
        "", "schema/", "snapshots/", "usage/", "access/", "properties/", "metadata/",
    ),
    "warehouse/{warehouse}/table/{hostile table}": ("", "schema/"),
    "warehouse/{warehouse}/view/{view}": ("", "schema/", "versions/", "properties/", "metadata/"),
    "warehouse/{warehouse}/generic-table/{generic table}": ("", "properties/"),
}  # fmt: skip
OTHERS = (
    "",
    "project/{project}/",
    "catalog/",
    "deleted/",
    "task/",
    "audit/",
    "warehouse/",
    "search/?q=lines",
    "warehouse/add/",
    "project/{project}/access/",
    "server/access/",
    "profile/",
    "role/",
    "user/",
    "user/local~engineer/",
    "service-account/",
    "server/",
    "access/",
    "access/review/",
    "tag/",
    "project/add/",
    "project/{project}/settings/",
    "warehouse/{warehouse}/task/{task}/",
    "warehouse/{warehouse}/namespace/{orders}/",
)


def all_addresses(ids: Mapping[str, str]) -> list[str]:
    paths = [*OTHERS, *(f"{base}/{tab}" for base, tabs in TABS.items() for tab in tabs)]
    return [f"/ui/{path.format_map(ids)}" for path in paths]
