"""Client of a bucket of S3 or a compatible store."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from django.conf import settings
from obstore.store import S3Store
from urllib3.exceptions import HTTPError

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.client import ResponseTooLarge, UnusableResponse, read_bounded
from storage.credentials import AliyunOss, Credential
from storage.errors import StoreUnavailable
from storage.identity.keys import Keys, RefreshingValue
from storage.identity.s3 import catalog_keys
from storage.io.bucket import (
    NO_RETRIES,
    PAGE,
    Bucket,
    ListedPage,
    client_options,
    store_error,
    too_large_error,
    unavailable_error,
)
from storage.io.port import ObjectNotFound
from storage.io.s3_listing import parse_objects
from storage.network.aws_clients import create_client
from storage.network.store_http import RemainingTime, retry_store_call, unlimited
from storage.profiles.s3 import S3Profile
from storage.vending.delegation import Vended
from storage.vending.s3_sts import keys_from_vended

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential  # not there at run time

T = TypeVar("T")

_NOT_IN_XML: Final = re.compile(r"[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that the XML body of DeleteObjects cannot contain or would change."""
_NO_BULK_DELETE: Final = frozenset({"NotImplemented", "MethodNotAllowed", "MalformedXML"})
_STATUS_OF: Final = {"AccessDenied": 403, "MethodNotAllowed": 405, "InvalidArgument": 400, "ObjectLocked": 400}
"""Status by the error code of an object in the response of DeleteObjects; 500 for all others."""
_CODE: Final = re.compile("[A-Za-z.]{1,80}")


class S3Bucket(Bucket):
    kind = "s3"
    delete_batch_size: ClassVar[int] = PAGE
    max_parallel_deletes: ClassVar[int] = 4

    def __init__(self, profile: S3Profile, keys: Callable[[], Keys], *, sends_md5: bool) -> None:
        """`keys` returns the keys, and is called again before they expire; `sends_md5` is for old stores."""
        self._profile, self._sends_md5 = profile, sends_md5
        self._keys = RefreshingValue(keys, timeout_error=StoreUnavailable)
        self._cached_client: tuple[Keys, Any] | None = None
        self._location = f"s3://{profile.bucket}"
        endpoint = bucket_endpoint(profile)
        config: S3Config = {  # obstore reads omitted options from the environment
            "bucket": profile.bucket,
            "region": profile.region,
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "virtual_hosted_style_request": not uses_path_style(profile),
            "skip_signature": False,
            "s3_express": False,
            "request_payer": False,
            "unsigned_payload": False,
            "conditional_put": "etag",
            "disable_bulk_delete": True,  # deletions do not use obstore
        }
        if profile.aws_kms_key_arn is not None:
            config |= {"server_side_encryption": "aws:kms", "sse_kms_key_id": profile.aws_kms_key_arn}
        self.objects = S3Store(
            config=config,
            client_options=client_options(endpoint),
            retry_config=NO_RETRIES,
            credential_provider=_credential_provider(self._keys),
        )

    @classmethod
    def of(cls, profile: S3Profile, credential: Credential | Vended | None) -> Self:
        """Return the client of the catalog itself with its credential, or of an engine with vended credentials."""
        sends_md5 = bool(profile.legacy_md5_behavior)
        if isinstance(credential, Vended):
            keys = keys_from_vended(credential)
            return cls(profile, lambda: keys, sends_md5=sends_md5)
        sends_md5 = sends_md5 or isinstance(credential, AliyunOss)
        return cls(profile, lambda: catalog_keys(profile, credential), sends_md5=sends_md5)

    def prepare(self) -> None:
        self._keys.current()

    def read(self, name: str, location: str, limit: int) -> bytes:
        """Uses botocore: obstore would follow redirects to any host, with the session token."""
        until = time.monotonic() + settings.ICEKEEPER.storage.request_timeout
        with _translate_errors(location):
            response = self._client().get_object(Bucket=self._profile.bucket, Key=name)
            with closing(response["Body"]) as body:
                if response.get("ContentLength", 0) > limit:
                    raise too_large_error(location, limit)
                try:
                    return read_bounded(body.read, limit=limit, until=until)
                except ResponseTooLarge:  # whatever Content-Length said
                    raise too_large_error(location, limit) from None
                except UnusableResponse:
                    raise unavailable_error("timeout", location) from None

    def require(self, name: str, location: str) -> None:
        with _translate_errors(location):
            self._client().head_object(Bucket=self._profile.bucket, Key=name)

    def list_names(
        self, prefix: str, *, page: int = PAGE, remaining: RemainingTime = unlimited
    ) -> Iterator[ListedPage]:
        parameters: dict[str, Any] = {"Bucket": self._profile.bucket, "Prefix": prefix, "MaxKeys": page}
        while True:
            listed = self._retry(prefix, lambda: self._client().list_objects_v2(**parameters), remaining=remaining)
            yield ListedPage({each["Key"]: each["Size"] for each in listed.get("Contents", [])})
            token = listed.get("NextContinuationToken")
            if not listed.get("IsTruncated") or token is None:
                return
            parameters["ContinuationToken"] = token

    def delete_name(self, name: str, *, remaining: RemainingTime = unlimited) -> None:
        """Uses botocore, as `read` does."""
        parameters = {"Bucket": self._profile.bucket, "Key": name}
        with suppress(ObjectNotFound):
            self._retry(name, lambda: self._client().delete_object(**parameters), remaining=remaining)

    def delete_names(self, names: Sequence[str], *, remaining: RemainingTime = unlimited) -> dict[str, CatalogError]:
        bulk = [name for name in names if not _NOT_IN_XML.search(name)]
        alone = [name for name in names if _NOT_IN_XML.search(name)]
        errors = self._delete_together(bulk, remaining) if bulk else {}
        if errors is None:
            errors, alone = {}, list(names)
        for name in alone:
            errors |= super().delete_names([name], remaining=remaining)
        return errors

    def _delete_together(self, names: Sequence[str], remaining: RemainingTime) -> dict[str, CatalogError] | None:
        """Send a DeleteObjects request, and again those names that the store failed to delete.

        Returns the errors by name; None if the store does not support such requests.
        """
        left = names
        rejected: dict[str, CatalogError] = {}

        def delete() -> bool:
            nonlocal left
            parameters = {"Objects": [{"Key": name} for name in left], "Quiet": True}
            try:
                response = self._client().delete_objects(Bucket=self._profile.bucket, Delete=parameters)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _NO_BULK_DELETE:
                    return False
                raise
            errors = self._errors_by_name(response)
            rejected.update((name, error) for name, error in errors.items() if not isinstance(error, StoreUnavailable))
            failed = {name: error for name, error in errors.items() if isinstance(error, StoreUnavailable)}
            if failed:
                left = [name for name in left if name in failed] or left
                raise next(iter(failed.values()))
            return True

        try:
            is_supported = self._retry("", delete, remaining=remaining)
        except CatalogError as error:
            return dict.fromkeys(left, error) | rejected
        return rejected if is_supported else None

    def _errors_by_name(self, response: Any) -> dict[str, CatalogError]:
        """Return the errors in a response of DeleteObjects, except those for missing objects."""
        errors: dict[str, CatalogError] = {}
        for failed in response.get("Errors", []):
            name, code = failed.get("Key", ""), _code(failed)
            if code != "NoSuchKey":
                errors[name] = store_error(_STATUS_OF.get(code or "", 500), code, f"{self._location}/{name}")
        return errors

    def _retry(self, name: str, call: Callable[[], T], *, remaining: RemainingTime = unlimited) -> T:
        def attempt(_tried: int) -> T:
            with _translate_errors(f"{self._location}/{name}"):
                return call()

        return retry_store_call(attempt, remaining=remaining)

    def _client(self) -> Any:
        keys, cached = self._keys.current(), self._cached_client
        if cached is None or cached[0] != keys:
            cached = self._cached_client = keys, _client(self._profile, keys, sends_md5=self._sends_md5)
        return cached[1]


