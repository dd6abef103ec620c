"""Four kinds of users, each signed in with a browser; the built-in evaluator decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pytest

from tenancy.actor import INTERNAL, Actor
from tenancy.authn.own_tokens.access_tokens import _issuer, _keys
from tenancy.authn.providers import authenticators
from tenancy.authz import port
from tenancy.models import Project, Role, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.roles import create_role
from tenancy.services.users import create_local_user
from tests.authz.tree_fixtures import give
from tests.console.session_cookies import session_cookies
from tests.console.sign_in.browser import Browser
from tests.management.warehouse_request_fixtures import use_settings

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;{{7*7}}{% now %}"
"""A name that is valid everywhere and would be markup in a page that does not escape it."""


class Kind(StrEnum):
    """Kinds of users, by their ids."""

    ROOT = "local~root"
    LEAD = "local~lead"
    ENGINEER = "local~engineer"
    GUEST = "local~guest"


PRIVILEGES: Mapping[str, str] = {Kind.LEAD: "project_admin", Kind.ENGINEER: "select"}
"""On the default project."""

SignIn = Callable[[str], Browser]


@pytest.fixture
def sign_in(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignIn]:
    """Return a function that signs a user in with a new browser: an instance admin, a project admin, or others."""
    use_settings(monkeypatch, authz_backend="builtin", access_tokens=True, instance_admins=[Kind.ROOT.value])
    caches = (port.authorizer, authenticators, _issuer, _keys)
    for cached in caches:
        cached.cache_clear()

    def with_new_browser(user_id: str) -> Browser:
        browser = Browser()
        create_local_user(actor=INTERNAL, user_id=user_id)
        browser.cookies |= session_cookies(user_id)
        privilege = PRIVILEGES.get(user_id)
        if privilege is not None:
            give(privilege, ObjectRef(Securable.Type.PROJECT, get_project(None).pk), Actor(user_id=user_id))
        return browser

    yield with_new_browser
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def project(bootstrapped: None) -> Project:
    return get_project(None)


@pytest.fixture
def hostile_role(project: Project) -> Role:
    return create_role(actor=INTERNAL, project=project, name=HOSTILE, description=f"{HOSTILE}\nsecond line")


def is_escaped(page: Any) -> bool:
    """Return whether the page shows the hostile name, and only as text."""
    return "&lt;img src=x" in page.text and "<img src=x" not in page.text and "{{7*7}}" in page.text
