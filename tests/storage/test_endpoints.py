"""Endpoints chosen by tenants: hostile spellings, allow lists, DNS resolution, and the time of the check."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.kernel.http.network_addresses import MAX_LOOKUPS
from storage.credentials import read_credential
from storage.documents import read_document
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.identity.s3 import catalog_keys
from storage.io.stores import open_store
from storage.network.endpoints import (
    EndpointNotPermitted,
    read_endpoint,
    require_permitted_address,
    require_valid_address,
)
from storage.profiles.addresses import require_permitted_addresses, require_valid_addresses
from storage.profiles.kinds import TYPES, read_profile
from storage.vending.delegation import FileAccess
from storage.vending.vend import issue
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, use_settings
from tests.storage.test_profiles_azure import ADLS, CLIENT, ONELAKE, SHARED
from tests.storage.test_profiles_gcs import ACCOUNT, GCS
from tests.storage.test_profiles_s3 import STACKIT

pytestmark = pytest.mark.both_databases

api = ApiClient("/management/v1")

REFUSED = [
    "http://169.254.169.254/", "http://169.254.169.254:80", "https://169.254.1.1/", "http://169.254.169.254./",
    "http://[fe80::1]/", "http://[fd00:ec2::254]/", "http://[fd20:ce::254]/", "http://100.100.100.200/",
    "http://168.63.129.16/", "http://192.0.0.192/", "http://metadata.google.internal/", "http://METADATA.google.internal./",
    "http://metadata.goog/computeMetadata", "http://0.0.0.0:9000/", "http://0.1.2.3/", "http://[::]:9000/",
    "http://255.255.255.255/", "http://224.0.0.1/", "http://[ff02::1]/",
    "http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/", "http://[::169.254.169.254]/",
    "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b:1::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::]/",
]  # fmt: skip
"""Addresses that no store is at, in the usual form and in other ones."""

MALFORMED = [
    "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/",
    "http://0251.0376.0251.0376/", "http://169.254.43518/", "http://1.2.3.4.5/", "http://foo.0x/",
    "http://user@minio/", "http://user:pass@minio/", "http://minio:9000@169.254.169.254/", "http://minio\\@evil/",
    "http://minio\\evil/", "http:minio/", "http:///minio", "http://", "http:// minio/", "http://mi nio/",
    "http://minio\t/", "http://minio\n/", "http://minio/\r\nHost: x", "//minio/", "minio:9000", "ftp://minio/",
    "file:///etc/passwd", "gopher://minio/", "http://minio:0/", "http://minio:65536/", "http://minio:99999999/",
    "http://minio:-1/", "http://bücher.example/", "http://①⑥⑨.254.169.254/", "http://169。254。169。254/",
    "http://minio%2eexample/", "http://[fe80::1%25eth0]/", "http://[::1/", "http://::1/", "http://[minio]/",
    "http://[1.2.3.4]/", "http://a..b/", "http://.minio/", "http://minio../", "http://-minio/", "http://minio-/",
    "http://" + "a" * 64 + "/", "http://" + "a." * 200 + "b/", "http://minio?x/", "http://minio#x/", "", "x" * 100_000,
]  # fmt: skip
"""What two libraries might read differently is nothing at all."""

GOOD = [
    "http://127.0.0.1:9000/", "https://10.0.0.1/", "http://[::1]:9000/", "http://[fd12::1]/", "http://8.8.8.8",
    "http://localhost:9000/", "HTTP://LOCALHOST/", "http://localhost./", "https://172.16.0.1:8443/some/path?x=1",
]  # fmt: skip


def storage_settings(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    own, _ = read_settings({f"ICEKEEPER__STORAGE__{name.upper()}": text for name, text in variables.items()})
    use_settings(monkeypatch, storage=own.storage)


@pytest.mark.parametrize("address", [*REFUSED, *MALFORMED])
def test_addresses_that_are_always_denied(address: str) -> None:
    for check in (require_permitted_address, require_valid_address):
        with pytest.raises(EndpointNotPermitted) as refused:
            check(address, "endpoint")
        assert refused.value.message.startswith("endpoint: ")
        assert len(refused.value.message) < 200, "and nothing is repeated"


@pytest.mark.parametrize("address", GOOD)
def test_private_and_loopback_addresses_are_allowed_by_default(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    require_permitted_address(address)
    storage_settings(monkeypatch, allow_private_endpoints="false")
    if "8.8.8.8" in address:
        require_permitted_address(address)
        return
    with pytest.raises(EndpointNotPermitted, match="private network"):
        require_permitted_address(address)


@pytest.mark.parametrize(
    "address",
    ["http://[::ffff:10.0.0.1]/", "http://[::10.0.0.1]/", "http://[64:ff9b::10.0.0.1]/", "http://[2002:a00:1::]/",
     "http://100.64.0.1/", "http://192.168.1.1/", "http://[fec0::1]/", "http://[::1]/", "http://127.9.9.9/"],
)  # fmt: skip
def test_no_spelling_leads_into_a_private_network(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    storage_settings(monkeypatch, allow_private_endpoints="false")
    with pytest.raises(EndpointNotPermitted):
        require_permitted_address(address)


@given(st.ip_addresses(v=4, network="169.254.0.0/16"))
def test_link_local_in_every_form_of_ipv6(ip: IPv4Address) -> None:
    number = int(ip)
    forms = [
        IPv6Address(number),
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x2002 << 112) | (number << 80) | 1),
        IPv6Address((0x20010000 << 96) | (~number & 0xFFFFFFFF)),
    ]
    for host in (str(ip), *(f"[{each}]" for each in forms)):
        with pytest.raises(EndpointNotPermitted):
            require_permitted_address(f"http://{host}:9000/")


@given(st.text(max_size=60))
def test_any_text_is_rejected_or_read_as_one_host(text: str) -> None:
    try:
        endpoint = read_endpoint(f"http://{text}", "endpoint")
    except EndpointNotPermitted:
        return
    from urllib.parse import urlsplit

    import requests

    prepared = requests.Request("GET", f"http://{text}").prepare().url or ""
    for seen in (urlsplit(f"http://{text}").hostname, urlsplit(prepared).hostname):
        assert (seen or "").rstrip(".") == endpoint.host or IPv6Address(seen) == endpoint.ip


@pytest.mark.parametrize(
    ("listed", "address", "is_allowed"),
    [
        ("localhost", "http://localhost:9000/", True),
        ("localhost", "https://LOCALHOST./", True),
        ("localhost", "http://127.0.0.1/", False),
        ("127.0.0.1", "http://127.0.0.1:9000/", True),
        ("127.0.0.1", "http://localhost:9000/", False),
        ("http://localhost:9000", "http://localhost:9000/", True),
        ("http://localhost:9000/", "http://localhost:9001/", False),
        ("http://localhost:9000", "https://localhost:9000/", False),
        ("http://localhost", "http://localhost:80/", True),
        ("http://localhost", "http://localhost:81/", False),
        ("localhost:81", "https://localhost:81/", True),
        ("localhost:81", "https://localhost/", False),
        ("*.localhost", "http://a.localhost/", True),
        ("*.localhost", "http://a.b.localhost/", True),
        ("*.localhost", "http://localhost/", False),
        ("*.localhost", "http://evillocalhost/", False),
        ("*.localhost", "http://localhost.evil/", False),
        ('["[::1]:9000"]', "http://[0:0:0:0:0:0:0:1]:9000/", True),
        ("a.example.com,localhost", "http://localhost/", True),
        ("[]", "http://localhost/", False),
    ],
)
def test_a_list_of_endpoints(monkeypatch: pytest.MonkeyPatch, listed: str, address: str, is_allowed: bool) -> None:
    storage_settings(monkeypatch, allowed_endpoints=listed)
    if is_allowed:
        require_valid_address(address, "endpoint")
        return
    with pytest.raises(EndpointNotPermitted, match="ALLOWED_ENDPOINTS"):
        require_valid_address(address, "endpoint")


def test_denied_addresses_are_allowed_only_by_exact_address(monkeypatch: pytest.MonkeyPatch) -> None:
    storage_settings(monkeypatch, allowed_endpoints="http://169.254.7.7:9000,*.example.com")
    require_permitted_address("http://169.254.7.7:9000/")
    for address in ("http://169.254.7.7/", "http://169.254.169.254/"):
        with pytest.raises(EndpointNotPermitted):
            require_permitted_address(address)


def test_http_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    storage_settings(monkeypatch, allow_http_endpoints="false")
    require_permitted_address("https://127.0.0.1/")
    with pytest.raises(EndpointNotPermitted, match="https"):
        require_permitted_address("http://127.0.0.1/")


@pytest.mark.parametrize(
    "text",
    ["*", "*.*", "a*b", "ftp://a", "a/b", "http://a/b", "a b", "a@b", "[::g]", "10.0.0.0/8", "[[::1]]", "[{a=b}]"],
)
def test_a_wrong_list_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS"):
        read_settings({"ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS": text})


# --- names -------------------------------------------------------------------------------------------------------


def response_with(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Return this response for every name of the system resolver, which is not part of the product."""

    def getaddrinfo(host: str, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_every_resolved_address_of_a_name_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    response_with(monkeypatch, "10.0.0.1", "8.8.8.8")
    require_permitted_address("http://store.example.com/")
    response_with(monkeypatch, "8.8.8.8", "169.254.169.254")
    for check in (require_permitted_address, require_valid_address):
        with pytest.raises(EndpointNotPermitted):
            check("http://store.example.com/", "endpoint")
    storage_settings(monkeypatch, allowed_endpoints="store.example.com")
    with pytest.raises(EndpointNotPermitted):
        require_permitted_address("http://store.example.com/")
    storage_settings(monkeypatch, allow_private_endpoints="false")
    response_with(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(EndpointNotPermitted, match="private"):
        require_permitted_address("http://store.example.com/")
    response_with(monkeypatch, "fe80::1%eth0")
    with pytest.raises(EndpointNotPermitted):
        require_permitted_address("http://store.example.com/")


def test_a_name_that_leads_nowhere_can_be_kept_and_not_connected_to() -> None:
    require_valid_address("http://nowhere.invalid/", "endpoint")
    with pytest.raises(StoreUnavailable, match="endpoint: the name of the host cannot be resolved"):
        require_permitted_address("http://nowhere.invalid/")


def test_behind_a_proxy_the_proxy_looks_names_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "inside.invalid")
    require_permitted_address("http://nowhere.invalid/")
    with pytest.raises(StoreUnavailable):
        require_permitted_address("http://inside.invalid/")
    with pytest.raises(EndpointNotPermitted):
        require_permitted_address("http://169.254.169.254/")


def test_a_name_server_that_does_not_respond_blocks_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> Any:
        released.wait(30)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    storage_settings(monkeypatch, connect_timeout="1")
    began = time.monotonic()
    asking = [
        threading.Thread(target=require_valid_address, args=("http://slow.invalid/", "endpoint"))
        for _ in range(MAX_LOOKUPS + 20)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert 0.9 < time.monotonic() - began < 5
    assert sum(thread.name == "lookup" for thread in threading.enumerate()) == MAX_LOOKUPS
    with pytest.raises(StoreUnavailable):
        require_permitted_address("http://slow.invalid/")
    released.set()
    for thread in threading.enumerate():
        if thread.name == "lookup":
            thread.join(10)


# --- profiles and credentials ------------------------------------------------------------------------------------

EVIL = "http://169.254.169.254/"


def account(**members: str) -> dict[str, Any]:
    return ACCOUNT | {"key": ACCOUNT["key"] | members}


ENDPOINTS: list[tuple[dict[str, Any], dict[str, Any] | None, str]] = [
    (S3 | {"endpoint": EVIL}, None, "endpoint"),
    (S3 | {"endpoint": "http://2852039166/"}, None, "endpoint"),
    (S3 | {"endpoint": "http://0xA9.0xFE.0xA9.0xFE/"}, None, "endpoint"),
    (S3 | {"endpoint": "http://①⑥⑨.254.169.254/"}, None, "endpoint"),
    (S3 | {"endpoint": "http://169.254.169.254./"}, None, "endpoint"),
    (S3 | {"endpoint": "http://127.0.0.1/", "sts-endpoint": EVIL}, None, "sts-endpoint"),
    (S3 | {"endpoint": "http://127.0.0.1/", "sts-endpoint": EVIL, "sts-enabled": True, "flavor": "s3-compat"}, KEY,
     "sts-endpoint"),
    (S3 | {"endpoint": "http://internal/", "bucket": "metadata.google"}, None, "bucket"),
    (S3 | {"region": "eu.evil"}, None, "region"),
    (S3 | {"region": "evil.com/?"}, None, "region"),
    (S3 | {"region": "evil@x", "endpoint": "http://127.0.0.1/", "assume-role-arn": "arn:x"}, KEY, "region"),
    (STACKIT | {"endpoint": EVIL}, None, "endpoint"),
    (ADLS | {"authority-host": EVIL}, CLIENT, "authority-host"),
    (ADLS | {"host": "0x"}, SHARED, "host"),
    (ONELAKE | {"authority-host": EVIL}, CLIENT, "authority-host"),
    (GCS, account(token_uri=EVIL), "storage-credential.key.token_uri"),
    (GCS, account(token_uri="http://2852039166/token"), "storage-credential.key.token_uri"),
    (GCS, account(token_uri="file:///etc/passwd"), "storage-credential.key.token_uri"),
    (GCS, account(token_uri="https://oauth2.googleapis.com@169.254.169.254/token"), "storage-credential.key.token_uri"),
    (GCS, account(auth_uri=EVIL), "storage-credential.key.auth_uri"),
    (GCS, account(universe_domain="google.internal\\@x"), "storage-credential.key.universe_domain"),
    (GCS, account(universe_domain="x@169.254.169.254"), "storage-credential.key.universe_domain"),
]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(("profile", "credential", "member"), ENDPOINTS)
def test_a_warehouse_is_not_created_at_a_denied_endpoint(
    bootstrapped: None,
    monkeypatch: pytest.MonkeyPatch,
    everything: Callable[[], Fingerprint],
    profile: dict[str, Any],
    credential: dict[str, Any] | None,
    member: str,
) -> None:
    keep_secrets(monkeypatch)
    before = everything()
    body = {"warehouse-name": "wh", "storage-profile": profile, "storage-credential": credential}
    wire_type = "Invalidregion" if member == "region" else "EndpointNotPermitted"
    assert api.post("/warehouse", body).refused(400, wire_type, f"{member}: ")
    assert everything() == before


@pytest.mark.django_db
def test_a_warehouse_is_not_moved_to_a_denied_endpoint(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], Fingerprint]
) -> None:
    """An update cannot set the endpoint either, not even by an instance administrator."""
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, instance_admins=["oidc~alice"])
    created = [
        api.post("/warehouse", {"warehouse-name": name, "storage-profile": profile, "storage-credential": credential})
        for name, profile, credential in (("s3", S3, KEY), ("gcs", GCS, ACCOUNT))
    ]
    s3, gcs = (ApiClient(f"/management/v1/warehouse/{each.json()['id']}") for each in created)
    before = everything()
    body = {"storage-profile": S3 | {"endpoint": EVIL}, "storage-credential": KEY}
    assert s3.post("/storage", body).refused(400, "EndpointNotPermitted", "endpoint: ")
    new = {"new-storage-credential": account(token_uri=EVIL)}
    assert gcs.post("/storage-credential", new).refused(400, "EndpointNotPermitted", "token_uri: ")
    assert everything() == before


