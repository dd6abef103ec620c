"""The choice of the authorization backend at the start: an upgrade neither locks users out nor lets users in."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.actor import INTERNAL
from tenancy.authz import port
from tenancy.models import Server
from tenancy.services.server import appoint_administrator, bootstrap
from tenancy.services.startup_checks import AuthorizationNotChosen, require_chosen_backend
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

PROVIDER = "https://idp.example.com"


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_up(backend: str | None, *, authentication: bool = True) -> None:
        port.authorizer.cache_clear()
        use_settings(monkeypatch, authz_backend=backend, openid_provider_uri=PROVIDER if authentication else None)

    yield set_up
    port.authorizer.cache_clear()


def on_record() -> str | None:
    return Server.objects.values_list("authz_backend", flat=True).get()


def test_a_new_server_with_authentication_has_grants(choose: Any) -> None:
    choose(None)
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    appoint_administrator(actor=INTERNAL, user_id="oidc~ada")
    require_chosen_backend()
    assert (port.authorizer().name, on_record()) == ("builtin", "builtin")


def test_a_new_server_without_authentication_lets_every_user(choose: Any) -> None:
    choose(None, authentication=False)
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    require_chosen_backend()
    assert (port.authorizer().name, on_record()) == ("allowall", "allowall")


@pytest.mark.parametrize("before", [None, "allowall"])
def test_a_server_without_authorization_does_not_continue_by_default(choose: Any, before: str | None) -> None:
    """None is the value of servers that were bootstrapped by a version without this setting."""
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    Server.objects.update(authz_backend=before)
    choose(None)
    with pytest.raises(AuthorizationNotChosen) as error:
        require_chosen_backend()
    for cure in (
        "BACKEND=allowall",
        "manage.py bootstrap --admin",
        "BACKEND=builtin",
    ):
        assert cure in error.value.message
    assert on_record() == before


@pytest.mark.parametrize("chosen", ["allowall", "builtin"])
def test_either_choice_is_a_cure(choose: Any, chosen: str) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    Server.objects.update(authz_backend="allowall")
    choose(chosen)
    require_chosen_backend()
    assert on_record() == chosen
    if chosen == "builtin":
        choose(None)
        require_chosen_backend()
        assert on_record() == "builtin"


def test_a_server_bootstrapped_while_it_served_without_authorization_continues(choose: Any) -> None:
    """Over the API, which only responds after the server has started."""
    choose(None, authentication=False)
    require_chosen_backend()
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    choose(None)
    with pytest.raises(AuthorizationNotChosen):
        require_chosen_backend()
    assert on_record() == "allowall"


def test_a_server_bootstrapped_with_authorization_continues(choose: Any, caplog: pytest.LogCaptureFixture) -> None:
    choose(None)
    require_chosen_backend()
    assert caplog.text == ""  # no user can administrate it yet
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    require_chosen_backend()
    assert on_record() == "builtin"


def test_an_open_server_that_is_bootstrapped_later_locks_out_no_user(choose: Any) -> None:
    choose(None, authentication=False)
    require_chosen_backend()
    choose(None)
    require_chosen_backend()
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    require_chosen_backend()
    assert on_record() == "builtin"


def test_a_server_with_authorization_is_not_opened_by_a_removed_provider(choose: Any) -> None:
    """An empty variable counts as unset: a variable that a deployment failed to set must not disable authorization."""
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    choose(None)
    require_chosen_backend()
    choose(None, authentication=False)
    with pytest.raises(AuthorizationNotChosen) as error:
        require_chosen_backend()
    for part in ("Until now builtin authorized", "OPENID_PROVIDER_URI", "AUTHZ_BACKEND=allowall"):
        assert part in error.value.message
    assert on_record() == "builtin"
    choose("allowall", authentication=False)
    require_chosen_backend()
    choose(None, authentication=False)
    require_chosen_backend()
    assert on_record() == "allowall"


def test_a_decision_about_the_caller_needs_a_caller(choose: Any) -> None:
    choose("builtin", authentication=False)
    with pytest.raises(AuthorizationNotChosen, match="authentication is off"):
        require_chosen_backend()


def test_a_grant_to_no_user_is_warned_about(choose: Any, caplog: pytest.LogCaptureFixture) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    choose("builtin")
    require_chosen_backend()
    assert "this server has no administrator" in caplog.text
    caplog.clear()
    appoint_administrator(actor=INTERNAL, user_id="oidc~ada")
    require_chosen_backend()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere.to.be.Found", "cannot be imported"),
        ("tenancy.actor.Missing", "cannot be imported"),
        ("tenancy.actor.Actor", "is not a subclass of tenancy.authz.port.Authorizer"),
    ],
)
def test_a_class_that_is_none_stops_the_server(choose: Any, path: str, said: str) -> None:
    choose(path)
    with pytest.raises(AuthorizationNotChosen, match=said):
        require_chosen_backend()
