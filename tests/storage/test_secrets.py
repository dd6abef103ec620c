"""Secrets in the database: encrypted with the key of the deployment, and deleted with their owner."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection
from pydantic import SecretStr

from icekeeper.conf.environment import SettingsError, read_settings
from storage.models import Secret
from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretStore, SecretStoreNotConfigured, SecretUnreadable
from storage.secrets.stores import secret_store

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

DOCUMENT = {"type": "s3", "credential-type": "access-key", "access-key-id": "canary-1", "secret-access-key": "canary-ü"}


def put(store: SecretStore) -> UUID:
    secret_id = uuid4()
    store.put(secret_id, DOCUMENT)
    return secret_id


@pytest.fixture
def with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"pg_encryption_key": SecretStr("a long random text")}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))


def test_a_secret_is_stored_encrypted_and_deleted(with_key: None) -> None:
    store = secret_store()
    one, other = put(store), put(store)
    assert store.get(one) == store.get(other) == DOCUMENT
    rows = [bytes(row.ciphertext) for row in Secret.objects.all()]
    assert len(set(rows)) == 2
    assert not any(b"canary" in row for row in rows)
    store.delete(one)
    store.delete(one)
    assert [row.pk for row in Secret.objects.all()] == [other]
    with pytest.raises(SecretUnreadable, match="does not exist"):
        store.get(one)


def test_another_key_reads_nothing_and_the_error_names_the_setting() -> None:
    secret_id = put(DatabaseSecrets(["one"]))
    with pytest.raises(SecretUnreadable, match="LAKEKEEPER__PG_ENCRYPTION_KEY") as refused:
        DatabaseSecrets(["other"]).get(secret_id)
    assert "canary" not in refused.value.message
    assert DatabaseSecrets(["other", "one"]).get(secret_id) == DOCUMENT, "a key that was replaced still reads"


def test_a_tampered_row_is_not_read() -> None:
    store = DatabaseSecrets(["one"])
    secret_id = put(store)
    row = Secret.objects.get()
    changed = bytearray(bytes(row.ciphertext))
    changed[40] ^= 1
    Secret.objects.update(ciphertext=bytes(changed))
    with pytest.raises(SecretUnreadable):
        store.get(secret_id)


def test_secrets_of_the_embedded_database_are_read_after_a_key_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps nothing without a key")
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"pg_encryption_key": None}))
    secret_id = put(secret_store())
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("chosen later")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    assert secret_store().get(secret_id) == DOCUMENT


def test_secrets_of_the_embedded_database_are_read_after_a_key_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/upgrade.md describes."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps nothing without a key")
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"pg_encryption_key": None}))
    monkeypatch.setattr(settings, "SECRET_KEY", "short")
    secret_id = put(secret_store())
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("short")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    monkeypatch.setattr(settings, "SECRET_KEY", "a long one")
    assert secret_store().get(secret_id) == DOCUMENT


def test_without_a_key_only_the_embedded_database_keeps_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"pg_encryption_key": None}))
    store = secret_store()
    if connection.vendor == "sqlite":
        assert store.get(put(store)) == DOCUMENT
        monkeypatch.setattr(settings, "SECRET_KEY", "another one")
        with pytest.raises(SecretUnreadable):
            secret_store().get(Secret.objects.get().pk)
        return
    with pytest.raises(SecretStoreNotConfigured, match="LAKEKEEPER__PG_ENCRYPTION_KEY"):
        store.require_ready()
    with pytest.raises(SecretStoreNotConfigured):
        put(store)
    assert not Secret.objects.exists()
    store.delete(uuid4())


def test_the_key_stays_out_of_messages_and_an_empty_one_is_none() -> None:
    settings_, _ = read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": "canary"})
    assert "canary" not in repr(settings_)
    assert read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": ""})[0].pg_encryption_key is None


VAULT = {
    "LAKEKEEPER__SECRET_BACKEND": "kv2",
    "LAKEKEEPER__KV2__URL": "https://vault.example.com:8200",
    "LAKEKEEPER__KV2__USER": "icekeeper",
    "LAKEKEEPER__KV2__PASSWORD": "canary",
    "LAKEKEEPER__KV2__SECRET_MOUNT": "/lake/",
}
OWN = "ICEKEEPER__VAULT__"


def test_lakekeepers_settings_of_vault_are_enough() -> None:
    own, unread = read_settings(VAULT)
    assert (own.secret_backend, own.kv2.secret_mount, own.vault.auth_method, unread) == ("kv2", "lake", "userpass", [])
    assert "canary" not in repr(own)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"LAKEKEEPER__KV2__URL": None}, "LAKEKEEPER__KV2__URL"),
        ({"LAKEKEEPER__KV2__SECRET_MOUNT": None}, "LAKEKEEPER__KV2__SECRET_MOUNT"),
        ({"LAKEKEEPER__KV2__PASSWORD": None}, "userpass needs LAKEKEEPER__KV2__PASSWORD"),
        (
            {"LAKEKEEPER__KV2__USER": None, "LAKEKEEPER__SECRET_BACKEND": "postgres"},
            "userpass needs LAKEKEEPER__KV2__USER",
        ),
        ({"LAKEKEEPER__KV2__PASSWORD": ""}, "userpass needs LAKEKEEPER__KV2__PASSWORD"),
        ({"LAKEKEEPER__KV2__URL": "vault"}, "LAKEKEEPER__KV2__URL"),
        ({"LAKEKEEPER__KV2__SECRET_MOUNT": "../sys"}, "LAKEKEEPER__KV2__SECRET_MOUNT"),
        ({"LAKEKEEPER__KV2__SECRET_MOUNT": "a?b"}, "LAKEKEEPER__KV2__SECRET_MOUNT"),
        ({"LAKEKEEPER__KV2__TOKEN": "canary"}, "LAKEKEEPER__KV2__TOKEN is set, but this version does not support it"),
        ({"LAKEKEEPER__SECRET_BACKEND": "canary"}, "LAKEKEEPER__SECRET_BACKEND"),
        ({f"{OWN}AUTH_METHOD": "token"}, f"either {OWN}TOKEN or {OWN}TOKEN_FILE"),
        ({f"{OWN}AUTH_METHOD": "token", f"{OWN}TOKEN": "canary", f"{OWN}TOKEN_FILE": "/x"}, "either"),
        ({f"{OWN}AUTH_METHOD": "approle", f"{OWN}ROLE_ID": "r"}, f"{OWN}SECRET_ID"),
        ({f"{OWN}AUTH_METHOD": "kubernetes"}, f"{OWN}KUBERNETES_ROLE"),
        ({f"{OWN}FOLDER": "a/../b"}, f"{OWN}FOLDER"),
    ],
)
def test_missing_vault_settings_stop_the_start(change: dict[str, str | None], complaint: str) -> None:
    variables = {name: value for name, value in (VAULT | change).items() if value is not None}
    with pytest.raises(SettingsError) as refused:
        read_settings(variables)
    assert complaint in str(refused.value)
    assert "canary" not in str(refused.value).replace("got 'canary'", "")


@pytest.mark.parametrize("text", ['["oidc~alice", "kubernetes~r2"]', "[oidc~alice,kubernetes~r2]"])
def test_instance_admins_are_a_list_of_user_ids(text: str) -> None:
    settings_, _ = read_settings({"LAKEKEEPER__INSTANCE_ADMINS": text})
    assert settings_.instance_admins == ["oidc~alice", "kubernetes~r2"]


@pytest.mark.parametrize("text", ["[alice]", "[oidc~]", "[~alice]", "[oidc~alice,bob]", "[oidc~alice"])
def test_invalid_instance_admins_stop_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__INSTANCE_ADMINS"):
        read_settings({"LAKEKEEPER__INSTANCE_ADMINS": text})
