"""Issue a credential for clients: one call of a token service, or none."""

from __future__ import annotations

from icekeeper.kernel.errors.types import CatalogError
from storage.credentials.azure import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity
from storage.credentials.credential import Credential
from storage.credentials.gcs import GcpSystemIdentity, GcsServiceAccount
from storage.credentials.s3 import AliyunOss, CloudflareR2, S3AccessKey, S3SystemIdentity, StackitAccessKey
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.options import vends_credentials
from storage.profiles.profile import MissingCredential, Profile
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.vending import oss, r2, sts
from storage.vending.rights import FileAccess
from storage.vending.vended import Vended


class UnsupportedCredential(CatalogError):
    """No temporary credentials can be had with one of this kind."""

    status, wire_type, is_final = 501, "UnsupportedCredentialError", True


def issue(profile: Profile, credential: Credential | None, *, location: str, rights: FileAccess) -> Vended | None:
    """A new credential for the folder at `location`; None where the profile gives clients none.

    `profile` may be one that no warehouse has yet. Raises as `vend`.
    """
    if not vends_credentials(profile.as_json()):
        return None
    return issue_credential(profile, credential, location=location, rights=rights)


def issue_credential(profile: Profile, credential: Credential | None, *, location: str, rights: FileAccess) -> Vended:
    """As `issue`, for a profile that gives clients credentials. Raises also as `require_permitted_addresses`.

    The libraries of Azure and Google are read where a warehouse needs them: they take 50 MB and a second.
    """
    if credential is None:
        raise MissingCredential("The warehouse has no credential for its storage, so clients can be given none")
    require_permitted_addresses(profile, credential)
    match profile, credential:
        case S3Profile() | StackitProfile(), S3AccessKey() | S3SystemIdentity() | StackitAccessKey():
            return sts.issue(profile.as_s3(), credential, location=location, rights=rights)
        case S3Profile(), CloudflareR2():
            return r2.issue(profile, credential, location=location, rights=rights)
        case S3Profile(), AliyunOss():
            return oss.issue(profile, credential, location=location, rights=rights)
        case AdlsProfile(), AzureClientCredentials() | AzureSharedKey() | AzureSystemIdentity():
            from storage.vending import azure_sas

            return azure_sas.issue(profile, credential, location=location, rights=rights)
        case OneLakeProfile(), AzureClientCredentials() | AzureSystemIdentity():
            from storage.vending import azure_sas

            return azure_sas.issue(profile, credential, location=location, rights=rights)
        case GcsProfile(), GcsServiceAccount() | GcpSystemIdentity():
            from storage.vending import gcs_boundary

            return gcs_boundary.issue(profile, credential, location=location, rights=rights)
    raise UnsupportedCredential(
        f"Storage of type {profile.type} gives no temporary credentials with {credential.credential_type}"
    )