@pytest.mark.django_db
def test_another_endpoint_never_gets_the_former_credential(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update replaces the whole storage: a caller without the credential cannot redirect it to another endpoint."""
    keep_secrets(monkeypatch)
    created = api.post("/warehouse", {"warehouse-name": "wh", "storage-profile": S3, "storage-credential": KEY})
    own = ApiClient(f"/management/v1/warehouse/{created.json()['id']}")
    moved = own.post("/storage", {"storage-profile": S3 | {"endpoint": "http://127.0.0.1:1/"}})
    assert moved.json()["storage-credential-type"] is None


def test_stored_endpoints_are_checked_against_the_current_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = read_profile(S3 | {"endpoint": "http://127.0.0.1:9000/"}, None).as_json()
    profile = read_document(TYPES["s3"], stored, "storage-profile")
    require_permitted_addresses(profile, None)
    storage_settings(monkeypatch, allow_private_endpoints="false")
    with pytest.raises(EndpointNotPermitted):
        require_permitted_addresses(profile, None)


@pytest.mark.parametrize(
    ("profile", "credential", "needed"),
    [
        (S3, None, "*.amazonaws.com"),
        (S3 | {"region": "cn-north-1"}, None, "s3.cn-north-1.amazonaws.com.cn"),
        (ADLS, SHARED, "*.dfs.core.windows.net,login.microsoftonline.com"),
        (ONELAKE, CLIENT, "onelake.dfs.fabric.microsoft.com,login.microsoftonline.com"),
        (GCS, ACCOUNT, "https://*.googleapis.com"),
        (STACKIT, None, "*.onstackit.cloud"),
    ],
)
def test_a_list_holds_for_clouds_too(
    monkeypatch: pytest.MonkeyPatch, profile: dict[str, Any], credential: dict[str, Any] | None, needed: str
) -> None:
    known = None if credential is None else read_credential(credential)
    read = read_profile(profile, known)
    storage_settings(monkeypatch, allowed_endpoints=needed)
    require_valid_addresses(read, known)
    storage_settings(monkeypatch, allowed_endpoints="minio.example.com")
    with pytest.raises(EndpointNotPermitted, match="ALLOWED_ENDPOINTS"):
        require_valid_addresses(read, known)


def test_no_store_is_opened_and_nothing_vended_at_a_denied_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = read_profile(S3 | {"endpoint": "http://127.0.0.1:1/", "flavor": "s3-compat", "sts-enabled": True}, None)
    open_store(profile, read_credential(KEY))
    storage_settings(monkeypatch, allow_private_endpoints="false")
    with pytest.raises(EndpointNotPermitted):
        open_store(profile, read_credential(KEY))
    with pytest.raises(EndpointNotPermitted):
        issue(profile, read_credential(KEY), location=f"{profile.location}/t", rights=FileAccess.READ)


# --- where it is asked -------------------------------------------------------------------------------------------


class Redirecting(BaseHTTPRequestHandler):
    """A token service that redirects every request."""

    asked: list[str] = []
    elsewhere = ""

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(307)
        self.send_header("Location", self.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.django_db  # waiting code closes its database connection
def test_a_token_service_is_checked_per_request_and_may_not_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Redirecting) as here, HTTPServer(("127.0.0.1", 0), Redirecting) as there:
        Redirecting.elsewhere = f"http://127.0.0.1:{there.server_port}/there"
        for server in (here, there):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        sts = f"http://127.0.0.1:{here.server_port}/"
        profile: Any = read_profile(
            S3 | {"endpoint": sts, "flavor": "s3-compat", "assume-role-arn": "arn:x"}, read_credential(KEY)
        )
        with pytest.raises(CredentialNotIssued):
            catalog_keys(profile, read_credential(KEY))
        assert Redirecting.asked == ["/"], "once, and nowhere else"
        storage_settings(monkeypatch, allowed_endpoints="minio.example.com")
        with pytest.raises(EndpointNotPermitted):
            catalog_keys(profile, read_credential(KEY))
        assert Redirecting.asked == ["/"]
        for server in (here, there):
            server.shutdown()
