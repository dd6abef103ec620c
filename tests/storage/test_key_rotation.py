"""Rotation of the encryption key while servers run: no secret is lost at any interruption, and none is disclosed."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pydantic import SecretStr

from icekeeper.conf.environment import SettingsError, read_settings
from storage.models import Secret, Warehouse
from storage.secrets.database import DatabaseSecrets, KeyRing
from storage.secrets.stores import secret_store
from storage.services.secret_maintenance import Rotation, rotate_encryption_key
from tenancy.actor import INTERNAL
from tests.harness.log_lines import log_lines
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import KEY, S3, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
api = ApiClient("/management/v1")
OLD, NEW, OTHER = "canary-old-text", "canary-new-text", "canary-other-text"


def use_keys(monkeypatch: pytest.MonkeyPatch, first: str, *old: str) -> None:
    use_settings(monkeypatch, pg_encryption_key=SecretStr(first), pg_encryption_old_keys=[SecretStr(o) for o in old])


def key_id(text: str) -> str:
    return KeyRing([text]).first_id


def put(text: str, number: int = 0, *, noted: bool = True) -> UUID:
    """Store a secret encrypted with the key of `text`; without `noted`, as earlier versions stored it."""
    secret_id = uuid4()
    DatabaseSecrets([text]).put(secret_id, {"secret": f"canary-{number}"})
    if not noted:
        Secret.objects.filter(pk=secret_id).update(key_id=None)
    return secret_id


def run(*options: str) -> tuple[str, str]:
    reported, progress = io.StringIO(), io.StringIO()
    try:
        call_command("rotate_encryption_key", *options, stdout=reported, stderr=progress)
    finally:
        assert "canary" not in reported.getvalue() + progress.getvalue()
    return reported.getvalue(), progress.getvalue()


def test_every_secret_gets_the_first_key(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    ids = [put(OLD, 0), put(OLD, 1), put(OLD, 2, noted=False), put(NEW, 3), put(OTHER, 4)]
    use_keys(monkeypatch, NEW, OLD, OTHER)
    reported, _ = run("--dry-run", "--json")
    counts = {"not noted": 1, key_id(OLD): 2, key_id(NEW): 1, key_id(OTHER): 1}
    assert json.loads(reported) == {
        "dry-run": True, "key-in-use": key_id(NEW), "encrypted-anew": 4, "credentials-by-key": counts,
        "unreadable": 0, "unreadable-owners": [],
    }  # fmt: skip
    assert Secret.objects.filter(key_id=key_id(OLD)).count() == 2
    reported, progress = run()
    assert reported.startswith(f"Credentials re-encrypted: 4. The key in use is {key_id(NEW)}.\n")
    assert progress.splitlines()[-1] == "4 re-encrypted"
    assert set(Secret.objects.values_list("key_id", flat=True)) == {key_id(NEW)}
    use_keys(monkeypatch, NEW)
    assert [secret_store().get(pk)["secret"] for pk in ids] == [f"canary-{number}" for number in range(5)]
    reported, progress = run("--json")
    assert json.loads(reported)["encrypted-anew"] == 0
    assert progress == ""


def test_the_log_has_it_without_its_text(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    put(OLD)
    use_keys(monkeypatch, NEW, OLD)
    with log_lines("icekeeper.audit") as lines:
        with_commit(run)
        [line] = lines.read()
    assert (line["message"], line["key"], line["secrets"]) == ("server.encryption-key-rotated", key_id(NEW), 1)
    assert "canary" not in str(line)


def with_commit(act: Any) -> None:
    """Run the on-commit hooks in a test without a commit."""
    from django.test import TestCase

    with TestCase.captureOnCommitCallbacks(execute=True):
        act()


def test_unreadable_secrets_are_reported_and_kept(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    use_keys(monkeypatch, OTHER)
    created = api.post("/warehouse", {"warehouse-name": "lost", "storage-profile": S3, "storage-credential": KEY})
    put(OLD, 1), put(OTHER, 2)
    before = dict(Secret.objects.filter(key_id=key_id(OTHER)).values_list("pk", "ciphertext"))
    use_keys(monkeypatch, NEW, OLD)
    for options in (["--dry-run"], [], []):
        with pytest.raises(CommandError, match="2 credentials cannot be decrypted with any key") as refused:
            run(*options)
        assert f"lost ({created.json()['id']})" in str(refused.value)
    with pytest.raises(CommandError, match="OLD_KEYS"):
        run("--json")
    assert Secret.objects.filter(key_id=key_id(NEW)).count() == 1
    assert dict(Secret.objects.filter(pk__in=before).values_list("pk", "ciphertext")) == before
    use_keys(monkeypatch, NEW, OTHER)
    run()
    assert set(Secret.objects.values_list("key_id", flat=True)) == {key_id(NEW)}


def test_a_rotation_stops_at_any_batch_and_resumes(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    ids = [put(OLD, number) for number in range(10)]
    use_keys(monkeypatch, NEW, OLD)

    def stop(so_far: Rotation) -> None:
        if so_far.done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotate_encryption_key(actor=INTERNAL, progress=stop, batch=2)
    assert Secret.objects.filter(key_id=key_id(NEW)).count() == 4
    assert rotate_encryption_key(actor=INTERNAL, progress=lambda _: None, batch=3).done == 6
    use_keys(monkeypatch, NEW)
    assert [secret_store().get(pk)["secret"] for pk in ids] == [f"canary-{number}" for number in range(10)]


def test_a_secret_that_changes_concurrently_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, bootstrapped: None
) -> None:
    """Another rotation ran and a credential was replaced between two batches."""
    ids = [put(OLD, number) for number in range(4)]
    use_keys(monkeypatch, NEW, OLD)
    first = min(ids)

    def meanwhile(so_far: Rotation) -> None:
        if so_far.done == 1:
            Secret.objects.filter(pk=sorted(ids)[1]).delete()
            assert rotate_encryption_key(actor=INTERNAL, progress=lambda _: None).done == 2

    rotated = rotate_encryption_key(actor=INTERNAL, progress=meanwhile, batch=1)
    assert (rotated.done, rotated.unreadable) == (1, [])
    assert set(Secret.objects.values_list("key_id", flat=True)) == {key_id(NEW)}
    assert secret_store().get(first)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_credentials_may_be_changed_at_once(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    use_keys(monkeypatch, OLD)
    body = {"warehouse-name": "wh", "storage-profile": S3, "storage-credential": KEY}
    own = ApiClient(f"/management/v1/warehouse/{api.post('/warehouse', body).json()['id']}")
    for number in range(40):
        put(OLD, number)
    for first, old in ((NEW, OLD), (OLD, NEW)):
        use_keys(monkeypatch, first, old)

        def rotate() -> Any:
            return rotate_encryption_key(actor=INTERNAL, progress=lambda _: None, batch=3)

        def change() -> Any:
            secret = uuid4().hex
            response = own.post("/storage-credential", {"new-storage-credential": KEY | {"secret-access-key": secret}})
            return response.status, secret

        results = at_once(rotate, change, rotate, change)
        assert [results[1][0], results[3][0]] == [200, 200]
        kept = secret_store().get(Warehouse.objects.get().secret_id)
        assert kept["secret-access-key"] in {results[1][1], results[3][1]}
        assert set(Secret.objects.values_list("key_id", flat=True)) == {key_id(first)}
        assert Secret.objects.count() == 41


def test_in_maintenance_mode_nothing_is_re_encrypted(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    put(OLD)
    use_keys(monkeypatch, NEW, OLD)
    use_settings(monkeypatch, maintenance_mode="read-only")
    with pytest.raises(CommandError, match="Maintenance mode"):
        run()
    assert json.loads(run("--dry-run", "--json")[0])["encrypted-anew"] == 1


def test_without_a_key_nothing_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite always has a key")
    use_settings(monkeypatch, pg_encryption_key=None)
    with pytest.raises(CommandError, match="LAKEKEEPER__PG_ENCRYPTION_KEY"):
        run()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("canary-1", ["canary-1"]),
        ("canary-1, canary-2", ["canary-1", "canary-2"]),
        ('["canary,1", "canary-2"]', ["canary,1", "canary-2"]),
        ("[]", []),
    ],
)
def test_old_keys_are_a_list(text: str, keys: list[str]) -> None:
    variables = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "new", "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS": text}
    own, _ = read_settings(variables)
    assert [key.get_secret_value() for key in own.pg_encryption_old_keys] == keys
    assert "canary" not in repr(own)


@pytest.mark.parametrize("text", ['["canary", ""]', '["canary", [7]]', ",".join(["canary"] * 17), "[canary"])
def test_wrong_old_keys_stop_the_start_and_are_not_repeated(text: str) -> None:
    variables = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "new", "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS": text}
    with pytest.raises(SettingsError, match="ICEKEEPER__PG_ENCRYPTION_OLD_KEYS") as refused:
        read_settings(variables)
    assert "canary" not in str(refused.value)


def test_old_keys_need_a_new_one() -> None:
    with pytest.raises(SettingsError, match="OLD_KEYS needs LAKEKEEPER__PG_ENCRYPTION_KEY"):
        read_settings({"ICEKEEPER__PG_ENCRYPTION_OLD_KEYS": "canary"})


def test_a_server_without_credentials_needs_no_key(monkeypatch: pytest.MonkeyPatch, bootstrapped: None) -> None:
    """A secret that no warehouse references does not stop the start either."""
    from storage.secrets.stores import require_readable_secrets

    put(OLD)
    use_settings(monkeypatch, pg_encryption_key=None)
    monkeypatch.setattr(settings, "SECRET_KEY", "another one")
    require_readable_secrets()
