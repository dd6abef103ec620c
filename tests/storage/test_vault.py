"""Secrets in Vault, on a fake and, where it was built (`tests/parts/vault.py`), on a real Vault.

The fake proves the requests and the parsing of responses. Policies, leases and versions are proved on the real Vault;
Kubernetes sign-in and namespaces by the fake alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.ids import new_id
from storage.secrets.port import SecretMissing, SecretStoreNotConfigured, SecretStoreUnavailable
from storage.secrets.vault import VaultAccess, VaultSecrets, VaultSession
from tests.parts.fake_vault import MOUNT, PASSWORD, POD_TOKEN, USER, FakeVault
from tests.parts.vault import Vault

DOCUMENT = {"type": "gcs", "key": {"private_key": "canary-ü\n", "n": "1"}}


def access(vault: FakeVault | Vault, **changes: Any) -> VaultAccess:
    usual = VaultAccess(
        url=vault.url, method="userpass", auth_mount="userpass", user=USER, password=PASSWORD, token="",
        token_file=None, namespace=None, ca_bundle=None, connect_timeout=1.0, request_timeout=1.0, retries=2,
    )  # fmt: skip
    return replace(usual, **changes)


def store_key(vault: FakeVault | Vault, **changes: Any) -> VaultSecrets:
    return VaultSecrets(VaultSession(access(vault, **changes)), mount=MOUNT, folder="secret")


def put(store: VaultSecrets) -> UUID:
    secret_id = new_id()
    store.put(secret_id, DOCUMENT)
    return secret_id


def error(kind: type[CatalogError], act: Callable[[], object]) -> str:
    with pytest.raises(kind) as refused:
        act()
    assert "canary" not in repr(refused.value) + repr(refused.value.__cause__)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    return refused.value.message


def test_a_secret_is_stored_and_deleted(vault: FakeVault | Vault) -> None:
    store = store_key(vault)
    assert list(store.ids()) == []
    one, other = put(store), put(store)
    assert store.get(one) == store.get(other) == DOCUMENT
    assert vault.stored() == {f"secret/{one}": DOCUMENT, f"secret/{other}": DOCUMENT}
    assert set(store.ids()) == {one, other}
    store.delete(one)
    store.delete(one)
    assert list(store.ids()) == [other]
    assert error(SecretMissing, lambda: store.get(one)) == (
        f"Secret {one} does not exist in Vault at {MOUNT}/data/secret/{one}"
    )


def test_other_files_in_the_folder_are_kept(fake_vault: FakeVault) -> None:
    fake_vault.entries["secret/else"] = fake_vault.entries["secret/more/below"] = [{}]
    store = store_key(fake_vault)
    one = put(store)
    assert list(store.ids()) == [one]
    fake_vault.entries[f"secret/{one}"] = [["no object"]]
    with pytest.raises(CatalogError, match="is not a credential"):
        store.get(one)


def test_each_way_to_sign_in(vault: FakeVault | Vault, tmp_path: Path) -> None:
    role_id, secret_id = vault.role()
    token_file = tmp_path / "token"
    token_file.write_text(vault.new_token() + "\n")
    ways: list[dict[str, Any]] = [
        {},
        {"method": "approle", "auth_mount": "approle", "user": role_id, "password": secret_id},
        {"method": "token", "token": vault.new_token()},
        {"method": "token", "token_file": token_file},
    ]
    for way in ways:
        store = store_key(vault, **way)
        assert store.get(put(store)) == DOCUMENT


def test_the_pods_own_token_signs_in(fake_vault: FakeVault, tmp_path: Path) -> None:
    pod = tmp_path / "token"
    pod.write_text(f"{POD_TOKEN}\n")
    way = {"method": "kubernetes", "auth_mount": "kubernetes", "user": "icekeeper", "token_file": pod}
    store = store_key(fake_vault, **way, namespace="teams/data")
    assert store.get(put(store)) == DOCUMENT
    assert fake_vault.namespaces == {"teams/data"}
    pod.unlink()
    fake_vault.revoke_all()
    assert "cannot be read from" in error(SecretStoreNotConfigured, lambda: store.get(new_id()))


@pytest.mark.parametrize("content", ["", "  \n", "a\nb", "ü", "a b\x00"])
def test_a_file_without_a_token(fake_vault: FakeVault, tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    store = store_key(fake_vault, method="token", token_file=path)
    assert "contains no token" in error(SecretStoreNotConfigured, lambda: put(store))


def test_a_token_file_is_read_again_when_its_token_expires(fake_vault: FakeVault, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(fake_vault.new_token())
    store = store_key(fake_vault, method="token", token_file=path)
    one = put(store)
    fake_vault.revoke_all()
    assert "rejected the sign-in" in error(SecretStoreNotConfigured, lambda: store.get(one))
    path.write_text(fake_vault.new_token())
    assert store.get(one) == DOCUMENT


@pytest.mark.parametrize(
    "way",
    [
        {"password": "canary-wrong"},
        {"user": "unknown"},
        {"auth_mount": "elsewhere"},
        {"method": "approle", "auth_mount": "approle", "user": "unknown", "password": "canary-wrong"},
        {"method": "token", "token": "canary-wrong"},
    ],
)
def test_a_refused_sign_in_says_where_to_look(vault: FakeVault | Vault, way: dict[str, Any]) -> None:
    store = store_key(vault, **way)
    for act in (store.require_readable, lambda: put(store)):
        message = error(SecretStoreNotConfigured, act)
        assert "rejected the sign-in of this server" in message
        assert "LAKEKEEPER__KV2__*" in message


def test_a_policy_that_lacks_something_is_no_lost_token(vault: FakeVault | Vault) -> None:
    store = store_key(vault)
    one = put(store)
    vault.deny(denies=True)
    for act in (lambda: store.get(one), lambda: put(store), lambda: store.delete(one), lambda: list(store.ids())):
        assert "must allow create" in error(SecretStoreNotConfigured, act)
    vault.deny(denies=False)
    assert store.get(one) == DOCUMENT
    if isinstance(vault, FakeVault):
        assert len(vault.logins) == 1, "no new sign-in for that"


def test_a_revoked_token_is_renewed(vault: FakeVault | Vault) -> None:
    store = store_key(vault)
    one = put(store)
    for _ in range(2):
        vault.revoke_all()
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda _: store.get(one), range(16))) == [DOCUMENT] * 16
    if isinstance(vault, FakeVault):
        assert len(vault.logins) == 3, "one thread signs in, the others wait for it"


def test_a_token_is_renewed_before_it_ends_and_replaced_when_it_must_end(vault: FakeVault | Vault) -> None:
    vault.set_lifetime(2, 5)
    store = store_key(vault)
    one = put(store)
    until = time.monotonic() + 7

    def keep_asking(_: int) -> int:
        count = 0
        while time.monotonic() < until:
            assert store.get(one) == DOCUMENT
            count += 1
            time.sleep(0.05)
        return count

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(keep_asking, range(4))) > 100
    if isinstance(vault, FakeVault):
        assert 1 <= vault.renewals <= 6, "one thread renews"
        assert 2 <= len(vault.logins) <= 4


def test_an_expired_token_is_renewed(fake_vault: FakeVault) -> None:
    fake_vault.set_lifetime(1, 1)
    store = store_key(fake_vault)
    one = put(store)
    time.sleep(1.1)
    assert store.get(one) == DOCUMENT
    assert fake_vault.renewals == 0


def test_a_failure_of_the_moment_is_waited_out(fake_vault: FakeVault) -> None:
    store = store_key(fake_vault)
    one = put(store)
    for statuses in ([500, 503], [429], [412, 502]):
        fake_vault.failing = list(statuses)
        assert store.get(one) == DOCUMENT
    fake_vault.failing = [500] * 3
    assert error(SecretStoreUnavailable, lambda: store.get(one)) == (
        "Vault does not respond as expected: InternalServerError"
    )
    assert fake_vault.failing == []
    fake_vault.failing = [503] * 3
    with pytest.raises(SecretStoreUnavailable):
        store.delete(one)
    assert len(fake_vault.failing) == 2, "a deletion is not retried"


def test_a_sealed_vault_is_unavailable(fake_vault: FakeVault) -> None:
    fake_vault.is_sealed = True
    store = store_key(fake_vault)
    assert "VaultDown" in error(SecretStoreUnavailable, lambda: put(store))
    assert SecretStoreUnavailable.retry_after == 5
    store.require_readable()


@pytest.mark.parametrize("status", [301, 307])
def test_redirects_are_not_taken_for_responses(fake_vault: FakeVault, status: int) -> None:
    store = store_key(fake_vault)
    one = put(store)
    for act in (lambda: put(store), lambda: store.get(one), lambda: store.delete(one)):
        fake_vault.failing = [status]
        assert "redirects elsewhere" in error(SecretStoreUnavailable, act)
    assert store.get(one) == DOCUMENT


def test_another_program_responds(fake_vault: FakeVault) -> None:
    fake_vault.failing = [200]
    assert "is not Vault" in error(SecretStoreNotConfigured, lambda: put(store_key(fake_vault)))


def test_without_vault_no_request_waits_long_and_then_it_continues(vault: FakeVault | Vault) -> None:
    store = store_key(vault)
    one = put(store)
    with vault.relay.refusing():
        assert "ConnectionError" in error(SecretStoreUnavailable, lambda: store.get(one))
    assert store.get(one) == DOCUMENT
    with vault.relay.silent():
        began = time.monotonic()
        assert "Timeout" in error(SecretStoreUnavailable, lambda: store.get(one))
        assert 3 <= time.monotonic() - began < 6
    assert store.get(one) == DOCUMENT


def test_another_id_is_another_secret(fake_vault: FakeVault) -> None:
    store = store_key(fake_vault)
    put(store)
    with pytest.raises(SecretMissing):
        store.get(uuid4())


def test_vault_credentials_are_not_disclosed(fake_vault: FakeVault) -> None:
    threads = threading.active_count()
    session = VaultSession(access(fake_vault, token="canary-token"))
    session.sign_in()
    reported = repr(access(fake_vault, token="canary-token")) + repr(session) + repr(session._current)
    assert "canary" not in reported
    assert "hvs." not in reported
    assert threading.active_count() < threads + 10
