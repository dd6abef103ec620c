"""Settings of OpenFGA: valid combinations, and no secret in error messages."""

from __future__ import annotations

import pytest

from icekeeper.conf.environment import SettingsError, read_settings

A = "LAKEKEEPER__OPENFGA__"
ENDPOINT = {f"{A}ENDPOINT": "http://openfga:8080"}
CLIENT = {
    f"{A}CLIENT_ID": "me", f"{A}CLIENT_SECRET": "canary-secret", f"{A}TOKEN_ENDPOINT": "https://idp.example.com/token",
}  # fmt: skip


def test_lakekeepers_settings_are_accepted() -> None:
    given = {**ENDPOINT, **CLIENT, f"{A}SCOPE": "fga", f"{A}MAX_BATCH_CHECK_SIZE": "20", f"{A}STORE_NAME": "mine"}
    found, unread = read_settings({**given, "LAKEKEEPER__AUTHZ_BACKEND": "openfga"})
    assert unread == []
    assert (found.effective_authz_backend, found.openfga.store_name) == ("openfga", "mine")
    assert found.openfga.max_batch_check_size == 20
    assert "canary" not in repr(found.openfga)


def test_client_credentials_come_before_a_preshared_key() -> None:
    """As in Lakekeeper, whose chart may set both."""
    found, _ = read_settings({**ENDPOINT, **CLIENT, f"{A}API_KEY": "canary-key"})
    assert found.openfga.client_id == "me"
    with pytest.raises(SettingsError, match="TOKEN_ENDPOINT: set all or none"):
        read_settings({**ENDPOINT, f"{A}API_KEY": "canary-key", f"{A}CLIENT_ID": "me"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"LAKEKEEPER__AUTHZ_BACKEND": "openfga"}, "needs LAKEKEEPER__OPENFGA__ENDPOINT"),
        ({**ENDPOINT, f"{A}CLIENT_ID": "me"}, "TOKEN_ENDPOINT: set all or none"),
        ({**ENDPOINT, f"{A}CLIENT_SECRET": "canary-secret"}, "TOKEN_ENDPOINT: set all or none"),
        ({**ENDPOINT, f"{A}SCOPE": "fga"}, "needs LAKEKEEPER__OPENFGA__CLIENT_ID"),
        ({f"{A}ENDPOINT": "http://me:canary@openfga:8080"}, "without password"),
        ({f"{A}ENDPOINT": "ftp://openfga"}, "ENDPOINT"),
        ({**ENDPOINT, f"{A}STORE_NAME": "a\nb\x00"}, "STORE_NAME"),
        ({**ENDPOINT, f"{A}AUTHORIZATION_MODEL_PREFIX": "a:b#c"}, "AUTHORIZATION_MODEL_PREFIX"),
        ({**ENDPOINT, f"{A}MAX_BATCH_CHECK_SIZE": "0"}, "MAX_BATCH_CHECK_SIZE"),
        ({**ENDPOINT, f"{A}API_KYE": "canary"}, "this version does not support it"),
    ],
)
def test_invalid_settings_stop_the_start(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings(given)
    assert said in str(refused.value)
    assert "canary" not in str(refused.value)
