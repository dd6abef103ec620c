"""Every page, by four kinds of users, in both themes and on a phone: no error, no violation, no barrier."""

from __future__ import annotations

import pytest

from tests.console.browser.addresses import SINKS, all_addresses, one_of_each_kind
from tests.console.browser.conftest import Visit, Visitor
from tests.console.browser.console_server import ConsoleServer, User
from tests.parts import chromium

PAGES_WITHOUT_GRANTS = (
    "catalog/", "deleted/", "task/", "warehouse/", "search/?q=lines", "profile/", "role/", "server/access/", "user/",
    "user/{user}/", "access/", "access/review/", "tag/", "statistics/", "change-rule/",
)  # fmt: skip
"""Pages that are open without any grant: they are empty, about the user, or about other users, as in the APIs."""

PAGES_OF_THE_SERVER = (
    "audit/verify/", "service-account/", "service-account/{service account}/",
    "service-account/{service account}/delete/", "server/", "identity-provider/", "project/add/",
    "user/{user}/delete/", "token/{token}/revoke/", *SINKS,
)  # fmt: skip
"""Pages that project admins may not see."""

MIN_PAGES_OF_AN_ENGINEER = 40
WIDE, NARROW = 1440, 390

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


def problems_of(visitor: Visitor, address: str, *, width: int, is_checked: bool, status: int = 200) -> list[str]:
    """Open a page, and return what is wrong with it; `is_checked`: by axe-core, too, which takes longer than a page."""
    found = visitor.open(address)
    shown = visitor.page.evaluate("document.documentElement.scrollWidth")
    return [
        *(barriers(visitor) if is_checked else []),
        *([f"status {found}"] if found != status else []),
        *([f"{shown} pixels wide"] if shown > width else []),
    ]


def test_every_page_of_an_instance_admin(visit: Visit, console: ConsoleServer) -> None:
    """Light and wide; axe-core checks one page of each kind in one of its two forms."""
    visitor = visit(User.INSTANCE_ADMIN)
    checked = one_of_each_kind(all_addresses(console.ids))[::2]
    problems: dict[str, list[str]] = {}
    for address in all_addresses(console.ids):
        status = 403 if address.endswith(TABS_WITH_DATA) else 200
        problems[address] = problems_of(visitor, address, width=WIDE, is_checked=address in checked, status=status)
    assert not any(problems.values()), {address: each for address, each in problems.items() if each}


def test_every_page_of_a_project_admin(visit: Visit, console: ConsoleServer) -> None:
    """One page of each kind, dark and on a phone; those that the project admin may not see by the instance admin."""
    visitor, admin = (visit(user, dark=True, phone=True) for user in (User.PROJECT_ADMIN, User.INSTANCE_ADMIN))
    denied = {f"/ui/{each.format_map(console.ids)}" for each in PAGES_OF_THE_SERVER}
    problems: dict[str, list[str]] = {}
    for number, address in enumerate(one_of_each_kind(all_addresses(console.ids))):
        problems[address] = problems_of(
            admin if address in denied else visitor, address, width=NARROW, is_checked=number % 2 == 1
        )
    for address in denied:
        if (status := visitor.context.request.get(console.base_url + address).status) != 403:
            problems[address].append(f"status {status} of a project admin")
    assert not any(problems.values()), {address: each for address, each in problems.items() if each}


@pytest.mark.parametrize(
    ("user", "dark", "phone"), [(User.DATA_ENGINEER, False, True), (User.WITHOUT_GRANTS, True, False)]
)
def test_every_page_of_other_users(
    visit: Visit, console: ConsoleServer, user: User, *, dark: bool, phone: bool
) -> None:
    """Pages that a user may not see are the same 404 as pages of nothing, or say which permission is missing."""
    visitor = visit(user, dark=dark, phone=phone)
    statuses = {
        each: visitor.context.request.get(console.base_url + each).status for each in all_addresses(console.ids)
    }
    assert set(statuses.values()) <= {200, 403, 404}
    shown = {address for address, status in statuses.items() if status == 200}
    if user is User.WITHOUT_GRANTS:
        assert shown == {"/ui/", *(f"/ui/{each.format_map(console.ids)}" for each in PAGES_WITHOUT_GRANTS)}
    else:
        assert len(shown) > MIN_PAGES_OF_AN_ENGINEER
    errors = {status: address for address, status in statuses.items() if status != 200}
    problems = {
        address: problems_of(
            visitor,
            address,
            width=NARROW if phone else WIDE,
            is_checked=statuses[address] != 200,
            status=statuses[address],
        )
        for address in [*one_of_each_kind(sorted(shown)), *errors.values()]
    }
    assert not any(problems.values()), {address: each for address, each in problems.items() if each}


def test_every_page_on_the_embedded_database(
    visit: Visit, console: ConsoleServer, console_on_sqlite: ConsoleServer
) -> None:
    """Each user gets the statuses that the pages have on PostgreSQL, and opens one page of each kind."""
    own = all_addresses(console_on_sqlite.ids)
    on_postgres = dict(zip(own, all_addresses(console.ids), strict=True))
    problems: dict[tuple[User, str], list[str]] = {}
    for user in User:
        request = visit(user).context.request
        statuses = {each: request.get(console.base_url + on_postgres[each]).status for each in one_of_each_kind(own)}
        visitor = visit(user, server=console_on_sqlite)
        for address, status in statuses.items():
            if status == 200:
                problems[user, address] = problems_of(visitor, address, width=WIDE, is_checked=False)
            elif (found := visitor.context.request.get(console_on_sqlite.base_url + address).status) != status:
                problems[user, address] = [f"status {found}, on PostgreSQL {status}"]
    assert not any(problems.values()), {where: each for where, each in problems.items() if each}


def test_the_first_page_is_light_and_asks_no_other_server(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    sizes: list[int] = []
    visitor.page.on("response", lambda response: sizes.append(len(response.body()) if response.ok else 0))
    visitor.open("/ui/")
    assert sum(sizes) < 1_000_000
    assert visitor.foreign_requests == []
