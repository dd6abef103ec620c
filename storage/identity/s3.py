"""Who the catalog is at a store of S3: its credential, or a role that it takes on with it (STS AssumeRole)."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.session import Session, get_session

from storage.credentials import AliyunOss, CloudflareR2, Credential, S3AccessKey, S3SystemIdentity, StackitAccessKey
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued, Keys, require_usable
from storage.identity.token_service import retry_within_deadline
from storage.network.aws_clients import create_client, creation_lock
from storage.network.endpoints import require_permitted_address
from storage.profiles.addresses import sts_address
from storage.profiles.s3 import S3Profile, require_known_to_operator

OWN_SESSION: Final = "lakekeeper-assume-role"
"""The name under which AWS logs what the catalog itself does in a role, as in Lakekeeper."""

_MOMENTARY: Final = frozenset(
    {"Throttling", "ThrottlingException", "RequestLimitExceeded", "SlowDown", "ServiceUnavailable", "InternalFailure"}
)


def base_keys(credential: Credential | None) -> Keys:
    """The keys of the warehouse's credential, or the server's own on AWS.

    Raises `CredentialNotIssued` when there are none.
    """
    match credential:
        case S3AccessKey() | AliyunOss() | CloudflareR2() | StackitAccessKey():
            return Keys(credential.access_key_id.get_secret_value(), credential.secret_access_key.get_secret_value())
        case S3SystemIdentity():
            require_usable(credential)
            return _system_keys()
    raise CredentialNotIssued("The warehouse has no credential for its storage")


def own_keys(profile: S3Profile, credential: Credential | None) -> Keys:
    """The keys that the catalog itself reads, writes and signs with. STS is asked when there is a role to take on.

    Raises `CredentialNotIssued` (412), `StoreUnavailable` (503), `RequestTimeout` (408), and `BadRequest` where the
    server's own identity would be shown to others than AWS.
    """
    if profile.assume_role_arn is None:
        return _shown_keys(profile, credential)
    role = profile.assume_role_arn
    return retry_within_deadline(lambda: assume_role(profile, credential, role_arn=role, session_name=OWN_SESSION))


def _shown_keys(profile: S3Profile, credential: Credential | None) -> Keys:
    """`base_keys`, to be used at the profile's addresses. Raises as that, and `require_known_to_operator`."""
    if isinstance(credential, S3SystemIdentity):
        require_known_to_operator(profile)
    return base_keys(credential)


def assume_role(
    profile: S3Profile, credential: Credential | None, *, role_arn: str | None, session_name: str, **more: Any
) -> Keys:
    """Temporary keys of a role, asked for with the base credential; `more` are parameters of AssumeRole.

    Without `role_arn` none is sent: MinIO then issues keys with the caller's own permissions. Raises as `own_keys`, and
    `EndpointNotPermitted` (400).
    """
    keys = _shown_keys(profile, credential)
    asked: dict[str, Any] = {"RoleSessionName": session_name, **more}
    if role_arn is not None:
        asked["RoleArn"] = role_arn
    if profile.sts_session_tags:
        asked["Tags"] = [{"Key": key, "Value": value} for key, value in profile.sts_session_tags.items()]
    external_id = getattr(credential, "external_id", None)
    if external_id is not None:
        asked["ExternalId"] = external_id.get_secret_value()
    address = sts_address(profile)
    if address is not None:
        require_permitted_address(address, "sts-endpoint")
    try:
        response = _sts(address, profile.region, keys).assume_role(**asked)
        issued = response["Credentials"]
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))[:100]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _MOMENTARY or status >= 500:  # noqa: PLR2004
            raise StoreUnavailable(f"The token service of the storage failed: {code}") from None
        raise CredentialNotIssued(f"The token service of the storage refused temporary credentials: {code}") from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"The token service of the storage did not respond: {type(error).__name__}") from None
    except (KeyError, ResponseParserError):  # whose text contains the response
        raise CredentialNotIssued("The token service of the storage sent no credentials") from None
    return Keys(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"], _utc(issued["Expiration"]))


def _utc(at: Any) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise CredentialNotIssued("The token service of the storage sent no expiration")
    return at


@lru_cache(maxsize=256)
def _sts(endpoint: str | None, region: str, keys: Keys) -> Any:
    """A missing RoleArn and short lives are the store's to judge."""
    return create_client("sts", endpoint, region=region, keys=keys.parts, parameter_validation=False)


def _system_keys() -> Keys:
    with creation_lock:
        found = _system_session().get_credentials()
    if found is None:
        raise CredentialNotIssued("This server has no AWS identity of its own")
    try:
        frozen = found.get_frozen_credentials()  # renews what is about to expire
    except BotoCoreError as error:
        raise StoreUnavailable(f"AWS did not identify this server: {type(error).__name__}") from None
    if frozen.access_key is None or frozen.secret_key is None:
        raise CredentialNotIssued("This server has no AWS identity of its own")
    return Keys(frozen.access_key, frozen.secret_key, frozen.token, getattr(found, "_expiry_time", None))


@lru_cache(maxsize=1)
def _system_session() -> Session:
    return get_session()
