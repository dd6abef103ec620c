"""The benchmark of the console measures every page: a new one is in its list, or receives forms only."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.urls import resolve

from management.admin.urls import urlpatterns
from tests.perf.console_contents import read_id
from tests.perf.console_pages import KEYS, NOT_MEASURED, addresses, loaded_files, next_page

TABLE_ID = read_id("table", 3)


def test_every_page_is_measured() -> None:
    ids = dict.fromkeys(KEYS, TABLE_ID) | {"user": "oidc~user-17", "event": "17", "letter": "17"}
    measured = {resolve(urlsplit(each.format_map(ids)).path).url_name for each in addresses()}
    views = {each.name: each.callback.view_class for each in urlpatterns}  # type: ignore[attr-defined]  # `as_view` sets it
    pages = {name for name, view in views.items() if "get" in view.http_method_names}
    assert pages - measured <= NOT_MEASURED


def test_next_page_of_a_list() -> None:
    page = '<a class="ik-button" href="?q=a&amp;after=xyz#grants">Next 50</a>'
    assert next_page("/ui/role/?q=a", page) == "/ui/role/?q=a&after=xyz"
    assert next_page("/ui/role/", '<a href="/ui/role/new/">New</a>') is None


def test_files_of_a_page() -> None:
    page = '<link rel="stylesheet" href="/ui/static/a.css"><script defer src="/ui/static/b.js"></script><a href="c">'
    assert loaded_files("/ui/", page) == ["/ui/static/a.css", "/ui/static/b.js"]
