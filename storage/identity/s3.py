"""S3 keys of the catalog itself: those of the warehouse's credential, or of a role (STS AssumeRole)."""

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
from storage.profiles.s3 import S3Profile, require_trusted_endpoints

OWN_SESSION: Final = "lakekeeper-assume-role"
"""Session name in AWS logs of what the catalog itself does in a role, as in Lakekeeper."""

_TRANSIENT: Final = frozenset(
    {"Throttling", "ThrottlingException", "RequestLimitExceeded", "SlowDown", "ServiceUnavailable", "InternalFailure"}
)


def base_keys(credential: Credential | None) -> Keys:
    """Return the keys of the credential, or those of the server's own identity.

    Raises `CredentialNotIssued` without a credential.
    """
    match credential:
        case S3AccessKey() | AliyunOss() | CloudflareR2() | StackitAccessKey():
            return Keys(credential.access_key_id.get_secret_value(), credential.secret_access_key.get_secret_value())
        case S3SystemIdentity():
            require_usable(credential)
            return _system_keys()
    raise CredentialNotIssued("The warehouse has no credential for its storage")


def catalog_keys(profile: S3Profile, credential: Credential | None) -> Keys:
    """Return the keys with which the catalog itself reads, writes and signs; one call of STS if the profile has a role.

    Raises `CredentialNotIssued` (412), `StoreUnavailable` (503), `RequestTimeout` (408), and `BadRequest` where the
    server's own identity would be sent to other hosts than AWS.
    """
    if profile.assume_role_arn is None:
        return _trusted_base_keys(profile, credential)
    role = profile.assume_role_arn
    return retry_within_deadline(lambda: assume_role(profile, credential, role_arn=role, session_name=OWN_SESSION))


def _trusted_base_keys(profile: S3Profile, credential: Credential | None) -> Keys:
    """Return `base_keys` if they may be used at the profile's endpoints. Raises as `require_trusted_endpoints`."""
    if isinstance(credential, S3SystemIdentity):
        require_trusted_endpoints(profile)
    return base_keys(credential)


def assume_role(
    profile: S3Profile, credential: Credential | None, *, role_arn: str | None, session_name: str, **more: Any
) -> Keys:
    """Call AssumeRole with the base keys; `more` are further parameters of it.

    Without `role_arn` none is sent: MinIO then issues keys with the caller's own permissions. Raises as `catalog_keys`,
    and `EndpointNotPermitted` (400).
    """
    keys = _trusted_base_keys(profile, credential)
    parameters: dict[str, Any] = {"RoleSessionName": session_name, **more}
    if role_arn is not None:
        parameters["RoleArn"] = role_arn
    if profile.sts_session_tags:
        parameters["Tags"] = [{"Key": key, "Value": value} for key, value in profile.sts_session_tags.items()]
    external_id = getattr(credential, "external_id", None)
    if external_id is not None:
        parameters["ExternalId"] = external_id.get_secret_value()
    address = sts_address(profile)
    if address is not None:
        require_permitted_address(address, "sts-endpoint")
    try:
        response = _sts(address, profile.region, keys).assume_role(**parameters)
        issued = response["Credentials"]
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))[:100]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _TRANSIENT or status >= 500:  # noqa: PLR2004
            raise StoreUnavailable(f"The token service of the storage failed: {code}") from None
        raise CredentialNotIssued(f"The token service of the storage refused temporary credentials: {code}") from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"The token service of the storage did not respond: {type(error).__name__}") from None
    except (KeyError, ResponseParserError):  # its text contains the response
        raise CredentialNotIssued("The token service of the storage sent no credentials") from None
    return Keys(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"], _utc(issued["Expiration"]))


def _utc(at: Any) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise CredentialNotIssued("The token service of the storage sent no expiration")
    return at


@lru_cache(maxsize=256)
def _sts(endpoint: str | None, region: str, keys: Keys) -> Any:
    """Without parameter validation: other stores than AWS accept a missing RoleArn and short durations."""
    return create_client("sts", endpoint, region=region, keys=keys.parts, parameter_validation=False)


def _system_keys() -> Keys:
    with creation_lock:
        found = _system_session().get_credentials()
    if found is None:
        raise CredentialNotIssued("This server has no AWS identity of its own")
    try:
        frozen = found.get_frozen_credentials()  # renews keys that are about to expire
    except BotoCoreError as error:
        raise StoreUnavailable(f"AWS did not identify this server: {type(error).__name__}") from None
    if frozen.access_key is None or frozen.secret_key is None:
        raise CredentialNotIssued("This server has no AWS identity of its own")
    return Keys(frozen.access_key, frozen.secret_key, frozen.token, getattr(found, "_expiry_time", None))


@lru_cache(maxsize=1)
def _system_session() -> Session:
    return get_session()