def _credential_provider(kept: RefreshingValue[Keys]) -> Callable[[], S3Credential]:
    """Return obstore's callback for keys. It must not refer to the bucket: such a cycle is never collected."""

    def provide() -> S3Credential:
        keys = kept.current()
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token,
            "expires_at": keys.expires_at and keys.expires_at.astimezone(UTC),  # obstore rejects time zones of dateutil
        }

    return provide


def _client(profile: S3Profile, keys: Keys, *, sends_md5: bool) -> Any:
    client = create_client(
        "s3",
        _endpoint(profile),
        region=profile.region,
        keys=keys.parts,
        s3={"addressing_style": "path" if uses_path_style(profile) else "virtual"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client.meta.events.register("before-call.s3", _stay_in_the_region)
    client.meta.events.register("before-parse.s3.ListObjectsV2", parse_objects)
    if sends_md5:
        client.meta.events.register("before-call.s3.DeleteObjects", _add_md5)
    return client


def _stay_in_the_region(params: dict[str, Any], **_: Any) -> None:
    """Prevent botocore from following region redirects, which has no limit."""
    params["context"].setdefault("s3_redirect", {})["redirected"] = True


def _add_md5(params: dict[str, Any], **_: Any) -> None:
    """Replace the newer checksum, which old stores do not support."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()
    params["context"].pop("checksum", None)


def _endpoint(profile: S3Profile) -> str:
    """Return the endpoint without a trailing slash."""
    if profile.endpoint is not None:
        return profile.endpoint.rstrip("/")
    return f"https://s3.{profile.region}.amazonaws.com" + (".cn" if profile.region.startswith("cn-") else "")


def bucket_endpoint(profile: S3Profile) -> str:
    """Return the endpoint for obstore, with the bucket in the host name unless path style is used."""
    scheme, host = _endpoint(profile).split("://")
    return f"{scheme}://{host}" if uses_path_style(profile) else f"{scheme}://{profile.bucket}.{host}"


def uses_path_style(profile: S3Profile) -> bool:
    """Return whether requests are path-style: by the profile, or because the bucket cannot be in the host name."""
    host = urlsplit(_endpoint(profile)).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        if profile.path_style_access is None and "." not in host:
            return True
        return bool(profile.path_style_access) or "." in profile.bucket
    return True


@contextmanager
def _translate_errors(location: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise store_error(status, _code(error.response.get("Error", {})), location) from None
    except (BotoCoreError, ResponseParserError, HTTPError, OSError) as error:
        raise unavailable_error(type(error).__name__, location) from None


def _code(error: dict[str, Any]) -> str | None:
    code = str(error.get("Code", ""))
    return code if _CODE.fullmatch(code) else None
