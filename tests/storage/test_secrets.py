"""Secrets in the database: encrypted with the key of the deployment, gone when they are deleted."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection
from pydantic import SecretStr

from icekeeper.env import SettingsError, read_settings
from storage.models import Secret
from storage.secrets.database import DatabaseSecrets
from storage.secrets.port import SecretStore, SecretStoreNotConfigured, SecretUnreadable
from storage.secrets.stores import secret_store

pytestmark = pytest.mark.django_db

DOCUMENT = {"type": "s3", "credential-type": "access-key", "access-key-id": "canary-1", "secret-access-key": "canary-ü"}


def put(store: SecretStore) -> UUID:
    secret_id = uuid4()
    store.put(secret_id, DOCUMENT)
    return secret_id


@pytest.fixture
def with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"pg_encryption_key": SecretStr("a long random text")}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))


def test_a_secret_is_kept_encrypted_and_forgotten(with_key: None) -> None:
    store = secret_store()
    one, other = put(store), put(store)
    assert store.get(one) == store.get(other) == DOCUMENT
    rows = [bytes(row.ciphertext) for row in Secret.objects.all()]
    assert len(set(rows)) == 2
    assert not any(b"canary" in row for row in rows)
    store.delete(one)
    store.delete(one)
    assert [row.pk for row in Secret.objects.all()] == [other]
    with pytest.raises(SecretUnreadable, match="no secret"):
        store.get(one)


def test_another_key_reads_nothing_and_says_where_to_look() -> None:
    secret_id = put(DatabaseSecrets(["one"]))
    with pytest.raises(SecretUnreadable, match="LAKEKEEPER__PG_ENCRYPTION_KEY") as refused:
        DatabaseSecrets(["other"]).get(secret_id)
    assert "canary" not in refused.value.message
    assert DatabaseSecrets(["other", "one"]).get(secret_id) == DOCUMENT, "a key that was replaced still reads"


def test_a_row_that_somebody_changed_is_not_read() -> None:
    store = DatabaseSecrets(["one"])
    secret_id = put(store)
    row = Secret.objects.get()
    changed = bytearray(bytes(row.ciphertext))
    changed[40] ^= 1
    Secret.objects.update(ciphertext=bytes(changed))
    with pytest.raises(SecretUnreadable):
        store.get(secret_id)


def test_what_the_embedded_database_kept_is_read_when_a_key_is_chosen_later(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps nothing without a key")
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"pg_encryption_key": None}))
    secret_id = put(secret_store())
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("chosen later")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    assert secret_store().get(secret_id) == DOCUMENT


def test_what_the_embedded_database_kept_is_read_when_its_key_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/operations.md says of upgrades."""
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


def test_the_key_stays_out_of_messages_and_is_not_empty() -> None:
    settings_, _ = read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": "canary"})
    assert "canary" not in repr(settings_)
    with pytest.raises(SettingsError, match="LAKEKEEPER__PG_ENCRYPTION_KEY got a secret value"):
        read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": ""})


def test_other_secret_backends_stop_the_start() -> None:
    for variable, text in (("SECRET_BACKEND", "kv2"), ("KV2__URL", "http://vault")):
        with pytest.raises(SettingsError, match=f"LAKEKEEPER__{variable} is set, but this version cannot honour it"):
            read_settings({f"LAKEKEEPER__{variable}": text})
    assert read_settings({"LAKEKEEPER__SECRET_BACKEND": "postgres"})


@pytest.mark.parametrize("text", ['["oidc~alice", "kubernetes~r2"]', "[oidc~alice,kubernetes~r2]"])
def test_instance_admins_are_a_list_of_user_ids(text: str) -> None:
    settings_, _ = read_settings({"LAKEKEEPER__INSTANCE_ADMINS": text})
    assert settings_.instance_admins == ["oidc~alice", "kubernetes~r2"]


@pytest.mark.parametrize("text", ["[alice]", "[oidc~]", "[~alice]", "[oidc~alice,bob]", "[oidc~alice"])
def test_what_names_no_user_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__INSTANCE_ADMINS"):
        read_settings({"LAKEKEEPER__INSTANCE_ADMINS": text})
