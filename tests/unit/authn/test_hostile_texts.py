"""Arbitrary texts as token or key set: each is rejected with the one documented error."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import AuthenticationFailed
from tenancy.authn.oidc.claims import ClaimRules, identity_of
from tenancy.authn.oidc.jwt import Expected, NotAJwt, UnusableKey, read_jwt, read_key_set
from tests.harness.identity_provider import encoded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CLAIMS = st.dictionaries(
    st.sampled_from(
        ["iss", "aud", "sub", "oid", "exp", "nbf", "iat", "scope", "scp", "name", "email", "roles", "idtyp"]
    ),
    VALUES,
)
KEY = st.dictionaries(
    st.sampled_from(["kty", "kid", "crv", "x", "y", "n", "e", "d", "use", "alg", "key_ops"]),
    VALUES | st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB", "sig", "ES256", encoded(b"\xff" * 256)]),
)


@given(st.text())
def test_any_text(text: str) -> None:
    try:
        read_jwt(text)
    except NotAJwt:
        return


@given(st.binary(max_size=100), st.binary(max_size=100), st.binary(min_size=1, max_size=20))
def test_any_bytes_in_the_parts(header: bytes, claims: bytes, signature: bytes) -> None:
    try:
        read_jwt(".".join(map(encoded, (header, claims, signature))))
    except NotAJwt:
        return


@given(CLAIMS)
def test_any_claims(claims: dict[str, Any]) -> None:
    expected = Expected(audiences=frozenset({"a"}), scope="s")
    with suppress(AuthenticationFailed):
        expected.check(claims, issuers=frozenset({"i"}), now=1e9)
    try:
        found = identity_of(claims, ClaimRules("oidc", roles="roles", name=("name.a",)))
    except (AuthenticationFailed, BadRequest):
        return
    assert found.user_id.startswith("oidc~")
    assert len(found.name or "") <= 255


@given(st.lists(KEY | VALUES, max_size=4) | VALUES)
def test_any_key_set(keys: Any) -> None:
    try:
        found = read_key_set(json.loads(json.dumps({"keys": keys})), frozenset({"RS256", "ES256", "EdDSA"}), "it")
    except UnusableKey:
        return
    assert all(isinstance(kid, str) and kid for kid in found)
