"""Client of a container of an Azure storage account, or of a OneLake workspace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from django.conf import settings
from obstore.store import AzureStore

from storage.credentials import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity, Credential
from storage.errors import StoreUnavailable
from storage.identity.azure import account_url, azure_client_options, catalog_token
from storage.identity.keys import CredentialNotIssued, RefreshingValue, Token
from storage.io.bucket import (
    CONFLICT,
    NO_RETRIES,
    PAGE,
    Bucket,
    ListedPage,
    client_options,
    store_error,
    too_large_error,
    unavailable_error,
)
from storage.network.store_http import (
    MAX_RESPONSE_BYTES,
    RemainingTime,
    retry_store_call,
    unlimited,
)
from storage.profiles.azure import AdlsProfile, OneLakeProfile, account_and_container
from storage.vending.client_config import SAS_TOKEN
from storage.vending.delegation import Vended

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureCredential  # only for type checkers

Profile = AdlsProfile | OneLakeProfile
T = TypeVar("T")

PART: Final = MAX_RESPONSE_BYTES
"""Bytes of an object that one request reads; most metadata files are smaller."""


class AccountKey:
    """The access key of the account, which does not expire."""

    def __init__(self, account: str, key: str) -> None:
        self.for_sdk: Any = AzureNamedKeyCredential(account, key)
        self._key = key

    def prepare(self) -> None:
        """Nothing to do."""

    def for_obstore(self) -> AzureCredential:
        return {"access_key": self._key, "expires_at": None}


class Signature:
    """A shared access signature (SAS), as it is vended to clients."""

    def __init__(self, vended: Vended) -> None:
        (self._token,) = (value for name, value in vended.config.items() if name.startswith(SAS_TOKEN))
        self.for_sdk: Any = AzureSasCredential(self._token)
        self._expires_at = vended.expires_at

    def prepare(self) -> None:
        """Nothing to do."""

    def for_obstore(self) -> AzureCredential:
        return {"sas_token": self._token, "expires_at": self._expires_at}


class Bearer:
    """A token of Entra ID, renewed before it expires."""

    def __init__(self, issue: Callable[[], Token]) -> None:
        self._tokens = RefreshingValue(issue, timeout_error=StoreUnavailable)
        self.for_sdk: Any = self

    def prepare(self) -> None:
        self._tokens.current()

    def for_obstore(self) -> AzureCredential:
        token = self._tokens.current()
        return {"token": token.value, "expires_at": token.expires_at}

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        """Implement the SDK's `TokenCredential`."""
        token = self._tokens.current()
        return AccessToken(token.value, 0 if token.expires_at is None else int(token.expires_at.timestamp()))


Auth = AccountKey | Signature | Bearer


