"""Every page, by four kinds of users, in both themes and on a phone: no error, no violation, no barrier."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.browser.addresses import all_addresses
from tests.console.browser.conftest import Visit, Visitor
from tests.console.browser.console_server import ConsoleServer, User
from tests.parts import chromium

PAGES_WITHOUT_GRANTS = (
    "catalog/", "deleted/", "task/", "warehouse/", "search/?q=lines", "profile/", "role/", "server/access/", "user/",
    "user/{user}/", "access/", "access/review/", "tag/", "statistics/",
)  # fmt: skip
"""Pages that are open without any grant: they are empty, about the user, or about other users, as in the APIs."""

TABS_WITH_DATA = ("files/", "preview/")
"""Tabs that need the permission to read data, which an administrator has only by a grant (`test_using.py`)."""

AXE_RULES = """() => axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => each.id + ": " + each.nodes.map(node => node.html.slice(0, 200)).slice(0, 3).join(" | ")))"""


def barriers(visitor: Visitor) -> list[str]:
    """Return what axe-core finds serious or critical on the page."""
    source = chromium.find_axe()
    assert source is not None
    visitor.page.evaluate(source.read_text())
    found: list[str] = visitor.page.evaluate(AXE_RULES)
    return found


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)], ids=["light-wide", "dark-phone"])
def test_every_page_of_an_administrator(visit: Visit, console: ConsoleServer, *, dark: bool, phone: bool) -> None:
    """Each page is opened in both forms, and checked by axe-core in one of them, which takes longer than the page."""
    visitor = visit(User.INSTANCE_ADMIN, dark=dark, phone=phone)
    problems: dict[str, Any] = {}
    for number, address in enumerate(all_addresses(console.ids)):
        status = visitor.open(address)
        width = visitor.page.evaluate("document.documentElement.scrollWidth")
        expected = 403 if address.endswith(TABS_WITH_DATA) else 200
        found = [
            *(barriers(visitor) if number % 2 == int(dark) else []),
            *([f"status {status}"] if status != expected else []),
        ]
        if width > (390 if phone else 1440):
            found.append(f"{width} pixels wide")
        if found:
            problems[address] = found
    assert problems == {}


@pytest.mark.parametrize("user", [User.PROJECT_ADMIN, User.DATA_ENGINEER, User.WITHOUT_GRANTS])
def test_every_page_of_other_users(visit: Visit, console: ConsoleServer, user: User) -> None:
    """Pages that a user may not see are the same 404 as pages of nothing, or say which permission is missing."""
    visitor = visit(user)
    statuses = {
        each: visitor.context.request.get(console.base_url + each).status for each in all_addresses(console.ids)
    }
    assert set(statuses.values()) <= {200, 403, 404}
    if user is User.WITHOUT_GRANTS:
        shown = {address for address, status in statuses.items() if status == 200}
        assert shown == {"/ui/", *(f"/ui/{each.format_map(console.ids)}" for each in PAGES_WITHOUT_GRANTS)}


def test_the_first_page_is_light_and_asks_no_other_server(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    sizes: list[int] = []
    visitor.page.on("response", lambda response: sizes.append(len(response.body()) if response.ok else 0))
    visitor.open("/ui/")
    assert sum(sizes) < 1_000_000
    assert visitor.foreign_requests == []
