"""No page has a link or a button that its user may not use."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from django.db import transaction

from tests.console.conftest import Open
from tests.console.page_forms import PageForms
from tests.console.sign_in.browser import Browser
from tests.console.test_rights import USERS, Ids, grants, ids  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db(databases="__all__")

DENIED = {403, 404, 405}
ID = re.compile(r"(?<=/)[0-9a-f-]{36}(?=/)|(?<=/user/)[^/]+")


def open_pages(browser: Browser, first: list[str]) -> dict[str, tuple[int, PageForms]]:
    """Open these pages and all to which their links lead, one of each kind: with any ids in its path."""
    found: dict[str, tuple[int, PageForms]] = {}
    waiting, kinds = list(first), set[str]()
    while waiting:
        address = waiting.pop()
        path = address.partition("?")[0]
        kind = ID.sub("*", path)
        if kind in kinds:
            continue
        kinds.add(kind)
        page = browser.get(address)
        shown = PageForms(page.text)
        found[path] = page.status, shown
        links = [urljoin(address, link).partition("#")[0] for link in shown.links]
        waiting += [link for link in links if link.startswith("/ui/") and "format=" not in link]
    return found


def first_pages(ids: Ids) -> list[str]:  # noqa: F811 - a fixture
    """Return a page of each kind of object, whose links lead to its tabs; the tree that leads there needs a script."""
    at = f"/ui/warehouse/{ids.warehouse}"
    kinds = {"namespace": ids.open, "table": ids.tables["open"], "view": ids.views["open"]}
    kinds["generic-table"] = ids.generic_tables["open"]
    return [f"{at}/", *(f"{at}/{kind}/{uuid}/" for kind, uuid in kinds.items())]


@pytest.mark.parametrize("name", USERS)
@pytest.mark.usefixtures("grants")
def test_links_and_buttons_can_be_used(ids: Ids, open_as: Open, name: str) -> None:  # noqa: F811 - a fixture
    """Each kind of button is pressed once with what its form contains, and the change is undone."""
    browser = open_as(name)
    own = [] if name == "guest" else first_pages(ids)
    pages = open_pages(browser, ["/ui/", *own])
    refused = [f"link to {path}: {status}" for path, (status, _) in pages.items() if status != 200]
    pressed = set[tuple[str, str]]()
    for path, (_, shown) in pages.items():
        for form in shown.forms:
            for address, fields in form.presses():
                target = urljoin(path, address)
                kind = ID.sub("*", target.partition("?")[0]), str(sorted(fields.get("action", fields)))
                if "sign-out" in target or kind in pressed:
                    continue
                pressed.add(kind)
                cookies = dict(browser.cookies)
                with transaction.atomic():
                    response = browser.post(target, fields)
                    transaction.set_rollback(True)
                browser.cookies = cookies
                if response.status in DENIED or response.status >= 500:
                    refused.append(f"{path}: {target} {fields}: {response.status}")
    assert refused == []
    assert len(pages) > {"guest": 8, "engineer": 40}.get(name, 60)
    assert len(pressed) > {"guest": 0, "engineer": 0}.get(name, 30)
