"""Signatures equal those of botocore for the same request."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from storage.identity.keys import Keys
from storage.signing.signer import UNSIGNED_PAYLOAD, signature_headers
from storage.signing.uri import canonical_path, canonical_query

AT = datetime(2026, 11, 22, 13, 49, 34, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
SEGMENT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
KEYS = st.builds(Keys, VALUE, VALUE, st.none() | VALUE)
NAMES = st.from_regex(r"x-amz-meta-[a-z0-9-]{1,8}|content-type|if-match", fullmatch=True)


def of_botocore(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], payload: str, region: str, keys: Keys
) -> dict[str, str]:
    """Return the headers that botocore adds; the payload hash is passed in, as S3 clients do."""
    url = f"http://store.example:9000{canonical_path(path)}"
    request: Any = AWSRequest(method=method, url=url, headers=headers, params=query)
    credentials = Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token)

    class At(auth.S3SigV4Auth):
        def payload(self, request: Any) -> str:
            return payload

    with patch.object(auth, "get_current_datetime", lambda: AT.replace(tzinfo=None)):
        At(credentials, "s3", region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items() if name.lower() not in headers}


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    segments=st.lists(SEGMENT, max_size=4),
    query=st.dictionaries(SEGMENT, TEXT, max_size=4),
    headers=st.dictionaries(NAMES, VALUE, max_size=4),
    body=st.none() | st.binary(max_size=20),
    region=st.sampled_from(["us-east-1", "eu-1", "local"]),
    keys=KEYS,
)
def test_they_are_botocores(
    method: str,
    segments: list[str],
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes | None,
    region: str,
    keys: Keys,
) -> None:
    path = "/" + "/".join(segments)
    payload = UNSIGNED_PAYLOAD if body is None else hashlib.sha256(body).hexdigest()
    created = signature_headers(
        method=method,
        path=canonical_path(path),
        query=canonical_query(tuple(query.items())),
        headers={"host": "store.example:9000", **headers},
        payload=payload,
        region=region,
        keys=keys,
        at=AT,
    )
    assert created == of_botocore(method, path, query, headers, payload, region, keys)


def test_the_documented_example_of_aws() -> None:
    """GET Object of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html."""
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    empty = hashlib.sha256(b"").hexdigest()
    created = signature_headers(
        method="GET",
        path="/test.txt",
        query="",
        headers={"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9"},
        payload=empty,
        region="us-east-1",
        keys=Keys("AKIAIOSFODNN7EXAMPLE", secret),
        at=datetime(2013, 5, 24, tzinfo=UTC),
    )
    assert created["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_keys_change_the_signature() -> None:
    def sign(keys: Keys, at: datetime = AT, region: str = "eu-1") -> str:
        return signature_headers(
            method="GET", path="/", query="", headers={"host": "a"}, payload=UNSIGNED_PAYLOAD, region=region,
            keys=keys, at=at,
        )["authorization"]  # fmt: skip

    one = sign(Keys("a", "b"))
    assert one == sign(Keys("a", "b"))
    others = {sign(Keys("a", "c")), sign(Keys("a", "b", "t")), sign(Keys("a", "b"), AT.replace(day=23))}
    assert len({one, sign(Keys("a", "b"), region="eu-2"), *others}) == 5
