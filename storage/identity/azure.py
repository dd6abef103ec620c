"""Azure tokens of the catalog itself, and user delegation keys that sign vended SAS tokens."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import BlobServiceClient, UserDelegationKey
from cachetools import LRUCache
from django.conf import settings

from storage.credentials import AzureClientCredentials, AzureSystemIdentity
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued, Token, require_usable
from storage.identity.token_service import retry_within_deadline
from storage.network.endpoints import require_permitted_address
from storage.network.store_http import ca_bundle, store_session
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.azure import DEFAULT_AUTHORITY_HOST, DEFAULT_HOST, AdlsProfile, OneLakeProfile

ONELAKE_KEYS: Final = "https://onelake.blob.fabric.microsoft.com"
"""Endpoint that issues delegation keys for OneLake, whatever the host of a lakehouse."""
STORAGE_SCOPE: Final = "https://storage.azure.com/.default"
MAX_LIFETIME: Final = timedelta(days=7)
MAX_ONELAKE_LIFETIME: Final = timedelta(hours=1)
KEY_LIFETIME_MARGIN: Final = timedelta(hours=12)
"""Added to the lifetime of a delegation key, so that it can sign more tokens than the first."""
MAX_CACHED_KEYS: Final = 1024

AZURE_DOMAINS: Final = (
    ".core.windows.net",
    ".core.chinacloudapi.cn",
    ".core.usgovcloudapi.net",
    ".core.microsoft.scloud",
    ".core.eaglex.ic.gov",
    ".storage.azure.net",
    ".fabric.microsoft.com",
)
"""Suffixes of Microsoft's own host names, in all its clouds."""

_CODE = re.compile(r"AADSTS[0-9]{1,10}")
_NAME = re.compile(r"[A-Za-z]{1,100}")
_TOO_MANY, _FAILED = 429, 500

Identity = AzureClientCredentials | AzureSystemIdentity


