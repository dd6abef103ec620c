"""The pages of the console that are measured: all that tests open in a browser, and those that depend on the size of
the catalog, with placeholders for ids.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final
from urllib.parse import urljoin

from tests.console.browser.addresses import all_addresses

KEYS: Final = (
    "project", "warehouse", "sales", "orders", "big", "table", "hostile table", "view", "generic table", "task",
    "project task", "role", "user", "service account", "token", "tag",
    "sink", "letter", "event", "rule",
)  # fmt: skip
"""`sales` is a namespace that the data engineer has a grant on, and `orders` one in it. `big` has a fifth of all
tables; the data engineer has grants on some of them, one of which is `hostile table`."""

_ON_TABLE: Final = "table:{warehouse}:{table}"
SCALED: Final = (
    "?period=30d",
    "catalog/tree/",
    "catalog/tree/?node=warehouse:{warehouse}",
    "catalog/tree/?node=namespace:{warehouse}:{big}",
    "catalog/tree/?node=namespace:{warehouse}:{sales}",
    "catalog/tree/?at=table:{warehouse}:{table}",
    "catalog/tree/?at=table:{warehouse}:{hostile table}",
    "warehouse/{warehouse}/namespace/{big}/",
    "warehouse/{warehouse}/namespace/domain_0001",
    "warehouse/{warehouse}/table/{table}/files/",
    "warehouse/{warehouse}/table/{table}/files/reading/",
    "search/?part=results&q=orders_000007",
    "search/?part=results&q=clicks",
    "search/?part=results&q=qqxjzv",
    "search/?part=results&q={table}",
    "search/?part=results&q=set_05000",
    "search/?part=results&q=measure_77",
    "search/?part=results&q=column:+id",
    "task/?warehouse={warehouse}&status=failed",
    "task/?warehouse={warehouse}&status=success",
    "task/?warehouse={warehouse}&status=scheduled",
    "task/?project={project}&status=success",
    "project/{project}/task/{project task}/",
    "task/change/?project={project}&action=retry&task={project task}",
    "deleted/?warehouse={warehouse}",
    "audit/?project={project}",
    "audit/?actor=oidc~user-17",
    "audit/?actor=oidc~absent",
    "audit/?event=grant.created",
    "audit/?event=grant.created&outcome=denied",
    "audit/?outcome=denied",
    "audit/?outcome=failed",
    "audit/?object_id={table}",
    "audit/?object_id={table}&actor=oidc~user-17",
    "event/?project={project}",
    "event/?warehouse={warehouse}&type=dropTable",
    "event/?object={table}",
    "event/?type=createTagDefinition",
    "event/?warehouse={warehouse}&namespace=absent",
    "change-rule/findings/?project={project}",
    "change-rule/findings/?project={project}&result=overridden",
    "change-rule/findings/?object=warehouse:{warehouse}",
    "change-rule/findings/?object=namespace:{warehouse}:{big}",
    "role/?q=team+0123",
    "user/?q=user+12",
    "principals/?q=team+01",
    "access/?who=role:{role}",
    "access/?who=user:oidc~user-17",
    "access/review/?who=user:oidc~user-17",
    "access/review/?who=user:oidc~user-17&warehouse={warehouse}",
    "access/object/table:{warehouse}:{table}/",
    f"access/object/{_ON_TABLE}/?who=user:oidc~user-17&action=read_data",
    f"access/object/{_ON_TABLE}/?view=matrix",
    f"access/object/{_ON_TABLE}/explain/?who=user:oidc~user-17&action=read_data",
    "role/{role}/access/",
    "server/support-bundle/",
    "warehouse/{warehouse}/edit/",
    "warehouse/{warehouse}/edit-storage/",
    "warehouse/{warehouse}/edit-credential/",
    "warehouse/{warehouse}/validate/",
    "warehouse/{warehouse}/delete/",
)

NOT_MEASURED: Final = frozenset(
    {
        "object-grant", "revocations", "object-preview", "object-save", "object-managed-access", "restore",
        "audit-export",
    }
)  # fmt: skip
"""Names of addresses that show nothing without what a form sent, and of a file as large as its reader wants. Those that
accept no GET are not measured either."""

MAX_STATEMENTS: Final = 15
MAX_P95_MS: Final = 300
MAX_BYTES: Final = 1_000_000
"""Limits of each page; that of bytes also holds for the first page with all that the browser loads for it."""

_NEXT: Final = re.compile(r'<a [^>]*href="([^"]+)"[^>]*>\s*(?:Next \d+|Older|More|More principals|Newer grants)\s*</a>')
_MORE_NODES: Final = re.compile(r'"([^"]*/tree/\?node=[^"]*after=[^"]*)"')
_LOADED: Final = re.compile(r'<(?:script|link|img)\b[^>]*?\b(?:src|href)="([^"]+)"')


def addresses() -> list[str]:
    """Return the addresses of all pages, each once, with placeholders in braces."""
    named = {key: f"{{{key}}}" for key in KEYS}
    return list(dict.fromkeys([*all_addresses(named), *(f"/ui/{each}" for each in SCALED)]))


def next_page(address: str, html: str) -> str | None:
    """Return the address of the next page of the list on a page, or of the next nodes of a level of the tree."""
    found = _NEXT.search(html) or _MORE_NODES.search(html)
    return None if found is None else urljoin(address, unescape(found[1]).partition("#")[0])


def loaded_files(address: str, html: str) -> list[str]:
    """Return the addresses of the scripts, style sheets and pictures of a page."""
    return list(dict.fromkeys(urljoin(address, unescape(each)) for each in _LOADED.findall(html)))
