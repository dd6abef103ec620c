"""A container of a storage account of Azure, or a workspace of OneLake."""

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

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.refreshing import RefreshingValue
from icekeeper.kernel.retry import unlimited
from storage.credentials import AzureClientCredentials, AzureSharedKey, AzureSystemIdentity, Credential
from storage.errors import StoreUnavailable
from storage.identity.azure import account_url, catalog_token
from storage.identity.keys import CredentialNotIssued, Token
from storage.io.bucket import NO_RETRIES, PAGE, Bucket, ListedPage, client_options
from storage.io.store_errors import CONFLICT, store_error, too_large_error, unavailable_error
from storage.network.store_http import MAX_RESPONSE_BYTES, azure_client_options, retry_store_call
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.vending.client_config import SAS_TOKEN
from storage.vending.vended import Vended

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureCredential  # not there at run time

Profile = AdlsProfile | OneLakeProfile
T = TypeVar("T")

PART: Final = MAX_RESPONSE_BYTES
"""Bytes of an object that are asked for at once; most metadata is smaller."""


class AccountKey:
    """The key of the whole account, which does not end."""

    def __init__(self, account: str, key: str) -> None:
        self.for_sdk: Any = AzureNamedKeyCredential(account, key)
        self._key = key

    def prepare(self) -> None:
        """There it is."""

    def for_obstore(self) -> AzureCredential:
        return {"access_key": self._key, "expires_at": None}


class Signature:
    """A shared access signature, such as clients get."""

    def __init__(self, vended: Vended) -> None:
        (self._token,) = (value for name, value in vended.config.items() if name.startswith(SAS_TOKEN))
        self.for_sdk: Any = AzureSasCredential(self._token)
        self._expires_at = vended.expires_at

    def prepare(self) -> None:
        """There it is."""

    def for_obstore(self) -> AzureCredential:
        return {"sas_token": self._token, "expires_at": self._expires_at}


class Bearer:
    """A token of Entra ID, renewed before it ends."""

    def __init__(self, issue: Callable[[], Token]) -> None:
        self._tokens = RefreshingValue(issue, timeout_error=StoreUnavailable)
        self.for_sdk: Any = self

    def prepare(self) -> None:
        self._tokens.current()

    def for_obstore(self) -> AzureCredential:
        token = self._tokens.current()
        return {"token": token.value, "expires_at": token.expires_at}

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        """As the SDK asks for it."""
        token = self._tokens.current()
        return AccessToken(token.value, 0 if token.expires_at is None else int(token.expires_at.timestamp()))


Proof = AccountKey | Signature | Bearer


class AzureContainer(Bucket):
    """`proof` is what it is asked with."""

    kind = "azure"
    delete_batch_size: ClassVar[int] = 1
    max_parallel_deletes: ClassVar[int] = 16

    def __init__(self, profile: Profile, proof: Proof) -> None:
        account, container = _names(profile)
        service = _blob_service(profile, account)
        if isinstance(proof, Bearer) and service.startswith("http://"):
            raise CredentialNotIssued("Tokens of Entra ID are sent over https only: ICEKEEPER__STORAGE__AZURE_ENDPOINT")
        self._proof = proof
        self._location = profile.location.partition("/")[0] + f"//{urlsplit(profile.location).netloc}"
        config: AzureConfig = {  # what is left out is taken from this server's environment
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
            credential_provider=proof.for_obstore,
        )
        self._client = ContainerClient(
            service,
            container,
            credential=proof.for_sdk,
            max_single_get_size=PART,
            max_chunk_get_size=PART,
            **azure_client_options(),
        )

    @classmethod
    def of(cls, profile: Profile, credential: Credential | None) -> Self:
        """The container as the catalog itself asks for it. Raises `CredentialNotIssued`."""
        match credential:
            case AzureSharedKey():
                return cls(profile, AccountKey(_names(profile)[0], credential.key.get_secret_value()))
            case AzureClientCredentials() | AzureSystemIdentity():
                return cls(profile, Bearer(lambda: catalog_token(profile, credential)))
        raise CredentialNotIssued("The warehouse has no credential for its storage")

    @classmethod
    def with_vended(cls, profile: Profile, vended: Vended) -> Self:
        """The container as a client asks for it."""
        return cls(profile, Signature(vended))

    def prepare(self) -> None:
        self._proof.prepare()

    def read(self, name: str, location: str, limit: int) -> bytes:
        """By the SDK, as obstore would follow a redirect to any host. One request for each `PART`."""
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

    def list_names(self, prefix: str, *, page: int = PAGE) -> Iterator[ListedPage]:
        token: str | None = None
        while True:
            listed, token = self._ask(prefix, self._list, prefix, page, token)
            yield listed
            if not token:
                return

    def delete_names(self, names: Sequence[str]) -> None:
        first: CatalogError | None = None
        for name in names:
            try:
                self._ask(name, self._delete, name, delete_snapshots="include")
            except CatalogError as error:
                first = first or error
        if first is not None:
            raise first

    def is_folder(self, name: str) -> bool:
        return self._ask(name, self._has_mark_of_folder, name)

    def remove_folders(self, folders: Sequence[str]) -> int:
        return sum(self._ask(folder, self._remove, folder) for folder in folders)

    def _ask(self, name: str, act: Callable[..., T], *arguments: Any, **options: Any) -> T:
        def ask(_tried: int) -> T:
            with _translate_errors(f"{self._location}/{name}"):
                return act(*arguments, **options)

        return retry_store_call(ask, remaining=unlimited)

    def _list(self, prefix: str, page: int, token: str | None) -> tuple[ListedPage, str | None]:
        found = self._client.list_blobs(name_starts_with=prefix, include=["metadata"], results_per_page=page)
        pages: Any = found.by_page(token)
        blobs = list(next(pages, ()))
        folders = {blob.name for blob in blobs if _is_folder(blob.metadata)}
        names = [blob.name for blob in blobs if blob.name not in folders]
        return ListedPage(names, sorted(folders)), pages.continuation_token

    def _delete(self, name: str, **options: Any) -> None:
        try:
            self._client.delete_blob(name, **options)
        except ResourceNotFoundError as error:
            if _code(error) != "BlobNotFound":
                raise

    def _remove(self, folder: str) -> bool:
        """Whether it is gone; not when something is in it."""
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
    """Return whether it is a directory: of hierarchical accounts, or as Hadoop marks those of others."""
    return (metadata or {}).get("hdi_isfolder") == "true"


def _names(profile: Profile) -> tuple[str, str]:
    """Account and container: OneLake is one account, whatever the host."""
    if isinstance(profile, OneLakeProfile):
        return "onelake", profile.workspace_id
    return profile.account_name, profile.filesystem


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
        # The last ones are raised by the SDK for invalid responses.
        raise unavailable_error(type(error).__name__, location) from None


def _code(error: HttpResponseError) -> str | None:
    code = getattr(error, "error_code", None)
    text = str(getattr(code, "value", code))
    return text if text.isalpha() and code is not None else None