class AzureContainer(Bucket):
    """Blobs are read with the SDK and written with obstore, both with the same `auth`."""

    kind = "azure"
    max_parallel_deletes: ClassVar[int] = 16

    def __init__(self, profile: Profile, auth: Auth) -> None:
        account, container = account_and_container(profile)
        service = _blob_service(profile, account)
        if isinstance(auth, Bearer) and service.startswith("http://"):
            raise CredentialNotIssued("Tokens of Entra ID are sent over https only: ICEKEEPER__STORAGE__AZURE_ENDPOINT")
        self._auth = auth
        self._location = profile.location.partition("/")[0] + f"//{urlsplit(profile.location).netloc}"
        config: AzureConfig = {  # obstore reads omitted options from the environment
            "account_name": account,
            "container_name": container,
            "endpoint": service,
            "use_emulator": False,
            "use_fabric_endpoint": False,
            "skip_signature": False,
        }
        self.objects = AzureStore(
            config=config,
            client_options=client_options(service),
            retry_config=NO_RETRIES,
            credential_provider=auth.for_obstore,
        )
        self._client = ContainerClient(
            service,
            container,
            credential=auth.for_sdk,
            max_single_get_size=PART,
            max_chunk_get_size=PART,
            **azure_client_options(),
        )

    @classmethod
    def of(cls, profile: Profile, credential: Credential | Vended | None) -> Self:
        """Return the client of the catalog itself with its credential, or of an engine with vended credentials.

        Raises `CredentialNotIssued`.
        """
        match credential:
            case AzureSharedKey():
                return cls(profile, AccountKey(account_and_container(profile)[0], credential.key.get_secret_value()))
            case AzureClientCredentials() | AzureSystemIdentity():
                return cls(profile, Bearer(lambda: catalog_token(profile, credential)))
            case Vended():
                return cls(profile, Signature(credential))
        raise CredentialNotIssued("The warehouse has no credential for its storage")

    def prepare(self) -> None:
        self._auth.prepare()

    def read(self, name: str, location: str, limit: int) -> bytes:
        """Uses the SDK: obstore would follow redirects to any host. One request for each `PART`."""
        with _translate_errors(location):
            until = time.monotonic() + settings.ICEKEEPER.storage.request_timeout
            found = self._client.download_blob(name)
            if found.size > limit:
                raise too_large_error(location, limit)
            content = bytearray()
            for piece in found.chunks():
                content += piece
                if len(content) > limit:
                    raise too_large_error(location, limit)
                if time.monotonic() > until:
                    raise unavailable_error("timeout", location)
            return bytes(content)

    def require(self, name: str, location: str) -> None:
        with _translate_errors(location):
            self._client.get_blob_client(name).get_blob_properties()

    def list_names(
        self, prefix: str, *, page: int = PAGE, remaining: RemainingTime = unlimited
    ) -> Iterator[ListedPage]:
        token: str | None = None
        while True:
            listed, token = self._retry(prefix, self._list, prefix, page, token, remaining=remaining)
            yield listed
            if not token:
                return

    def delete_name(self, name: str, *, remaining: RemainingTime = unlimited) -> None:
        self._retry(name, self._delete, name, delete_snapshots="include", remaining=remaining)

    def is_folder(self, name: str) -> bool:
        return self._retry(name, self._has_mark_of_folder, name)

    def remove_folders(self, folders: Sequence[str]) -> int:
        return sum(self._retry(folder, self._remove, folder) for folder in folders)

    def _retry(
        self,
        name: str,
        call: Callable[..., T],
        *arguments: Any,
        remaining: RemainingTime = unlimited,
        **options: Any,
    ) -> T:
        def attempt(_tried: int) -> T:
            with _translate_errors(f"{self._location}/{name}"):
                return call(*arguments, **options)

        return retry_store_call(attempt, remaining=remaining)

    def _list(self, prefix: str, page: int, token: str | None) -> tuple[ListedPage, str | None]:
        found = self._client.list_blobs(name_starts_with=prefix, include=["metadata"], results_per_page=page)
        pages: Any = found.by_page(token)
        blobs = list(next(pages, ()))
        folders = {blob.name for blob in blobs if _is_folder(blob.metadata)}
        objects = {blob.name: blob.size or 0 for blob in blobs if blob.name not in folders}
        return ListedPage(objects, sorted(folders)), pages.continuation_token

    def _delete(self, name: str, **options: Any) -> None:
        try:
            self._client.delete_blob(name, **options)
        except ResourceNotFoundError as error:
            if _code(error) != "BlobNotFound":
                raise

    def _remove(self, folder: str) -> bool:
        """Return whether it was removed; False when it is not empty."""
        try:
            self._delete(folder)
        except HttpResponseError as error:
            if error.status_code != CONFLICT:
                raise
            return False
        return True

    def _has_mark_of_folder(self, name: str) -> bool:
        try:
            return _is_folder(self._client.get_blob_client(name).get_blob_properties().metadata)
        except ResourceNotFoundError:
            return False


def _is_folder(metadata: Mapping[str, str] | None) -> bool:
    """Return whether a blob is a directory: of a hierarchical account, or a directory marker of Hadoop."""
    return (metadata or {}).get("hdi_isfolder") == "true"


def _blob_service(profile: Profile, account: str) -> str:
    chosen = settings.ICEKEEPER.storage.azure_endpoint
    if chosen is not None:
        return chosen.replace("{account}", account)
    if isinstance(profile, OneLakeProfile):
        host = urlsplit(profile.location).hostname or ""
        return f"https://{host.replace('.dfs.', '.blob.')}"
    return account_url(profile)


@contextmanager
def _translate_errors(location: str) -> Iterator[None]:
    try:
        yield
    except HttpResponseError as error:
        raise store_error(error.status_code or 0, _code(error), location) from None
    except (AzureError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        # The SDK raises the last ones for invalid responses.
        raise unavailable_error(type(error).__name__, location) from None


def _code(error: HttpResponseError) -> str | None:
    code = getattr(error, "error_code", None)
    text = str(getattr(code, "value", code))
    return text if text.isalpha() and code is not None else None
