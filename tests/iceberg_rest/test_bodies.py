"""Invalid request bodies get a clear error and change nothing."""

from __future__ import annotations

import pytest

from catalog.models import Namespace
from tests.harness.wsgi_client import ApiClient, call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "Malformed JSON"),
        (b"{", "Malformed JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"namespace": ["a"], "namespace": ["b"]}', "appears twice"),
        (b'{"namespace": ["a"], "properties": {"x": "1", "x": "2"}}', "appears twice"),
        (b'{"namespace": ["a"], "n": NaN}', "NaN"),
        (b'{"namespace": ["a"], "n": -Infinity}', "Infinity"),
        (b'{"namespace": ["a"], "n": 9223372036854775808}', "64 bits"),
        (b'{"namespace": ["a"], "n": -9223372036854775809}', "64 bits"),
        (b'{"namespace": ["a"], "n": ' + b"1" * 10_000 + b"}", "64 bits"),
        (b'{"namespace": ["a"], "n": 1e999}', "64 bits"),
        (b'{"namespace": ["\xff"]}', "not UTF-8"),
        (b'{"namespace": ["\\ud800"]}', "Malformed JSON"),
        (b'{"namespace": ["a"], "n": ' + b"[" * 300 + b"]" * 300 + b"}", "Malformed JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[" * 1_000_000, "has more than"),
        (b"[" + b"{}," * 1_000_000 + b"{}]", "has more than"),
        (b'{"n": [' + b"1," * 3_000_000 + b"1]}", "has more than"),
        (b"\x1f\x8b\x08\x00", "Malformed JSON"),
    ],
)
def test_malformed_json(catalog: ApiClient, body: bytes, text: str) -> None:
    assert catalog.post("/namespaces", raw=body).refused(400, "BadRequestException", text)
    assert not Namespace.objects.exists()


def test_numbers_of_64_bits_are_kept(catalog: ApiClient) -> None:
    assert catalog.post("/namespaces", raw=b'{"namespace": ["a"], "n": 9223372036854775807}').status == 200


def test_methods_that_a_resource_does_not_have() -> None:
    for method, target in (
        ("PUT", "/catalog/v1/config"),
        ("PATCH", "/catalog/v1/x/namespaces"),
        ("POST", "/catalog/v1/config"),
    ):
        assert call(method, target).refused(405, "MethodNotAllowedException")


def test_unknown_paths_return_the_error_envelope() -> None:
    for target in ("/catalog/v2/config", "/catalog/", "/management/v1/nope", "/lakekeeper/v1/x", "/nowhere"):
        assert call("GET", target).refused(404, "NotFoundException")
