"""`manage.py check --deploy` on the authentication settings."""

from __future__ import annotations

import pytest
from django.core.checks import CheckMessage, Tags, run_checks

from tenancy.authn.providers import ANY_AUDIENCE, NO_AUTHENTICATION, PLAIN_HTTP
from tests.authn.conftest import SwitchOn

URI, AUDIENCE = "LAKEKEEPER__OPENID_PROVIDER_URI", "LAKEKEEPER__OPENID_AUDIENCE"


def of_security(*, deploy: bool) -> list[CheckMessage]:
    """Run the checks of security only: those of models and routes take half a second."""
    return run_checks(tags=[Tags.security], include_deployment_checks=deploy)


def found(*, deploy: bool = True) -> list[str]:
    ids = {NO_AUTHENTICATION, PLAIN_HTTP, ANY_AUDIENCE}
    return sorted(str(each.id) for each in of_security(deploy=deploy) if each.id in ids)


def test_without_authentication_it_fails() -> None:
    assert found() == [NO_AUTHENTICATION]
    assert found(deploy=False) == []
    [error] = [each for each in of_security(deploy=True) if each.id == NO_AUTHENTICATION]
    assert error.is_serious()


@pytest.mark.parametrize(
    ("variables", "ids"),
    [
        ({URI: "https://idp.example", AUDIENCE: "x"}, []),
        ({URI: "http://127.0.0.1:9/realm", AUDIENCE: "x"}, []),
        ({URI: "http://localhost:9/realm", AUDIENCE: "x"}, []),
        ({URI: "http://[::1]:9/realm", AUDIENCE: "x"}, []),
        ({URI: "http://idp.example", AUDIENCE: "x"}, [PLAIN_HTTP]),
        ({URI: "http://127.0.0.1.example", AUDIENCE: "x"}, [PLAIN_HTTP]),
        ({URI: "https://idp.example"}, [ANY_AUDIENCE]),
        ({"LAKEKEEPER__OPENID_PROVIDERS__X__URI": "http://10.0.0.1"}, [PLAIN_HTTP, ANY_AUDIENCE]),
        ({"LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "true"}, [ANY_AUDIENCE]),
        (
            {
                "LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "true",
                "LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCE": "x",
                "ICEKEEPER__KUBERNETES__API_URL": "http://10.0.0.1",
            },
            [PLAIN_HTTP],
        ),
    ],
    ids=str,
)
def test_checks_of_providers(variables: dict[str, str], ids: list[str], switch_on: SwitchOn) -> None:
    switch_on(**variables)
    assert found() == sorted(ids)
