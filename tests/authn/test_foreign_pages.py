"""Cross-site browser requests to a server without authentication."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from pydantic import AnyHttpUrl

from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.management.warehouse_request_fixtures import use_settings
from tests.token_fixtures import TokenClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped")]

FOREIGN = [
    "http://evil.example", "https://testserver.evil.example", "null", "", "http://testserver:81", "http://[::1",
    "x" * 5000,
]  # fmt: skip


def post(origin: str | None, number: int = 0, **headers: str) -> Response:
    sent = headers if origin is None else headers | {"origin": origin}
    return ApiClient("/management/v1").post("/project", {"project-name": f"p{number}"}, **sent)


@pytest.mark.parametrize("origin", FOREIGN)
def test_they_change_nothing(origin: str, everything: Callable[[], Fingerprint], catalog: ApiClient) -> None:
    before = everything()
    assert post(origin).refused(403, "ForeignOrigin", "LAKEKEEPER__ALLOW_ORIGIN")
    assert catalog.post("/namespaces", {"namespace": ["n"]}, origin=origin).refused(403, "ForeignOrigin")
    assert catalog.delete("/namespaces/n", origin=origin).refused(403, "ForeignOrigin")
    for content_type in ("text/plain", ""):
        sent = call(
            "POST", "/management/v1/project", body=b'{"project-name": "p"}', headers={"origin": origin},
            content_type=content_type,
        )  # fmt: skip
        assert sent.refused(403, "ForeignOrigin")
    assert everything() == before


def test_programs_and_own_pages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, base_uri=AnyHttpUrl("https://catalog.example.com/iceberg"))
    for number, origin in enumerate([None, "http://testserver", "https://TESTSERVER", "https://catalog.example.com"]):
        assert post(origin, number).status == 201


def test_pages_that_the_operator_names_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CORS_ALLOWED_ORIGINS", ["https://console.example.com"])
    assert post("https://console.example.com").status == 201
    assert post("https://console.example.com.evil.example").refused(403, "ForeignOrigin")
    monkeypatch.setattr(settings, "CORS_ALLOW_ALL_ORIGINS", True)
    assert post("https://evil.example", 1).status == 201


def test_reads_get_cors_headers_for_the_browser_to_check(catalog: ApiClient) -> None:
    assert catalog.get("/namespaces", origin="http://evil.example").status == 200


def test_where_tokens_are_required_the_token_decides(alice: TokenClient) -> None:
    headers: dict[str, Any] = {"authorization": f"Bearer {alice.token}"}
    assert post("http://evil.example").refused(401, "MissingAuthorizationHeader")
    assert post("http://evil.example", **headers).status == 201
