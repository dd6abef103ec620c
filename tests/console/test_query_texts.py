"""Texts in addresses of the console: what pages read of them."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from management.admin.pages import MAX_QUERY_LENGTH, Page, read_query
from tests.console.accounts.conftest import Kind, SignIn, sign_in  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, ""),
        ({"q": ""}, ""),
        ({"q": "  sales \t"}, "sales"),
        ({"q": "sa\0les"}, "sales"),
        ({"q": "\0 sales \0"}, "sales"),
        ({"q": "x" * (MAX_QUERY_LENGTH + 1)}, "x" * MAX_QUERY_LENGTH),
    ],
)
def test_a_text_that_databases_accept(given: dict[str, str], read: str) -> None:
    request = RequestFactory().get("/ui/", given)
    assert read_query(request, "q") == read
    page = Page()
    page.setup(request)
    assert page.query("q") == read


@pytest.mark.django_db
def test_filters_of_audit_and_statistics(sign_in: SignIn) -> None:  # noqa: F811 - the fixture
    root = sign_in(Kind.ROOT)
    page = root.get(f"/ui/audit/?actor=%20{Kind.GUEST.value}%20&event={'e' * 300}&project=%20")
    assert page.status == 200
    assert f'value="{Kind.GUEST.value}"' in page.text
    assert f'value="{"e" * MAX_QUERY_LENGTH}"' in page.text
    page = root.get(f"/ui/statistics/?endpoint=%20GET%20/v1/{'e' * 300}%20")
    assert page.status == 200
    assert f"GET /v1/{'e' * (MAX_QUERY_LENGTH - len('GET /v1/'))}<" in page.text.replace('"', "<")
