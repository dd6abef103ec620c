"""Vended credentials of a warehouse: which are shared, between which callers, and which are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from pydantic import SecretStr

from icekeeper.conf.environment import read_settings
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.metrics import CLOUDS
from icekeeper.kernel.threads import set_slot_pool
from storage.credentials import read_credential
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.models import WarehouseStorage
from storage.profiles.kinds import read_profile
from storage.profiles.profile import MissingCredential
from storage.secrets.stores import secret_store
from storage.vending import vend as module
from storage.vending.delegation import FileAccess
from storage.vending.vend import UnsupportedCredential, issue, issue_credential, vend
from tests.parts.minio import Minio
from tests.storage.vending.cache_metrics_fixtures import CacheNumbers, cache_numbers, reset_metrics

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Empty the caches, and set the encryption key that PostgreSQL needs for cached credentials."""
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("a long random text")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    module._cache_of.cache_clear()
    reset_metrics()
    yield
    module._cache_of.cache_clear()


@pytest.fixture
def storage(minio: Minio, bucket: str) -> WarehouseStorage:
    return stored(minio, bucket)


def stored(minio: Minio, bucket: str, credential: dict[str, Any] | None = None, **members: Any) -> WarehouseStorage:
    document = minio.credential | (credential or {})
    profile = read_profile(minio.profile(bucket, "wh", **members), read_credential(document))
    secret_id = uuid4()
    secret_store().put(secret_id, document)
    return WarehouseStorage(uuid4(), 1, profile.as_json(), secret_id)


def key_of(storage: WarehouseStorage, folder: str = "t1", rights: FileAccess = FileAccess.READ) -> str:
    vended = vend(storage, location=f"s3://{storage.profile['bucket']}/wh/{folder}", rights=rights)
    assert vended is not None
    return vended.config["s3.access-key-id"]


def test_equal_requests_share_credentials(storage: WarehouseStorage) -> None:
    first = key_of(storage)
    assert key_of(storage) == first
    later = WarehouseStorage(storage.warehouse_id, 2, storage.profile, storage.secret_id)
    others = [
        key_of(storage, "t2"),
        key_of(storage, rights=FileAccess.READ_WRITE),
        key_of(later),
        key_of(WarehouseStorage(uuid4(), 1, storage.profile, storage.secret_id)),
    ]
    assert len({first, *others}) == 5
    assert {cloud: cache_numbers(cloud) for cloud in CLOUDS} == {
        "s3": CacheNumbers(size=5, hits=1, misses=5),
        "azure": CacheNumbers(size=0, hits=0, misses=0),
        "gcs": CacheNumbers(size=0, hits=0, misses=0),
    }


def change(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    read, _ = read_settings({f"LAKEKEEPER__CACHE__STC__{name.upper()}": value for name, value in variables.items()})
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"cache": read.cache}))


def test_sharing_can_be_off(storage: WarehouseStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, enabled="false")
    assert key_of(storage) != key_of(storage)
    assert cache_numbers() == CacheNumbers(size=0, hits=0, misses=0)


def test_the_cache_is_bounded(storage: WarehouseStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, capacity="2")
    for folder in ("t1", "t2", "t3"):
        key_of(storage, folder)
    assert cache_numbers() == CacheNumbers(size=2, hits=0, misses=3)


@pytest.mark.parametrize(
    "profile",
    [
        {"type": "local", "path": "/srv"},
        {"type": "s3", "sts-enabled": False},
        {"type": "stackit", "sts-enabled": False},
        {"type": "adls", "sas-enabled": False},
        {"type": "onelake", "sas-enabled": False},
        {"type": "gcs", "sts-enabled": False},
    ],
)
def test_nothing_is_vended_where_the_profile_disables_it(profile: dict[str, Any]) -> None:
    assert vend(WarehouseStorage(uuid4(), 1, profile, None), location="anything", rights=FileAccess.READ) is None


def test_an_unsaved_profile_gets_new_ones(minio: Minio, bucket: str) -> None:
    credential = read_credential(minio.credential)
    on = read_profile(minio.profile(bucket), credential)
    off = read_profile(minio.profile(bucket, **{"sts-enabled": False}), credential)
    vended = [issue(on, credential, location=f"s3://{bucket}/t", rights=FileAccess.READ) for _ in range(2)]
    assert vended[0] is not None
    assert vended[0].config != (vended[1] and vended[1].config)
    assert issue(off, credential, location=f"s3://{bucket}/t", rights=FileAccess.READ) is None
    assert cache_numbers().size == 0


def test_errors(minio: Minio, storage: WarehouseStorage) -> None:
    bucket = storage.profile["bucket"]
    with pytest.raises(InvalidLocation):
        vend(storage, location=f"s3://{bucket}/other/t", rights=FileAccess.READ)
    without = WarehouseStorage(storage.warehouse_id, 2, storage.profile, None)
    with pytest.raises(MissingCredential) as missing:
        vend(without, location=f"s3://{bucket}/wh/t", rights=FileAccess.READ)
    assert missing.value.status == 400
    wrong = stored(minio, bucket, {"secret-access-key": "canary"})
    with pytest.raises(CredentialNotIssued) as refused:
        vend(wrong, location=f"s3://{bucket}/wh/t", rights=FileAccess.READ)
    assert "canary" not in refused.value.message
    assert cache_numbers().size == 0


def test_a_credential_kind_that_cannot_be_vended(minio: Minio, bucket: str) -> None:
    profile = read_profile(minio.profile(bucket), read_credential(minio.credential))
    other = read_credential({"type": "gcs", "credential-type": "gcp-system-identity"})
    with pytest.raises(UnsupportedCredential) as refused:
        issue_credential(profile, other, location=f"s3://{bucket}/t", rights=FileAccess.READ)
    assert (refused.value.status, refused.value.wire_type) == (501, "UnsupportedCredentialError")


def test_an_unreachable_store_is_asked_again_when_it_is_back(
    minio: Minio, storage: WarehouseStorage, limit: Callable[..., None]
) -> None:
    limit(retries=0, connect_timeout=1.0, request_timeout=1.0)
    with minio.relay.refusing(), pytest.raises(StoreUnavailable) as raised:
        key_of(storage)
    assert raised.value.retry_after == 5
    with minio.relay.silent(), pytest.raises(StoreUnavailable):
        key_of(storage)
    assert key_of(storage)
    assert cache_numbers() == CacheNumbers(size=1, hits=0, misses=3)


class SlotPool:
    def __init__(self) -> None:
        self.begun = self.ended = 0

    def begin_wait(self) -> None:
        self.begun += 1

    def end_wait(self) -> None:
        self.ended += 1


def test_the_thread_is_released_during_the_store_call(storage: WarehouseStorage) -> None:
    slot_pool = SlotPool()
    set_slot_pool(slot_pool)
    try:
        key_of(storage)
        assert (slot_pool.begun, slot_pool.ended) == (1, 1)
        key_of(storage)
        assert (slot_pool.begun, slot_pool.ended) == (1, 1)
    finally:
        set_slot_pool(None)


def test_a_hit_costs_microseconds(storage: WarehouseStorage) -> None:
    location = f"s3://{storage.profile['bucket']}/wh/t1"
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        vend(storage, location=location, rights=FileAccess.READ)
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 50e-6, "about 5 on an idle machine"
