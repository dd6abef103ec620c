"""Object stores of Azure (on Azurite) and Google Cloud (on fake-gcs-server): the same behaviour as on MinIO.

Neither emulator checks permissions. Azurite has no hierarchical accounts: blobs with the marker of directories stand
for them, and a proxy returns the response of Azure for a directory that is not empty.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icekeeper.kernel.request_context import deadline
from storage.credentials import read_credential
from storage.errors import StoreAccessDenied, StoreRefused, StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.io.azure import PART
from storage.io.deletion import delete_all
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectExists, ObjectNotFound, ObjectTooLarge
from storage.io.stores import open_store
from storage.profiles.kinds import read_profile
from tests.parts.azurite import Azurite
from tests.parts.certificates import create_authority
from tests.parts.fake_gcs import FakeGcs
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.storage.closed_store_fixtures import require_collected_when_dropped
from tests.storage.cloud_fixtures import Cloud, azure, gcs, put_blob
from tests.storage.open_store_fixtures import count_requests_until_the_deadline, opened, use_storage_settings
from tests.storage.test_object_store_minio import NAMES
from tests.storage.test_profiles_azure import ONELAKE, WORKSPACE
from tests.storage.vending.fake_service import FakeService, said

pytestmark = pytest.mark.django_db  # waiting code closes its database connections


@pytest.fixture
def store(cloud: Cloud) -> RemoteStore:
    return cloud.open()


def proceed() -> None:
    pass


def all_count(_: str) -> bool:
    return False


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {" ", "a\\b"}])
def test_the_name_is_the_path_of_the_location_byte_by_byte(cloud: Cloud, store: RemoteStore, name: str) -> None:
    location = f"{cloud.base}/t/{name}"
    store.put_new(location, b"x")
    assert cloud.list_names() == [f"wh/t/{name}"]
    assert store.get(location, limit=1) == b"x"
    store.require_exists(location)
    assert not store.is_empty(f"{cloud.base}/t", ignore=all_count)
    store.delete(location)
    assert cloud.list_names() == []
    cloud.put(f"wh/t/{name}/{name}")
    store.delete_below(location, proceed)
    assert cloud.list_names() == []


def test_existing_objects_are_not_overwritten(cloud: Cloud, store: RemoteStore) -> None:
    location = f"{cloud.base}/a"
    store.put_new(location, b"first")
    for data in (b"second", b"first"):
        with pytest.raises(ObjectExists):
            store.put_new(location, data)
    assert store.get(location, limit=10) == b"first"
    with pytest.raises(ObjectTooLarge):
        store.get(location, limit=4)


def test_missing_objects(cloud: Cloud, store: RemoteStore) -> None:
    location = f"{cloud.base}/a"
    for act in (lambda: store.get(location, limit=1), lambda: store.require_exists(location)):
        with pytest.raises(ObjectNotFound, match="Failed to open input stream"):
            act()
    store.delete(location)
    store.delete_many([f"{location}/1", f"{location}/2"])
    store.delete_below(location, proceed)
    assert store.is_empty(location, ignore=all_count)


@pytest.mark.parametrize("size", [0, 1, 9_000_000])
def test_sizes(cloud: Cloud, store: RemoteStore, size: int) -> None:
    store.put_new(f"{cloud.base}/a", b"x" * size)
    assert store.get(f"{cloud.base}/a", limit=size) == b"x" * size


def test_only_objects_below_the_location_are_deleted(cloud: Cloud, store: RemoteStore) -> None:
    others = ["wh/t", "wh/t-", "wh/t2/a", "wh/u/t/a", "x"]
    for name in (
        *others,
        "wh/t/a//b",
        "wh/t//",
        "wh/t/a/",
        "wh/t/<&>\"'",
        "wh/t/%zz",
        "wh/t/é",
        "wh/t/a/b/c",
        "wh/t/?#",
    ):
        cloud.put(name)
    assert len(cloud.list_names()) == len(others) + 8
    assert not store.is_empty(f"{cloud.base}/t", ignore=all_count)
    store.delete_below(f"{cloud.base}/t", proceed)
    assert cloud.list_names() == others
    assert store.is_empty(f"{cloud.base}/t", ignore=all_count)
    store.delete_many([f"{cloud.base}/t2/a", f"{cloud.base}/u/t/a"])
    assert cloud.list_names() == ["wh/t", "wh/t-", "x"]


def test_many_pages(cloud: Cloud, store: RemoteStore) -> None:
    for number in range(40):
        cloud.put(f"wh/t/{number:02}")
    seen = [name for listed in store.bucket.list_names("wh/t/", page=16) for name in listed.names]
    assert seen == [f"wh/t/{number:02}" for number in range(40)]
    assert not store.is_empty(f"{cloud.base}/t", ignore=lambda name: name != "39")


def test_a_put_with_a_lost_response(cloud: Cloud, through: Recorder) -> None:
    lost: list[Reply] = []

    def lose_first(_: Recorded, ask: Callable[[], Reply]) -> Reply | None:
        reply = ask()
        if lost:
            return reply
        lost.append(reply)
        return None

    through.answerer = lose_first
    store = cloud.open()
    store.put_new(f"{cloud.base}/a", b"mine")
    assert lost[0].status in {200, 201}
    assert through.asked == ["PUT", "PUT", "GET"]
    assert store.get(f"{cloud.base}/a", limit=4) == b"mine"


def every_call(store: RemoteStore, location: str) -> list[Callable[[], Any]]:
    return [
        lambda: store.put_new(location, b"x"),
        lambda: store.get(location, limit=10),
        lambda: store.require_exists(location),
        lambda: store.delete(location),
        lambda: store.is_empty(location, ignore=lambda _: False),
        lambda: store.delete_below(location, lambda: None),
        lambda: delete_all(store.bucket, [location.partition("://")[2].partition("/")[2]]),
    ]


def test_failures_are_retried_and_reported(cloud: Cloud, through: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, retries=1)
    store = cloud.open()
    for number, act in enumerate(every_call(store, f"{cloud.base}/a")):
        if number:
            cloud.put("wh/a")
        failures = [Reply(503, {}, b"<html>canary</html>")]
        through.answerer = lambda _, ask: failures.pop() if failures else ask()  # noqa: B023
        act()
        through.requests.clear()
        through.answerer = lambda *_: Reply(503, {}, b"<html>canary</html>")
        with pytest.raises(StoreUnavailable) as failure:
            act()
        assert "canary" not in failure.value.message
        assert len(through.requests) == 2


def test_no_request_is_repeated_after_the_deadline(cloud: Cloud, through: Recorder) -> None:
    store = cloud.open()
    put, get, exists, delete, is_empty, delete_below, _ = every_call(store, f"{cloud.base}/a")
    for act in (put, get, exists, is_empty, store.list_root):
        assert count_requests_until_the_deadline(through, act) == 1
    with deadline(time.monotonic() - 1):
        for act in (delete, delete_below):
            failures = [Reply(503, {}, b"")]
            through.answerer = lambda _, ask: failures.pop() if failures else ask()  # noqa: B023
            act()


@pytest.mark.parametrize("status", [401, 403])
def test_denied_actions_are_reported_at_once(cloud: Cloud, through: Recorder, status: int) -> None:
    store = cloud.open()
    through.answerer = lambda *_: Reply(
        status, {}, b"<Error><Code>AccessDenied</Code><Message>canary</Message></Error>"
    )
    for act in every_call(store, f"{cloud.base}/a"):
        through.requests.clear()
        with pytest.raises(StoreAccessDenied) as error:
            act()
        assert "canary" not in error.value.message
        assert len(through.requests) == 1


def test_an_unreachable_store(cloud: Cloud, store: RemoteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, retries=0)
    store.bucket.prepare()
    with cloud.part.relay.refusing():
        for act in every_call(store, f"{cloud.base}/a"):
            with pytest.raises(StoreUnavailable, match="did not respond"):
                act()
    store.put_new(f"{cloud.base}/a", b"x")


def test_an_unused_store_is_released(cloud: Cloud) -> None:
    """Only the cache of open stores has a reference; obstore, which hides its references, has none."""
    require_collected_when_dropped(cloud.open, f"{cloud.base}/a")


@pytest.mark.parametrize("size", [0, PART - 1, PART, PART + 1, 2 * PART + 1])
def test_large_objects_are_read_in_parts(cloud: Cloud, store: RemoteStore, size: int) -> None:
    content = random.Random(size).randbytes(size)
    store.put_new(f"{cloud.base}/a", content)
    assert store.get(f"{cloud.base}/a", limit=size) == content
    if size:
        with pytest.raises(ObjectTooLarge):
            store.get(f"{cloud.base}/a", limit=size - 1)


def test_a_container_that_does_not_exist(cloud: Cloud) -> None:
    missing = {"adls": {"filesystem": "no-such-container"}, "gcs": {"bucket": "no-such-bucket"}}[cloud.profile["type"]]
    known = read_credential(cloud.credential)
    profile = read_profile(cloud.profile | missing, known)
    store = open_store(profile, known)
    for act in (
        lambda: store.put_new(f"{profile.location}/a", b"x"),
        lambda: store.is_empty(f"{profile.location}/a", ignore=all_count),
        lambda: store.delete_below(f"{profile.location}/a", proceed),
        lambda: store.get(f"{profile.location}/a", limit=10),
        lambda: store.require_exists(f"{profile.location}/a"),
    ):
        with pytest.raises(StoreRefused, match="does not exist"):
            act()


def test_only_known_authorities_are_trusted_by_all_that_asks(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    authority, tls = create_authority(tmp_path)
    with Recorder(cloud.part.relay.port, tls, host=cloud.host) as recorder:
        asked = f"{recorder.endpoint.rstrip('/')}{cloud.address.partition('://')[2].partition('/')[2] and '/{account}'}"
        use_storage_settings(monkeypatch, **{cloud.setting: asked})
        for act in every_call(cloud.open(), f"{cloud.base}/a"):
            with pytest.raises(StoreUnavailable, match="did not respond"):
                act()
        assert recorder.requests == []
        use_storage_settings(monkeypatch, ca_bundle=authority)
        for act in every_call(cloud.open(), f"{cloud.base}/a"):
            act()


def test_the_environment_of_the_server_does_not_affect_warehouses(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AZURE_STORAGE_ACCOUNT_KEY": "b3RoZXI=", "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1",
        "AZURE_STORAGE_TOKEN": "a",
        "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=2", "AZURE_SKIP_SIGNATURE": "true", "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURE_USE_FABRIC_ENDPOINT": "true", "AZURE_CONTAINER_NAME": "other", "GOOGLE_SKIP_SIGNATURE": "true",
        "GOOGLE_BASE_URL": "http://127.0.0.1:1", "GOOGLE_BUCKET": "other", "GOOGLE_BEARER_TOKEN": "other",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    use_storage_settings(monkeypatch, retries=0)
    store = cloud.open()
    store.put_new(f"{cloud.base}/a", b"x")
    assert store.get(f"{cloud.base}/a", limit=1) == b"x"
    assert cloud.list_names() == ["wh/a"]


# --- Azure alone -----------------------------------------------------------------------------------------------------


def test_a_wrong_account_key(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = azure(azurite, monkeypatch)
    store = opened(cloud.profile, cloud.credential | {"key": "d3JvbmctY2FuYXJ5"})
    for act in every_call(store, f"{cloud.base}/a"):
        with pytest.raises(StoreAccessDenied) as error:
            act()
        assert "d3Jvbm" not in error.value.message


def test_directories_are_removed_with_their_content(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = azure(azurite, monkeypatch)
    store = cloud.open()
    client = azurite.client().get_container_client(cloud.profile["filesystem"])
    for folder in ("wh/t", "wh/t/a", "wh/t/a/b", "wh/t/c", "wh/t2"):
        put_blob(client, folder, hdi_isfolder="true")
    assert store.is_empty(f"{cloud.base}/t", ignore=all_count), "directories are nothing"
    for name in ("wh/t/a/b/x", "wh/t/y"):
        cloud.put(name)
    assert not store.is_empty(f"{cloud.base}/t", ignore=all_count)
    store.delete_below(f"{cloud.base}/t", proceed)
    assert cloud.list_names() == ["wh/t2"]


def test_a_directory_that_is_not_empty_yet_is_removed_later(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a hierarchical account, which rejects the removal of an outer directory before its inner ones."""
    cloud = azure(azurite, monkeypatch)
    client = azurite.client().get_container_client(cloud.profile["filesystem"])
    depth = 14
    for level in range(1, depth):
        put_blob(client, "/".join(["wh", "t", *"abcdefghijklmnop"[:level]]), hdi_isfolder="true")

    def hierarchical(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        name = request.target.partition(f"{cloud.profile['filesystem']}/")[2]
        is_full = any(other.startswith(f"{name}/") for other in cloud.list_names())
        if request.method == "DELETE" and is_full:
            return Reply(409, {"x-ms-error-code": "DirectoryIsNotEmpty"}, b"")
        return ask()

    with Recorder(azurite.relay.port) as recorder:
        recorder.answerer = hierarchical
        use_storage_settings(monkeypatch, azure_endpoint=f"{recorder.endpoint}{{account}}")
        monkeypatch.setattr("storage.io.deletion.MAX_FOLDERS", 3)  # the first listing omits inner directories
        with pytest.raises(StoreUnavailable, match="keeps writing"):
            cloud.open().delete_below(f"{cloud.base}/t", proceed)
        monkeypatch.undo()
        use_storage_settings(monkeypatch, azure_endpoint=f"{recorder.endpoint}{{account}}")
        cloud.open().delete_below(f"{cloud.base}/t", proceed)
    assert cloud.list_names() == []


def test_tokens_of_entra_id_are_sent(azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entra ID and the check of the token are fakes: Azurite accepts tokens of no service that could run here."""
    authority, tls = create_authority(tmp_path)
    with FakeService(tmp_path) as entra, Recorder(azurite.relay.port, tls) as recorder:
        bundle = tmp_path / "both.pem"
        bundle.write_bytes(authority.read_bytes() + entra.ca_file.read_bytes())
        endpoint = f"{recorder.endpoint}{{account}}"
        use_storage_settings(monkeypatch, ca_bundle=bundle, azure_endpoint=endpoint, retries=0)
        path = "/tenant-1/oauth2/v2.0/token"
        entra.responses["/tenant-1/v2.0/.well-known/openid-configuration"] = [
            said({"token_endpoint": f"{entra.address}{path}", "authorization_endpoint": f"{entra.address}/a",
                  "issuer": f"{entra.address}/tenant-1/v2.0"})
        ]  # fmt: skip
        entra.responses[path] = [said({"access_token": "an-entra-token", "expires_in": 3600, "token_type": "Bearer"})]
        application = {
            "type": "az", "credential-type": "client-credentials", "client-id": "app", "tenant-id": "tenant-1",
            "client-secret": "canary",
        }  # fmt: skip
        profile = {"type": "adls", "filesystem": "files", "account-name": "acct", "key-prefix": "wh"}
        store = opened(profile | {"authority-host": entra.address}, application)
        recorder.answerer = lambda *_: Reply(403, {"x-ms-error-code": "AuthorizationFailure"}, b"")
        for act in every_call(store, "abfss://files@acct.dfs.core.windows.net/wh/a"):
            with pytest.raises(StoreAccessDenied):
                act()
        assert {request.headers["authorization"] for request in recorder.requests} == {"Bearer an-entra-token"}
        assert all(request.target.startswith("/acct/files") for request in recorder.requests)
        assert [asked.path for asked in entra.asked].count(path) == 1
        entra.responses[path] = [said({"error": "invalid_client", "error_description": "AADSTS7000215: canary"}, 401)]
        other = opened(profile | {"authority-host": entra.address}, application | {"client-id": "other"})
        with pytest.raises(CredentialNotIssued, match="AADSTS7000215") as error:
            other.get("abfss://files@acct.dfs.core.windows.net/wh/a", limit=1)
        assert "canary" not in error.value.message


@pytest.mark.parametrize(
    ("mode", "host"),
    [
        ({"type": "default"}, "onelake"),
        ({"type": "regional", "region": "westus"}, "westus-onelake"),
        ({"type": "workspace-private-link"}, f"{WORKSPACE.replace('-', '')}.z{WORKSPACE[:2]}"),
    ],
)
def test_where_a_lakehouse_is(mode: dict[str, str], host: str) -> None:
    application = read_credential(
        {
            "type": "az",
            "credential-type": "client-credentials",
            "client-id": "a",
            "tenant-id": "t",
            "client-secret": "s",
        }
    )
    profile = read_profile(ONELAKE | {"endpoint-mode": mode}, application)
    store = open_store(profile, application)
    assert isinstance(store, RemoteStore)
    config: Any = store.bucket.objects.config
    assert (config["account_name"], config["container_name"]) == ("onelake", WORKSPACE)
    assert config["endpoint"] == f"https://{host}.blob.fabric.microsoft.com"


# --- Google Cloud alone ----------------------------------------------------------------------------------------------


def test_the_token_is_requested_once(fake_gcs: FakeGcs, tokens: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = gcs(fake_gcs, tokens, monkeypatch)
    with Recorder(fake_gcs.relay.port, host=cloud.host) as recorder:
        use_storage_settings(monkeypatch, gcs_endpoint=recorder.endpoint.rstrip("/"))
        store = cloud.open()
        for act in every_call(store, f"{cloud.base}/a"):
            act()
        assert {request.headers["authorization"] for request in recorder.requests} == {"Bearer a-token"}
    assert [asked.path for asked in tokens.asked] == ["/token"]
    assert tokens.asked[0].form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"


def test_the_check_for_a_missing_bucket_is_not_repeated_after_the_deadline(
    fake_gcs: FakeGcs, tokens: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = gcs(fake_gcs, tokens, monkeypatch)
    with Recorder(fake_gcs.relay.port, host=cloud.host) as recorder:
        use_storage_settings(monkeypatch, gcs_endpoint=recorder.endpoint.rstrip("/"))
        store = cloud.open()
        for act in every_call(store, f"{cloud.base}/a")[1:3]:
            assert count_requests_until_the_deadline(recorder, act, Reply(404, {}, b"")) == 2


def test_tokens_of_entra_do_not_go_over_plain_http(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    application = {
        "type": "az", "credential-type": "client-credentials", "client-id": "c", "tenant-id": "t", "client-secret": "s",
    }  # fmt: skip
    cloud = azure(azurite, monkeypatch)
    with pytest.raises(CredentialNotIssued, match="https only: ICEKEEPER__STORAGE__AZURE_ENDPOINT"):
        opened(cloud.profile, application)
