"""The way back from an error page: only to another page of this console."""

from __future__ import annotations

import pytest
from django.test import RequestFactory, override_settings

from management.admin.pages import _page_before


@pytest.mark.parametrize(
    ("referrer", "expected"),
    [
        ("http://testserver/ui/task/?warehouse=1", "/ui/task/?warehouse=1"),
        ("http://testserver/ui/", "/ui/"),
        ("", None),
        ("http://testserver/ui/deleted/restore/?x=1", None),
        ("http://evil.example/ui/task/", None),
        ("http://testserver.evil.example/ui/", None),
        ("http://testserver/management/v1/info", None),
        ("http://testserver/ui//evil.example", None),
        ("http://testserver/ui/../logout", None),
        ("http://[", None),
        ("javascript:alert(1)", None),
    ],
)
@override_settings(ALLOWED_HOSTS=["testserver"])
def test_the_page_before_an_error(referrer: str, expected: str | None) -> None:
    request = RequestFactory().get("/ui/deleted/restore/?warehouse=1", HTTP_REFERER=referrer)
    assert _page_before(request) == expected
