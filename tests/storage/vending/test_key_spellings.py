"""Vended credentials at real stores, with object keys that a store resolves only after the policy check."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from itertools import count
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from storage.credentials import read_credential
from storage.identity.keys import Keys
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.signing.uri import Parameters
from storage.validation.s3_probes import StoreResponse, encoded_key, send, sign
from storage.vending.delegation import FileAccess
from storage.vending.s3_sts import keys_from_vended
from storage.vending.vend import issue
from tests.parts.s3 import S3Server

pytestmark = pytest.mark.django_db

_numbers = count(1)
SECRET = b"belongs to another table"
OTHERS = ("top", "wh/there", "wh/b/x", "wh/b/y/z", "wh/a2/x")
KEYS = (
    "wh/a/../b/x", "wh/a/../../wh/b/x", "wh/a/./../b/x", "wh/a//../b/x", "wh/a/../../top", "wh/a/..//b//x",
    "wh/a/../a2/x", "wh/a/../there", "wh/a/x/../../b/x", "wh/a/../b/y/", "wh/a/..", "wh/a/../", "wh/a/.", "wh/a/./",
    "wh/a/", "wh/a//", "wh/a/../b/x/", "/wh/b/x", "//wh/b/x", "/wh/a/../b/x", "../wh/b/x", "./wh/b/x", "wh//b/x",
    "wh/./b/x", "wh/a/%2e%2e/b/x", "wh/a/..%2fb/x", "wh/a%2f..%2fb/x", "wh/a/%252e%252e/b/x", "wh/a/..\\b\\x",
    "wh/a\\..\\b\\x", "wh/a/\\..\\..\\b\\x", "wh/a/x\\..\\..\\b\\x",
    "wh/a/..%5cb%5cx", "wh/a/.. /b/x", "wh/a/ ../b/x", "wh/a/..;/b/x",
    "wh/a/.../b/x", "wh/a/..%00/b/x", "wh/a/..?/b/x", "wh/a/..#/b/x", "wh/a/\uff0e\uff0e/b/x", "wh/a/..\t/b/x",
    "WH/A/../b/x",
)  # fmt: skip


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.part(name)) for name in ("minio", "seaweedfs")])
def store(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


class Lender:
    """A bucket with objects of other folders, and a client with vended credentials for the folder `wh/a`."""

    def __init__(self, store: S3Server) -> None:
        self.store, self.bucket = store, store.create_bucket(f"spellings-{next(_numbers)}")
        credential = read_credential(store.credential)
        profile = read_profile(store.profile(self.bucket, "wh"), credential)
        assert isinstance(profile, S3Profile)
        vended = issue(profile, credential, location=f"s3://{self.bucket}/wh/a", rights=FileAccess.READ_WRITE)
        assert vended is not None
        self.profile, self.keys = profile, keys_from_vended(vended)
        for key in OTHERS:
            store.client().put_object(Bucket=self.bucket, Key=key, Body=SECRET)

    def send(self, method: str, path: str, parameters: Parameters = (), **more: object) -> StoreResponse:
        return send(sign(self.profile, self.keys, method, path, parameters=parameters, **more))

    def delete_together(self, *keys: str) -> StoreResponse:
        objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        body = f"<Delete>{objects}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        return self.send("POST", "", (("delete", ""),), headers={"content-md5": digest}, body=body)

    def keys_of_others(self) -> set[str]:
        return {key for key in self.store.keys(self.bucket) if not key.startswith("wh/a/")}

    def require_untouched(self, after: object) -> None:
        client = self.store.client()
        assert self.keys_of_others() == set(OTHERS), after
        for key in OTHERS:
            assert client.get_object(Bucket=self.bucket, Key=key)["Body"].read() == SECRET, (after, key)


@pytest.fixture
def lender(store: S3Server) -> Lender:
    return Lender(store)


def test_a_bulk_delete_reaches_no_other_folder(lender: Lender) -> None:
    """MinIO deleted `wh/b/x` for `wh/a/../b/x`: it compares the key with the policy and resolves it afterwards."""
    for key in KEYS:
        lender.delete_together(key)
        assert lender.keys_of_others() == set(OTHERS), key
    lender.delete_together(*KEYS)
    lender.require_untouched("all of them")


def paths() -> Iterator[str]:
    """Return the spellings that a client may use for the keys in the path of a request."""
    for key in KEYS:
        yield encoded_key(key)
        yield encoded_key(key).replace("..", "%2e%2e")
    yield from ("wh/a/..%2fb/x", "wh/a%2f..%2fb%2fx", "wh/a/%2e./b/x", "wh/a/..%5cb%5cx", "wh/a/..%00/b/x")
    yield "wh/a/x%5c..%5c..%5cb%5cx"


def test_no_other_request_reaches_another_folder(lender: Lender) -> None:
    for path in dict.fromkeys(paths()):
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            assert SECRET not in lender.send(method, path, body=b"changed" if method == "PUT" else b"").body, path
        started = lender.send("POST", path, (("uploads", ""),))
        found = re.search(rb"<UploadId>(.*)</UploadId>", started.body)
        if found is not None:
            upload = ("uploadId", found[1].decode())
            lender.send("PUT", path, (("partNumber", "1"), upload), body=b"changed")
            tag = hashlib.md5(b"changed", usedforsecurity=False).hexdigest()
            part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
            whole = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
            lender.send("POST", path, (upload,), body=whole)
    lender.require_untouched("object requests")


def test_no_copy_comes_from_another_folder(lender: Lender) -> None:
    begun = lender.send("POST", "wh/a/large", (("uploads", ""),))
    upload = re.findall(b"<UploadId>(.*)</UploadId>", begun.body)[0].decode()
    for path in dict.fromkeys(paths()):
        for source in (f"/{lender.bucket}/{path}", f"{lender.bucket}/{path}"):
            copied = {"x-amz-copy-source": source}
            lender.send("PUT", "wh/a/stolen", headers=copied)
            lender.send("PUT", "wh/a/large", (("partNumber", "1"), ("uploadId", upload)), headers=copied)
            assert SECRET not in lender.send("GET", "wh/a/stolen").body, source
    listed = lender.send("GET", "wh/a/large", (("uploadId", upload),)).body.decode()
    assert str(len(SECRET)) not in re.findall("<Size>([0-9]+)</Size>", listed)


def test_lists_show_no_other_folder(lender: Lender) -> None:
    for key in KEYS:
        response = lender.send("GET", "", (("list-type", "2"), ("prefix", key)))
        assert b"<Contents>" not in response.body, key


def test_names_that_only_look_like_parent_folders_work(lender: Lender) -> None:
    for name in ("a..b", "..a", "a../b", ".../b", quote("ü..ü")):
        path = f"wh/a/{name}"
        assert lender.send("PUT", path, body=b"own").is_success, path
        assert lender.send("GET", path).body == b"own", path
        assert lender.send("DELETE", path).is_success, path


def test_keys_are_distinguished_from_others(lender: Lender) -> None:
    """The requests of this file are valid: those for the own folder succeed, and unknown access keys are denied."""
    assert lender.send("PUT", "wh/a/own", body=b"own").is_success
    assert lender.send("GET", "wh/a/own").body == b"own"
    lender.delete_together("wh/a/own")
    assert lender.send("GET", "wh/a/own").status in {403, 404}
    lender.keys = Keys("unknown", "no secret")
    assert lender.send("GET", "wh/a/own").status == 403
