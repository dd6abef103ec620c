"""What the other tests of this folder may take from the object stores they run against, and what they may not."""

from __future__ import annotations

import base64
import datetime as dt
import json

import obstore
import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import ContainerClient, generate_container_sas
from google.api_core.exceptions import PreconditionFailed
from obstore.exceptions import AlreadyExistsError
from obstore.store import GCSStore

from tests.parts.azurite import Azurite
from tests.parts.fake_gcs import FakeGcs


def test_azurite_keeps_what_is_there_and_refuses_a_wrong_key(azurite: Azurite) -> None:
    container = azurite.create_container("real-stores-key")
    with azurite.client() as client:
        blobs = client.get_container_client(container)
        blobs.upload_blob("t1/a", b"first")
        with pytest.raises(ResourceExistsError):
            blobs.upload_blob("t1/a", b"second")
        assert blobs.download_blob("t1/a").readall() == b"first"
    assert azurite.keys(container) == ["t1/a"]
    other_key = base64.b64encode(b"another key").decode()
    stranger = ContainerClient(azurite.endpoint, container, credential=other_key)
    with stranger, pytest.raises(HttpResponseError) as refused:
        stranger.download_blob("t1/a")
    assert refused.value.status_code == 403


def test_azurite_holds_a_sas_to_its_permissions_and_its_end(azurite: Azurite) -> None:
    container = azurite.create_container("real-stores-sas")
    with azurite.client() as client:
        client.get_container_client(container).upload_blob("a", b"x")

    def as_reader(until: dt.timedelta) -> ContainerClient:
        sas = generate_container_sas(
            azurite.account, container, account_key=azurite.key, permission="rl",
            start=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1), expiry=dt.datetime.now(dt.UTC) + until,
        )  # fmt: skip
        return ContainerClient(azurite.endpoint, container, credential=sas)

    with as_reader(dt.timedelta(hours=1)) as reader:
        assert reader.download_blob("a").readall() == b"x"
        with pytest.raises(HttpResponseError) as refused:
            reader.upload_blob("b", b"x")
        assert refused.value.status_code == 403
    with as_reader(dt.timedelta(minutes=-1)) as late, pytest.raises(HttpResponseError) as refused:
        late.download_blob("a")
    assert refused.value.status_code == 403
    assert azurite.keys(container) == ["a"]


def test_fake_gcs_holds_writers_to_their_preconditions(fake_gcs: FakeGcs) -> None:
    bucket = fake_gcs.create_bucket("real-stores")
    blob = fake_gcs.client().bucket(bucket).blob("t1/a")
    blob.upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        blob.upload_from_string(b"second", if_generation_match=0)
    assert blob.download_as_bytes() == b"first"
    assert fake_gcs.keys(bucket) == ["t1/a"]


def test_fake_gcs_takes_what_obstore_writes(fake_gcs: FakeGcs) -> None:
    bucket = fake_gcs.create_bucket("real-stores-xml")
    account = {"gcs_base_url": fake_gcs.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    key = json.dumps({**account, "private_key_id": ""})
    store = GCSStore(bucket, service_account_key=key, client_options={"allow_http": True})
    name = "t 1/ü?#+%2F"
    obstore.put(store, name, b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, name, b"second", mode="create")
    assert obstore.get(store, name).bytes() == b"first"
    assert [found["path"] for page in obstore.list(store, "t 1") for found in page] == [name] == fake_gcs.keys(bucket)
    obstore.delete(store, name)
    assert fake_gcs.keys(bucket) == []
