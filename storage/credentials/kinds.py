"""All kinds of credentials, by the two members that distinguish them."""

from __future__ import annotations

from typing import Any, Final

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials.azure import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity
from storage.credentials.credential import Credential
from storage.credentials.gcs import GcpSystemIdentity, GcsServiceAccount
from storage.credentials.s3 import AliyunOss, CloudflareR2, S3AccessKey, S3SystemIdentity, StackitAccessKey
from storage.documents import only_value, read_document

KINDS: Final[tuple[type[Credential], ...]] = (
    S3AccessKey,
    S3SystemIdentity,
    CloudflareR2,
    AliyunOss,
    StackitAccessKey,
    AzureClientCredentials,
    AzureSharedKey,
    AzureSystemIdentity,
    GcsServiceAccount,
    GcpSystemIdentity,
)


_BY_TYPES: Final = {(only_value(kind, "type"), only_value(kind, "credential_type")): kind for kind in KINDS}
TYPES: Final = list(dict.fromkeys(store for store, _ in _BY_TYPES))
CREDENTIAL_TYPES: Final = list(dict.fromkeys(proof for _, proof in _BY_TYPES))
SYSTEM_IDENTITY_TYPES: Final = [proof for (_, proof), kind in _BY_TYPES.items() if kind.uses_system_identity]
"""The credential types that stand for the server's own identity."""


def read_credential(document: dict[str, Any]) -> Credential:
    """The credential that a request or the secret store holds.

    Raises `BadRequest` naming the member at fault, never what stands in it.
    """
    store, proof = document.get("type"), document.get("credential-type")
    if store not in TYPES:
        raise BadRequest(f"storage-credential.type: must be one of {', '.join(TYPES)}")
    kind = _BY_TYPES.get((store, proof)) if isinstance(proof, str) else None
    if kind is None:
        known = ", ".join(each for where, each in _BY_TYPES if where == store)
        raise BadRequest(f"storage-credential.credential-type: must be one of {known} for type {store}")
    return read_document(kind, document, "storage-credential")