class DelegationKeys:
    """A thread-safe cache of user delegation keys, by account and identity, until they expire."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: LRUCache[tuple[str, str | None, Identity], tuple[datetime, UserDelegationKey]] = LRUCache(
            MAX_CACHED_KEYS
        )

    def get(
        self, profile: AdlsProfile | OneLakeProfile, identity: Identity, *, start: datetime, expiry: datetime
    ) -> UserDelegationKey:
        """Return a key that is valid from `start` to `expiry`.

        Raises `CredentialNotIssued`, `EndpointNotPermitted`, `StoreUnavailable`.
        """
        account, authority = account_url(profile), _authority(profile, identity)
        with self._lock:
            ends_at, key = self._kept.get((account, authority, identity), (None, None))
        if key is not None and ends_at is not None and ends_at >= expiry:
            return key
        require_permitted_addresses(profile, identity)
        if isinstance(profile, AdlsProfile) and profile.host != DEFAULT_HOST:
            require_permitted_address(account, "host")
        longest = MAX_ONELAKE_LIFETIME if isinstance(profile, OneLakeProfile) else MAX_LIFETIME
        ends_at = max(expiry, min(expiry + KEY_LIFETIME_MARGIN, start + longest))
        credential, until = token_credential(identity, authority), ends_at
        key = retry_within_deadline(lambda: self.fetch(account, credential, start=start, expiry=until))
        with self._lock:
            self._kept[account, authority, identity] = ends_at, key
        return key

    @staticmethod
    def fetch(account: str, credential: TokenCredential, *, start: datetime, expiry: datetime) -> UserDelegationKey:
        """Request a key from the account. Raises as `get`."""
        try:
            with BlobServiceClient(account, credential=credential, **azure_client_options()) as client:
                return _usable(client.get_user_delegation_key(start, expiry))
        except HttpResponseError as error:
            status = error.status_code or 0
            if status == _TOO_MANY or status >= _FAILED:
                raise StoreUnavailable(f"Azure failed to issue a delegation key: status {status}") from None
            if _is_of_network(error):
                raise StoreUnavailable("Entra ID did not respond") from None
            raise CredentialNotIssued(f"Azure issued no delegation key: {_code(error)}") from None
        except AzureError as error:
            raise StoreUnavailable(f"Azure did not respond: {type(error).__name__}") from None
        except (ValueError, AttributeError):  # of the SDK, for an invalid tenant or a missing member
            raise CredentialNotIssued("Azure rejected the request, or sent no delegation key") from None


delegation_keys = DelegationKeys()


def azure_client_options() -> dict[str, Any]:
    """Return the options of a client of Azure's SDK. The client owns connections: close it, or keep it permanently.

    It does not follow redirects. It does not retry either: the SDK would wait as long as a Retry-After header says.
    """
    limits = settings.ICEKEEPER.storage
    bounds = {
        "connection_timeout": limits.connect_timeout,
        "read_timeout": limits.request_timeout,
        "connection_verify": ca_bundle(),
    }
    return {
        **bounds,
        "transport": RequestsTransport(session=store_session(), **bounds),
        "retry_total": 0,
        "permit_redirects": False,
    }


def catalog_token(profile: AdlsProfile | OneLakeProfile, identity: Identity) -> Token:
    """Return the token with which the catalog itself reads and writes.

    Raises `CredentialNotIssued`, `EndpointNotPermitted`, `StoreUnavailable`.
    """
    require_permitted_addresses(profile, identity)
    credential = token_credential(identity, _authority(profile, identity))
    return retry_within_deadline(lambda: _token(credential))


def _token(credential: TokenCredential) -> Token:
    try:
        issued = credential.get_token(STORAGE_SCOPE)
    except ClientAuthenticationError as error:
        if _is_of_network(error):
            raise StoreUnavailable("Entra ID did not respond") from None
        raise CredentialNotIssued(f"Entra ID issued no token: {_code(error)}") from None
    except AzureError as error:
        raise StoreUnavailable(f"Entra ID did not respond: {type(error).__name__}") from None
    except ValueError:
        raise CredentialNotIssued("Entra ID does not know the tenant, or sent no token") from None
    return Token(issued.token, datetime.fromtimestamp(issued.expires_on, UTC))


def _authority(profile: AdlsProfile | OneLakeProfile, identity: Identity) -> str | None:
    """Return the authority that issues tokens; None: that of the server's own environment.

    The creator of a warehouse chooses authority and host, and must not receive the server's own secret and tokens.
    Raises `CredentialNotIssued` for hosts that are not Microsoft's.
    """
    if isinstance(identity, AzureClientCredentials):
        return profile.authority_host or DEFAULT_AUTHORITY_HOST
    if not account_url(profile).endswith(AZURE_DOMAINS):
        raise CredentialNotIssued("The identity of this server is sent to hosts of Azure only")
    return None


def account_url(profile: AdlsProfile | OneLakeProfile) -> str:
    """Return the URL of the account's blob service, which issues delegation keys."""
    if isinstance(profile, OneLakeProfile):
        return ONELAKE_KEYS
    labels = ["blob" if label == "dfs" else label for label in profile.host.split(".")]
    return f"https://{profile.account_name}.{'.'.join(labels)}"


@lru_cache(maxsize=MAX_CACHED_KEYS)
def token_credential(identity: Identity, authority: str | None) -> TokenCredential:
    """Return the SDK's credential, which renews its tokens. Raises `CredentialNotIssued` for an invalid identity."""
    try:
        match identity:
            case AzureClientCredentials():
                return ClientSecretCredential(
                    identity.tenant_id.get_secret_value(),
                    identity.client_id.get_secret_value(),
                    identity.client_secret.get_secret_value(),
                    authority=authority,
                    disable_instance_discovery=True,  # it may not be one of Microsoft's
                    **azure_client_options(),
                )
        require_usable(identity)
        return DefaultAzureCredential(**azure_client_options())
    except ValueError:
        raise CredentialNotIssued("Azure does not know the tenant or authority") from None


def _is_of_network(error: HttpResponseError) -> bool:
    """Return whether a login failed because of the network: the SDK raises the same error for all failures."""
    cause = error.__cause__
    return isinstance(error, ClientAuthenticationError) and cause is not None and not isinstance(cause, ValueError)


def _usable(key: UserDelegationKey) -> UserDelegationKey:
    """Return the key. Raises `CredentialNotIssued` if it is incomplete."""
    named = key.signed_oid and key.signed_tid and key.signed_service and key.signed_version
    try:
        if named and base64.b64decode(key.value or "", validate=True):
            return key
    except ValueError:
        pass  # not base64
    raise CredentialNotIssued("Azure sent no delegation key")


def _code(error: HttpResponseError) -> str:
    """Return Azure's error code; its text may contain secrets."""
    found = _CODE.search(str(error))
    if found is not None:
        return found[0]
    code = str(getattr(error, "error_code", None) or "")
    return code if _NAME.fullmatch(code) else type(error).__name__
