"""The addresses of all pages of the console, filled with the objects of `ConsoleServer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from django.urls import resolve

TABS = {
    "warehouse/{warehouse}": ("", "overview/", "storage/", "rules/", "access/", "tasks/", "statistics/"),
    "warehouse/{warehouse}/namespace/{sales}": ("", "deleted/", "properties/", "access/", "activity/"),
    "warehouse/{warehouse}/table/{table}": (
        "", "schema/", "snapshots/", "files/", "usage/", "health/", "preview/", "access/", "properties/", "activity/",
        "metadata/",
    ),
    "warehouse/{warehouse}/table/{hostile table}": ("", "schema/"),
    "warehouse/{warehouse}/view/{view}": (
        "", "schema/", "versions/", "versions/?compare=1&version=2", "access/", "properties/", "activity/", "metadata/",
    ),
    "warehouse/{warehouse}/generic-table/{generic table}": ("", "access/", "properties/", "activity/"),
}  # fmt: skip
OTHERS = (
    "",
    "project/{project}/",
    "catalog/",
    "deleted/",
    "task/",
    "task/?project={project}",
    "task/change/?warehouse={warehouse}&action=cancel&task={task}",
    "sql/?warehouse={warehouse}&table={table}",
    "statistics/",
    "statistics/?period=24h&project={project}",
    "audit/",
    "audit/?follow=1&event=grant.created",
    "audit/verify/",
    "event/",
    "event/?follow=1&warehouse={warehouse}&type=updateTable",
    "event/{event}/?warehouse={warehouse}",
    "warehouse/",
    "search/?q=lines",
    "warehouse/add/",
    "project/{project}/access/",
    "server/access/",
    "access/",
    "access/review/",
    "access/review/?project={project}&warehouse={warehouse}",
    "access/object/table:{warehouse}:{table}/explain/?action=read_data",
    "warehouse/{warehouse}/task/{task}/",
    "warehouse/{warehouse}/namespace/{orders}/",
)
ACCOUNTS = (
    "profile/",
    "role/",
    *(f"role/{{role}}/{tab}" for tab in ("", "?q=a", "nesting/", "all-members/", "settings/", "delete/")),
    "user/",
    *(f"user/{{user}}/{tab}" for tab in ("", "delete/")),
    "service-account/",
    *(f"service-account/{{service account}}/{tab}" for tab in ("", "delete/")),
    "token/{token}/revoke/",
    "tag/",
    *(f"tag/{{tag}}/{tab}" for tab in ("", "delete/")),
    "server/",
    "identity-provider/",
    "project/add/",
    *(f"project/{{project}}/{tab}" for tab in ("settings/", "delete/")),
)
SINKS = (
    "event-sink/",
    "event-sink/add/",
    "event-sink/add/?type=kafka",
    *(
        f"event-sink/{{sink}}/{page}"
        for page in ("", "edit/", "replay/", "skip/", "delete/", "dead-letters/delete/", "dead-letter/{letter}/")
    ),
)
RULES = (
    "change-rule/",
    "change-rule/?object=table:{warehouse}:{table}",
    "change-rule/add/?kind=naming",
    "change-rule/add/?kind=http-hook&object=table:{warehouse}:{table}",
    "change-rule/findings/",
    "change-rule/findings/?object=namespace:{warehouse}:{sales}",
    *(f"change-rule/{{rule}}/{page}" for page in ("", "edit/", "evaluate/", "delete/")),
)
CHANGES = (
    *(
        f"warehouse/{{warehouse}}/namespace/{{orders}}/change/?do={change}&target=table:{{table}}"
        for change in ("drop", "protect")
    ),
    *(f"deleted/{page}/?warehouse={{warehouse}}&target=table:{{table}}" for page in ("restore", "delete")),
    "warehouse/{warehouse}/add-namespace/",
    *(
        f"warehouse/{{warehouse}}/namespace/{{sales}}/{page}/"
        for page in ("add-namespace", "move", "drop", "edit-properties")
    ),
    *(f"warehouse/{{warehouse}}/table/{{table}}/{page}/" for page in ("rename", "drop", "edit-properties")),
    *(f"warehouse/{{warehouse}}/table/{{hostile table}}/{page}/" for page in ("rename", "drop")),
)


def all_addresses(ids: Mapping[str, str]) -> list[str]:
    paths = [
        *OTHERS,
        *ACCOUNTS,
        *SINKS,
        *RULES,
        *CHANGES,
        *(f"{base}/{tab}" for base, tabs in TABS.items() for tab in tabs),
    ]
    return [f"/ui/{path.format_map(ids)}" for path in paths]


def one_of_each_kind(addresses: Iterable[str]) -> list[str]:
    """Return the first address of each page, whatever object or query it is for."""
    first: dict[tuple[str, ...], str] = {}
    for address in addresses:
        found = resolve(urlsplit(address).path)
        first.setdefault((found.url_name or "", *(str(found.kwargs.get(name)) for name in ("kind", "tab"))), address)
    return list(first.values())
