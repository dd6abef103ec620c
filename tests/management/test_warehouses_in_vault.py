"""Warehouse credentials in Vault: no secret is lost or orphaned, and no lock waits for Vault."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from icekeeper.conf.environment import read_settings
from icekeeper.kernel.errors.types import CommitStateUnknown
from icekeeper.kernel.ids import new_id
from storage.models import Secret, Warehouse
from storage.secrets.port import SecretMissing, SecretStoreNotConfigured, SecretUnreadable
from storage.secrets.stores import (
    CredentialChanged,
    new_secret,
    read_secret,
    require_readable_secrets,
    secret_store,
    stored_credential,
)
from tenancy.models import AuditRecord, OutboxEvent
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import KEY, S3, refuse, use_settings
from tests.parts.fake_vault import MOUNT, PASSWORD, USER, FakeVault
from tests.parts.vault import Vault

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]
api = ApiClient("/management/v1")
NEW_KEY = KEY | {"secret-access-key": "canary-new"}
ENCRYPTION_KEY = "a long random text"


def variables(vault: FakeVault | Vault, backend: str = "kv2") -> dict[str, str]:
    return {
        "LAKEKEEPER__SECRET_BACKEND": backend,
        "LAKEKEEPER__KV2__URL": vault.url,
        "LAKEKEEPER__KV2__USER": USER,
        "LAKEKEEPER__KV2__PASSWORD": PASSWORD,
        "LAKEKEEPER__KV2__SECRET_MOUNT": MOUNT,
        "LAKEKEEPER__PG_ENCRYPTION_KEY": ENCRYPTION_KEY,
        "ICEKEEPER__VAULT__CONNECT_TIMEOUT": "1",
        "ICEKEEPER__VAULT__REQUEST_TIMEOUT": "2",
        "ICEKEEPER__VAULT__RETRIES": "1",
    }


def choose(monkeypatch: pytest.MonkeyPatch, vault: FakeVault | Vault, backend: str = "kv2") -> None:
    own, _ = read_settings(variables(vault, backend))
    changed = ("secret_backend", "kv2", "vault", "pg_encryption_key")
    use_settings(monkeypatch, **{name: getattr(own, name) for name in changed})


@pytest.fixture
def in_vault(vault: FakeVault | Vault, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> FakeVault | Vault:
    choose(monkeypatch, vault)
    return vault


@pytest.fixture
def in_fake(fake_vault: FakeVault, bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> FakeVault:
    choose(monkeypatch, fake_vault)
    return fake_vault


def create(name: str = "wh", profile: dict[str, Any] = S3, credential: dict[str, Any] | None = KEY) -> ApiClient:
    body = {"warehouse-name": name, "storage-profile": profile, "storage-credential": credential}
    created = api.post("/warehouse", body)
    assert created.status == 201, created.body
    return ApiClient(f"/management/v1/warehouse/{created.json()['id']}")


def kept() -> dict[str, Any]:
    """The expected secret of the only warehouse, by path."""
    secret_id = Warehouse.objects.get().secret_id
    return {} if secret_id is None else {f"secret/{secret_id}": read_secret(secret_id)}


def test_a_credential_is_created_and_deleted_with_its_warehouse(in_vault: FakeVault | Vault) -> None:
    own = create()
    assert in_vault.stored() == kept() == {f"secret/{Warehouse.objects.get().secret_id}": KEY}
    assert not Secret.objects.exists()
    assert own.post("/storage-credential", {"new-storage-credential": NEW_KEY}).status == 200
    assert in_vault.stored() == kept()
    assert list(in_vault.stored().values()) == [NEW_KEY]
    assert stored_credential(Warehouse.objects.get().secret_id)
    assert own.post("/storage", {"storage-profile": S3, "storage-credential": KEY}).status == 200
    assert list(in_vault.stored().values()) == [KEY]
    assert own.post("/storage", {"storage-profile": S3}).status == 200
    assert in_vault.stored() == {}
    assert own.post("/storage-credential", {"new-storage-credential": NEW_KEY}).status == 200
    assert own.delete().status == 204
    assert in_vault.stored() == {}


def test_rejected_requests_never_reach_vault(
    in_fake: FakeVault, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = create("taken", credential=None)
    before = everything()
    body = {"warehouse-name": "wh", "storage-profile": S3 | {"key-prefix": "other"}, "storage-credential": KEY}
    assert api.post("/warehouse", body | {"storage-profile": S3}).status == 400
    assert api.post("/warehouse", body | {"warehouse-name": "TAKEN"}).status == 409
    assert api.post("/warehouse", body | {"storage-profile": {"type": "gcs", "bucket": "my-bucket"}}).status == 400
    assert api.post("/warehouse", body | {"storage-credential": KEY | {"type": "az"}}).status == 400
    assert own.post("/storage", {"storage-profile": S3 | {"bucket": "else"}, "storage-credential": KEY}).status == 400
    assert own.post("/storage-credential", {"new-storage-credential": {}}).status == 400
    no_one = ApiClient(f"/management/v1/warehouse/{new_id()}")
    assert no_one.post("/storage-credential", {"new-storage-credential": KEY}).status == 404
    refuse(monkeypatch)
    assert api.post("/warehouse", body).status == 403
    assert own.post("/storage-credential", {"new-storage-credential": KEY}).status in {403, 404}
    assert everything() == before
    assert in_fake.logins == []


def test_a_failed_transaction_leaves_no_secret(in_vault: FakeVault | Vault) -> None:
    """Two concurrent warehouses of one name: both write their secrets, and one transaction commits."""
    bodies = [
        {"warehouse-name": "wh", "storage-profile": S3 | {"key-prefix": prefix}, "storage-credential": KEY}
        for prefix in "abcd"
    ]
    responses = at_once(*[lambda body=body: api.post("/warehouse", body) for body in bodies])
    assert sorted(response.status for response in responses) == [201, 409, 409, 409]
    assert in_vault.stored() == kept()


def test_concurrent_credential_updates_keep_one_secret(in_vault: FakeVault | Vault) -> None:
    own = create()
    keys = [KEY | {"secret-access-key": f"canary-{number}"} for number in range(4)]
    changes = [lambda key=key: own.post("/storage-credential", {"new-storage-credential": key}) for key in keys]
    assert [response.status for response in at_once(*changes)] == [200] * 4
    assert in_vault.stored() == kept()
    assert next(iter(in_vault.stored().values())) in keys


def test_an_unknown_result_keeps_the_secret(in_fake: FakeVault) -> None:
    """A warehouse may refer to it; `check_secrets` can find out later."""
    with pytest.raises(CommitStateUnknown), new_secret(KEY):
        raise CommitStateUnknown("lost")
    assert list(in_fake.stored().values()) == [KEY]
    with pytest.raises(RuntimeError), new_secret(NEW_KEY):
        raise RuntimeError
    assert list(in_fake.stored().values()) == [KEY]


def test_without_vault_a_change_is_refused_and_changes_nothing(
    in_vault: FakeVault | Vault, everything: Callable[[], Fingerprint]
) -> None:
    own = create()
    before, stored = everything(), in_vault.stored()
    with in_vault.relay.refusing():
        for response in (
            own.post("/storage-credential", {"new-storage-credential": NEW_KEY}),
            own.post("/storage", {"storage-profile": S3, "storage-credential": NEW_KEY}),
            api.post(
                "/warehouse",
                {"warehouse-name": "x", "storage-profile": S3 | {"key-prefix": "x"}, "storage-credential": KEY},
            ),
        ):
            assert response.refused(503, "SecretStoreUnavailable")
            assert response.headers["Retry-After"] == "5"
            assert b"canary" not in response.body
        assert own.post("/rename", {"new-name": "wh"}).status == 200, "operations without a secret continue"
    assert everything() == before
    assert in_vault.stored() == stored


def test_a_secret_that_cannot_be_deleted_is_found_later(
    in_vault: FakeVault | Vault, caplog: pytest.LogCaptureFixture
) -> None:
    own = create()
    with in_vault.relay.refusing(), caplog.at_level(logging.WARNING, "icekeeper.secrets"):
        assert own.post("/storage", {"storage-profile": S3}).status == 200
    assert "could not be deleted" in caplog.text
    assert len(in_vault.stored()) == 1
    assert json.loads(run("check_secrets", "--json")) == {"unreadable": [], "orphans-found": 0}, "it is too recent"


def run(name: str, *options: str) -> str:
    reported, progress = io.StringIO(), io.StringIO()
    try:
        call_command(name, *options, stdout=reported, stderr=progress)
    finally:
        assert "canary" not in reported.getvalue() + progress.getvalue()
        assert KEY["secret-access-key"] not in reported.getvalue() + progress.getvalue()
    return reported.getvalue()


def test_orphans_are_found_and_deleted(in_vault: FakeVault | Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    from storage.secrets.database import DatabaseSecrets
    from storage.secrets.vault import vault_secrets

    create()
    old = UUID(int=new_id().int - (3_601_000 << 80))  # the time in the id, an hour and a second ago
    for secret_id in (old, new_id()):
        vault_secrets().put(secret_id, NEW_KEY)
    DatabaseSecrets([ENCRYPTION_KEY]).put(old, NEW_KEY)
    assert json.loads(run("check_secrets", "--json")) == {"unreadable": [], "orphans-found": 2}
    assert run("check_secrets", "--delete-orphans") == "Orphaned secrets deleted: 2.\n"
    assert json.loads(run("check_secrets", "--json"))["orphans-found"] == 0
    assert len(in_vault.stored()) == 2
    assert kept().items() <= in_vault.stored().items()
    vault_secrets().delete(Warehouse.objects.get().secret_id)
    with pytest.raises(CommandError, match="1 secrets cannot be read:\nwarehouse wh "):
        run("check_secrets")


def test_no_lock_waits_for_vault(in_fake: FakeVault) -> None:
    own = create()
    responses: list[Any] = []

    def change() -> None:
        try:
            responses.append(own.post("/storage-credential", {"new-storage-credential": NEW_KEY}))
        finally:
            connections.close_all()

    with in_fake.relay.silent():
        changing = threading.Thread(target=change)
        changing.start()
        time.sleep(0.5)
        began = time.monotonic()
        assert own.post("/rename", {"new-name": "other"}).status == 200
        assert (
            api.post("/warehouse", {"warehouse-name": "x", "storage-profile": S3 | {"key-prefix": "x"}}).status == 201
        )
        assert time.monotonic() - began < 1.5
        assert changing.is_alive(), "Vault still has not responded"
        changing.join()
    assert [response.status for response in responses] == [503]


# --- moves between secret stores -----------------------------------------------------------------------------------


def test_secrets_move_to_vault_and_back(
    vault: FakeVault | Vault, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    choose(monkeypatch, vault, "postgres")
    ids = {}
    for name in "abc":
        own = create(name, S3 | {"key-prefix": name}, KEY | {"secret-access-key": f"canary-{name}"})
        ids[name] = own
    named = dict(Warehouse.objects.values_list("name", "secret_id"))
    before = {name: read_secret(secret_id) for name, secret_id in named.items() if secret_id}
    assert vault.stored() == {}
    choose(monkeypatch, vault)
    assert {name: read_secret(secret_id) for name, secret_id in named.items() if secret_id} == before
    with caplog.at_level(logging.WARNING, "icekeeper.secrets"):
        require_readable_secrets()
    assert "manage.py move_secrets" in caplog.text
    assert ids["c"].post("/storage-credential", {"new-storage-credential": KEY}).status == 200
    assert Secret.objects.count() == 2, "the former one is deleted from its store"
    assert json.loads(run("move_secrets", "--json")) == {"moved": 2, "failed": []}
    assert not Secret.objects.exists()
    assert len(vault.stored()) == 3
    recorded = AuditRecord.objects.filter(event="server.secrets-moved"), OutboxEvent.objects.filter(type="moveSecrets")
    assert [each.count() for each in recorded] == [1, 1]
    assert json.loads(run("move_secrets", "--json")) == {"moved": 0, "failed": []}
    assert [each.count() for each in recorded] == [1, 1]
    assert Warehouse.objects.filter(version=1).count() == 2, "no warehouse has changed"
    choose(monkeypatch, vault, "postgres")
    assert run("move_secrets") == "Credentials moved: 3.\n"
    assert vault.stored() == {}
    assert {name: read_secret(named[name]) for name in "ab"} == {name: before[name] for name in "ab"}


def test_an_interrupted_move_continues(
    in_fake: FakeVault, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], Fingerprint]
) -> None:
    choose(monkeypatch, in_fake, "postgres")
    create()
    [row] = Secret.objects.all()
    in_fake.entries[f"secret/{row.pk}"] = [KEY]  # written, but not yet deleted from the other store
    choose(monkeypatch, in_fake)
    assert json.loads(run("move_secrets", "--json"))["moved"] == 1
    assert not Secret.objects.exists()
    assert in_fake.stored() == {f"secret/{row.pk}": KEY}


def test_secrets_that_cannot_be_moved_are_kept(in_fake: FakeVault, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, in_fake, "postgres")
    create()
    [row] = Secret.objects.all()
    good = bytes(row.ciphertext)
    Secret.objects.update(ciphertext=b"broken")
    choose(monkeypatch, in_fake)
    with pytest.raises(
        CommandError, match=f"1 credentials could not be moved:\nwarehouse wh \\({Warehouse.objects.get().pk}\\)"
    ):
        run("move_secrets")
    assert bytes(Secret.objects.get().ciphertext) == b"broken"
    Secret.objects.update(ciphertext=good)
    with in_fake.relay.refusing(), pytest.raises(CommandError, match="Vault does not respond"):
        run("move_secrets")
    assert Secret.objects.count() == 1


# --- before the server starts ----------------------------------------------------------------------------------------


def test_a_server_looks_before_it_starts(in_fake: FakeVault, monkeypatch: pytest.MonkeyPatch) -> None:
    require_readable_secrets()
    create()
    require_readable_secrets()
    in_fake.entries.clear()
    with pytest.raises(SecretUnreadable, match="LAKEKEEPER__SECRET_BACKEND"):
        require_readable_secrets()
    use_settings(monkeypatch, secret_backend="postgres")
    with pytest.raises(SecretUnreadable, match="LAKEKEEPER__SECRET_BACKEND"):
        require_readable_secrets()
    in_fake.deny(denies=True)
    with pytest.raises(SecretStoreNotConfigured, match="policy"):
        require_readable_secrets()


def test_readers_of_a_warehouse_before_its_credential_changed_must_reload(in_fake: FakeVault) -> None:
    own = create()
    before = Warehouse.objects.get().secret_id
    assert own.post("/storage-credential", {"new-storage-credential": NEW_KEY}).status == 200
    with pytest.raises(CredentialChanged):
        stored_credential(before)
    assert stored_credential(Warehouse.objects.get().secret_id)


def test_a_credential_that_is_lost_in_vault_is_no_change(in_fake: FakeVault) -> None:
    create()
    secret_id = Warehouse.objects.get().secret_id
    assert secret_id is not None
    secret_store().delete(secret_id)
    with pytest.raises(SecretMissing):
        stored_credential(secret_id)
