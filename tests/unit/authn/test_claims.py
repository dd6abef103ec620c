"""Verified claims: the identity that they name."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.actor import AuthenticationFailed, EmptyUserId, Identity, InvalidUserId, UserIdTooLong
from tenancy.authn.oidc.claims import ClaimRules, identity_of, parse_template, user_id

OIDC = ClaimRules("oidc")


def identity(claims: dict[str, Any], **rules: Any) -> Identity:
    return identity_of({"sub": "s"} | claims, ClaimRules("oidc", **rules))


# --- who ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "paths", "expected"),
    [
        ({"sub": "s"}, ("oid", "sub"), "oidc~s"),
        ({"sub": "s", "oid": "o"}, ("oid", "sub"), "oidc~o"),
        ({"sub": "s", "oid": 7}, ("oid", "sub"), "oidc~s"),
        ({"sub": "s", "oid": None}, ("oid", "sub"), "oidc~s"),
        ({"sub": "s", "oid": "o"}, ("sub",), "oidc~s"),
        ({"sub": "s", "act": {"sub": "inner"}}, ("act.sub", "sub"), "oidc~inner"),
        ({"sub": "s", "https://x.y/id": "z"}, ("https://x.y/id",), "oidc~z"),
        ({"sub": "a~b"}, ("sub",), "oidc~a~b"),
    ],
)
def test_subject(claims: dict[str, Any], paths: tuple[str, ...], expected: str) -> None:
    assert identity_of(claims, ClaimRules("oidc", subject=paths)).user_id == expected


def test_no_subject() -> None:
    for claims in ({}, {"sub": 7}, {"sub": ["s"]}, {"preferred_username": "anna"}):
        with pytest.raises(AuthenticationFailed, match="none of the claims oid, sub"):
            identity_of(claims, OIDC)


@pytest.mark.parametrize(
    ("subject", "error"),
    [
        ("", EmptyUserId),
        (" ", EmptyUserId),
        ("\u3000", EmptyUserId),
        ("\ud800", InvalidUserId),
        ("a\u2028b", InvalidUserId),
        ("a\u2029b", InvalidUserId),
        ("a\x7fb", InvalidUserId),
        ("a" * 128, UserIdTooLong),
    ],
)
def test_subjects_that_no_address_could_name(subject: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        user_id("oidc", subject)
    with pytest.raises(error):
        identity_of({"sub": subject}, OIDC)


# --- name ---------------------------------------------------------------------------------------------------------

LAST = {"app_displayname": "App", "preferred_username": "anna", "given": "Tem"}


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "Anna A", "given_name": "X", "family_name": "Y", **LAST}, "Anna A"),
        ({"given_name": "Anna", "family_name": "A", **LAST}, "Anna A"),
        ({"first_name": "Anna", "last_name": "A", **LAST}, "Anna A"),
        ({"given_name": "Anna", "first_name": "X", "last_name": "A"}, "Anna A"),
        ({"given_name": "Anna", **LAST}, "Anna"),
        ({"family_name": "A", **LAST}, "A"),
        (LAST, "App"),
        ({"preferred_username": "anna", "given": "Tem"}, "anna"),
        ({"given": "Tem"}, "Tem plate"),
        ({"given": 7}, "7 plate"),
        ({"given": True}, None),
        ({"given": ["Tem"]}, None),
        ({}, None),
        ({"name": ""}, None),
        ({"name": " \t\n\x00 "}, None),
        ({"name": {"first": "Anna"}}, None),
        ({"name": ["Anna"]}, None),
        ({"name": 7}, None),
        ({"name": "  An\x00na\r\n A\u2028 "}, "An na A"),
        ({"name": "x" * 10_000}, "x" * 255),
        ({"given_name": "x" * 200, "family_name": "y" * 200}, "x" * 200 + " " + "y" * 54),
    ],
)
def test_name(claims: dict[str, Any], name: str | None) -> None:
    assert identity(claims, template=parse_template("{given} plate")).name == name


def test_names_in_other_claims() -> None:
    rules = {"name": ("display", "profile.name"), "email": ("profile.mail",)}
    found = identity({"profile": {"name": "Anna", "mail": "a@b.c"}, "name": "X", "email": "x@y.z"}, **rules)
    assert (found.name, found.email, found.user_type) == ("Anna", "a@b.c", "human")
    found = identity({"profile": {"name": {}, "mail": "none"}, "name": "X", "email": "x@y.z"}, **rules)
    assert (found.name, found.email) == ("X", "x@y.z")


# --- mail ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "email"),
    [
        ({"email": "a@b.c", "upn": "x@y.z"}, "a@b.c"),
        ({"upn": "a@b.c", "preferred_username": "x@y.z"}, "a@b.c"),
        ({"upn": "anna", "preferred_username": "x@y.z"}, "x@y.z"),
        ({"preferred_username": "anna"}, None),
        ({"email": ["a@b.c"]}, None),
        ({"email": "a" * 321}, None),
        ({"email": "a" * 400 + "@b.c", "upn": "x@y.z"}, "x@y.z"),
        ({}, None),
    ],
)
def test_email(claims: dict[str, Any], email: str | None) -> None:
    assert identity(claims).email == email


# --- type ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "user_type"),
    [
        ({"idtyp": "user"}, "human"),
        ({"idtyp": "app", "name": "Anna"}, "application"),
        ({"idtyp": "device", "name": "Anna"}, "application"),
        ({"idtyp": "other", "name": "Anna"}, "human"),
        ({"idtyp": ["user"]}, "application"),
        ({"name": "Anna", "client_id": "spark"}, "human"),
        ({"given_name": "Anna"}, "human"),
        ({"app_displayname": "Spark"}, "application"),
        ({"client_id": "spark", "preferred_username": "service-account-spark"}, "application"),
        ({"preferred_username": "anna"}, "application"),
        ({}, "application"),
    ],
)
def test_type(claims: dict[str, Any], user_type: str) -> None:
    assert identity(claims).user_type == user_type


# --- roles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "path", "roles"),
    [
        ({"roles": ["a", "b", "a"]}, "roles", ("a", "b")),
        ({"roles": "a b"}, "roles", ("a b",)),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ("a",)),
        ({"realm_access.roles": ["b"], "realm_access": {"roles": ["a"]}}, "realm_access.roles", ("b",)),
        ({"https://x.y/roles": ["a"]}, "https://x.y/roles", ("a",)),
        ({"roles": ["a", 7, None, ["b"], {"c": 1}, True, ""]}, "roles", ("a",)),
        ({"roles": {"a": ["b"]}}, "roles", ()),
        ({"roles": [["a"]]}, "roles", ()),
        ({"roles": ["a\x00b", "c\n", "x" * 256, "x" * 255]}, "roles", ("x" * 255,)),
        ({"roles": []}, "roles", ()),
        ({"roles": 7}, "roles.deep", ()),
        ({"roles": ["a"]}, "roles.0", ()),
        ({}, "roles", ()),
        ({"roles": ["a"]}, None, ()),
    ],
)
def test_roles(claims: dict[str, Any], path: str | None, roles: tuple[str, ...]) -> None:
    assert identity(claims, roles=path).roles == roles


# --- audiences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "audiences"),
    [
        ({"aud": "a"}, ("a",)),
        ({"aud": ["a", "b c"]}, ("a", "b c")),
        ({"aud": ["a", 7]}, ()),
        ({"aud": {"a": "b"}}, ()),
        ({"aud": None}, ()),
        ({}, ()),
    ],
)
def test_audiences(claims: dict[str, Any], audiences: tuple[str, ...]) -> None:
    assert identity(claims).audiences == audiences


# --- templates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{a}", "A"),
        ("{a} {b.c}", "A C"),
        ("{{{a}}}", "{A}"),
        ("{{}} { a }", "{} A"),
        ("n° {n}", "n° 7"),
        ("{a}{missing}", None),
        ("{b}", None),
        ("{b.c.d}", None),
        ("{none}", None),
        ("{yes}", None),
    ],
)
def test_templates(template: str, filled: str | None) -> None:
    claims = {"a": "A", "b": {"c": "C"}, "n": 7, "none": None, "yes": True}
    assert parse_template(template).fill(claims) == filled


@pytest.mark.parametrize(
    "template",
    ["", "text", "{", "}", "{a", "a}", "{}", "{ }", "{a.}", "{.a}", "{a..b}", "{{a}", "{a}}", "{a{b}}", "{{}}"],
)
def test_malformed_templates(template: str) -> None:
    with pytest.raises(ValueError, match="a template such as"):
        parse_template(template)
