"""Storage credentials: every type, every spelling of its members, and no secret in any output."""

from __future__ import annotations

from typing import Any

import pytest

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials import KINDS, Credential, read_credential
from tests.storage.test_profiles_azure import CLIENT, SHARED
from tests.storage.test_profiles_azure import SYSTEM as AZURE_SYSTEM
from tests.storage.test_profiles_gcs import ACCOUNT
from tests.storage.test_profiles_gcs import SYSTEM as GCP_SYSTEM
from tests.storage.test_profiles_s3 import KEY, OSS, R2
from tests.storage.test_profiles_s3 import SYSTEM as AWS_SYSTEM

STACKIT = KEY | {"type": "stackit"}
ALL: list[dict[str, Any]] = [
    KEY, KEY | {"external-id": "e"}, AWS_SYSTEM, R2, OSS, STACKIT, CLIENT, SHARED, AZURE_SYSTEM, ACCOUNT, GCP_SYSTEM,
]  # fmt: skip
CANARY = "canary-7f3a"


def test_every_credential_type_is_covered() -> None:
    assert {type(read_credential(each)) for each in ALL} == set(KINDS)


@pytest.mark.parametrize("document", ALL)
def test_a_kept_result_creates_the_same_credential(document: dict[str, Any]) -> None:
    credential = read_credential(document | {"unknown": 1, "another": None})
    assert credential.reveal() == document
    assert read_credential(credential.reveal()) == credential


def test_the_older_names_of_a_key() -> None:
    older = {"aws-access-key-id": "a", "aws-secret-access-key": "s"}
    kind = {"type": "s3", "credential-type": "access-key"}
    assert read_credential(kind | older).reveal() == KEY
    assert read_credential(R2 | {"access-key-id": None, "secret-access-key": None} | older).reveal() == R2
    with pytest.raises(BadRequest, match="under two names"):
        read_credential(KEY | {"aws-access-key-id": "other"})


@pytest.mark.parametrize("document", ALL)
def test_every_member_is_needed_but_the_external_id(document: dict[str, Any]) -> None:
    for member in document.keys() - {"external-id"}:
        for wrong in (None, 7, ["x"], {}, ""):
            with pytest.raises(BadRequest):
                read_credential(document | {member: wrong})
    for member in ACCOUNT["key"]:
        with pytest.raises(BadRequest, match=f"storage-credential.key.{member}"):
            read_credential(ACCOUNT | {"key": {**ACCOUNT["key"], member: None}})


def everywhere(document: Any) -> list[Any]:
    """Yield the document with a secret in each member in turn, in valid and in invalid form."""
    found = []
    for member, value in document.items():
        if isinstance(value, dict):
            found += [document | {member: each} for each in everywhere(value)]
        for wrong in (CANARY, [CANARY], {CANARY: CANARY}, CANARY * 2000):
            found.append(document | {member: wrong})
    return found


@pytest.mark.parametrize("document", ALL)
def test_no_text_contains_a_secret(document: dict[str, Any]) -> None:
    """Neither the text of the credential nor a validation error contains the secret."""
    for each in everywhere(document):
        try:
            credential = read_credential(each)
        except BadRequest as error:
            reported = error.message + repr(error) + repr(error.__cause__) + error.wire_type
        else:
            reported = f"{credential!r} {credential} {credential.model_dump()} {credential.model_dump_json()}"
            reported += repr(vars(credential))
        assert CANARY not in reported


@pytest.mark.parametrize("document", ALL)
def test_the_text_of_a_credential_contains_its_type(document: dict[str, Any]) -> None:
    credential: Credential = read_credential(document)
    assert repr(credential).endswith(f"(type='{document['type']}', credential_type='{document['credential-type']}')")
