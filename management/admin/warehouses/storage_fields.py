"""The fields of forms for storage profiles and credentials, derived from their shapes in `storage`.

A new member of a shape becomes a field of the form without a change here; only labels and the choice of the fields that
are shown first are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from django.utils.translation import gettext_lazy as _
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from icekeeper.kernel.errors.types import NotFound
from management.admin.navigation import Text
from storage.credentials import AliyunOss, Credential, Identifier, SystemIdentity
from storage.documents import StorageDocument, literal_value
from storage.profiles.kinds import ALIASES
from storage.profiles.kinds import KINDS as PROFILES
from storage.profiles.profile import Profile

PROFILE: Final = "storage-profile"
CREDENTIAL: Final = "storage-credential"


class Kind(StrEnum):
    """What is entered: `FLAG` is yes or no, `MAYBE` also neither; `FILE` is a JSON document with secrets."""

    TEXT = "text"
    IDENTIFIER = "identifier"
    SECRET = "secret"  # noqa: S105 - a name
    FILE = "file"
    FLAG = "flag"
    MAYBE = "maybe"
    CHOICE = "choice"
    NUMBER = "number"
    PAIRS = "pairs"


SECRET_KINDS: Final = frozenset({Kind.SECRET, Kind.FILE})
"""Fields that no page contains the value of."""


@dataclass(frozen=True, slots=True)
class StorageField:
    """A member of a request: `path` is its path there, such as `storage-profile.bucket`, which errors name as well.

    `variants` are the values of the member `type` of the same object with which it is sent; empty: always. `aliases`
    are other names of the member.
    """

    path: str
    kind: Kind
    label: Text
    description: str = ""
    is_required: bool = False
    is_common: bool = True
    is_fixed: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    @property
    def is_secret(self) -> bool:
        return self.kind in SECRET_KINDS

    @property
    def member(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Store:
    """A choice of store in the form: a type of profile with the credentials that it accepts there."""

    slug: str
    title: Text
    note: Text
    profile: type[Profile]
    credentials: tuple[type[Credential], ...]

    @property
    def credential_types(self) -> list[str]:
        return [literal_value(each, "credential_type") for each in self.credentials]

    @property
    def needs_no_credential(self) -> bool:
        """Whether a warehouse of this store may be created without a credential."""
        return not self.profile.needs_credential and AliyunOss not in self.credentials

    def credential(self, credential_type: str) -> type[Credential] | None:
        """Return the shape of a credential; None for the choice to have none. Raises `NotFound` for unknown types."""
        for each in self.credentials:
            if literal_value(each, "credential_type") == credential_type:
                return each
        if credential_type == NO_CREDENTIAL and self.needs_no_credential:
            return None
        raise NotFound("No such type of credential")

    @property
    def first_credential_type(self) -> str:
        return self.credential_types[0] if self.credentials else NO_CREDENTIAL


NO_CREDENTIAL: Final = "none"

_TITLES: Final[dict[str, tuple[Text, Text]]] = {
    "s3": ("S3", _("AWS, MinIO, Ceph, R2")),
    "adls": ("Azure", _("Data Lake Storage")),
    "onelake": ("OneLake", _("Microsoft Fabric")),
    "gcs": ("GCS", _("Google Cloud")),
    "aliyun-oss": ("Aliyun", _("OSS")),
    "stackit": ("STACKIT", _("Object Storage")),
    "local": (_("Local"), _("files of the server")),
}

CREDENTIAL_TITLES: Final[dict[str, Text]] = {
    "access-key": _("Access key"),
    "aws-system-identity": _("Identity of the server"),
    "cloudflare-r2": _("Cloudflare R2"),
    "aliyun-oss": _("Access key"),
    "client-credentials": _("Application (service principal)"),
    "shared-access-key": _("Key of the storage account"),
    "azure-system-identity": _("Identity of the server"),
    "service-account-key": _("Key of a service account"),
    "gcp-system-identity": _("Identity of the server"),
    NO_CREDENTIAL: _("None"),
}


def _stores() -> Iterable[Store]:
    for shape in PROFILES:
        slug = literal_value(shape, "type")
        own = tuple(each for each in shape.credentials if each is not AliyunOss)
        yield Store(slug, *_TITLES.get(slug, (slug, "")), shape, own)
        if AliyunOss in shape.credentials:
            yield Store("aliyun-oss", *_TITLES["aliyun-oss"], shape, (AliyunOss,))


STORES: Final = tuple(
    sorted(_stores(), key=lambda each: list(_TITLES).index(each.slug) if each.slug in _TITLES else len(_TITLES))
)


def find_store(slug: str) -> Store:
    """Raises `NotFound`."""
    for each in STORES:
        if each.slug == slug:
            return each
    raise NotFound("No such store")


def store_of(profile_type: object, credential_type: object) -> Store | None:
    """Return the store of a request, by the types of its profile and credential; None for unknown ones."""
    name = ALIASES.get(profile_type, profile_type) if isinstance(profile_type, str) else None
    for each in STORES:
        if literal_value(each.profile, "type") == name and (
            not credential_type or credential_type in each.credential_types
        ):
            return each
    return None


@cache
def profile_fields(shape: type[Profile]) -> tuple[StorageField, ...]:
    """Return the fields of a profile: required ones first, then those of `_COMMON`, then the others."""
    found = list(_fields(shape, PROFILE, set(shape.immutable), ("type",)))
    order = list(_COMMON)
    return tuple(
        sorted(
            found,
            key=lambda each: (
                not each.is_required,
                order.index(each.member) if each.is_common and each.member in _COMMON else len(order),
            ),
        )
    )


@cache
def credential_fields(shape: type[Credential]) -> tuple[StorageField, ...]:
    return tuple(_fields(shape, CREDENTIAL, set(), ("type", "credential_type")))


def uses_system_identity(shape: type[Credential] | None) -> bool:
    return shape is not None and issubclass(shape, SystemIdentity)


def _fields(
    shape: type[StorageDocument], prefix: str, fixed: set[str], excluded: Sequence[str]
) -> Iterable[StorageField]:
    for name, info in shape.model_fields.items():
        if name in excluded:
            continue
        member = info.alias or name
        path = f"{prefix}.{member}"
        types = _types(info.annotation)
        if _is_union_of_documents(types):
            yield from _union(path, types, info, is_fixed=name in fixed)
            continue
        aliases = tuple(old for old, new in shape.aliases.items() if new == member)
        is_common = info.is_required() or member in _COMMON or prefix != PROFILE
        yield _field(path, types, info, is_common=is_common, is_fixed=name in fixed, aliases=aliases)


def _union(path: str, types: Sequence[Any], info: FieldInfo, *, is_fixed: bool) -> Iterable[StorageField]:
    """Return a choice of the variants of a member, and the fields of each; nothing if there is only one variant."""
    variants = [literal_value(each, "type") for each in types]
    if len(variants) == 1:
        return
    label = _LABELS.get(path.rpartition(".")[2]) or _label(path)
    yield StorageField(
        f"{path}.type",
        Kind.CHOICE,
        label,
        info.description or "",
        is_common=False,
        is_fixed=is_fixed,
        choices=tuple(variants),
    )
    inner: dict[str, list[str]] = {}
    shapes: dict[str, FieldInfo] = {}
    for variant, shape in zip(variants, types, strict=True):
        for name, each in shape.model_fields.items():
            if name != "type":
                inner.setdefault(name, []).append(variant)
                shapes[name] = each
    for name, where in inner.items():
        member = shapes[name].alias or name
        yield StorageField(
            f"{path}.{member}",
            Kind.TEXT,
            _LABELS.get(f"{path.rpartition('.')[2]}.{member}") or _label(member),
            shapes[name].description or "",
            is_common=False,
            is_fixed=is_fixed,
            variants=tuple(where),
        )


def _field(path: str, types: Sequence[Any], info: FieldInfo, **more: Any) -> StorageField:
    kind, choices = _kind_of(types, info)
    member = path.rpartition(".")[2]
    bounds = [*info.metadata]
    lowest = [each.ge for each in bounds if getattr(each, "ge", None) is not None]
    highest = [each.le for each in bounds if getattr(each, "le", None) is not None]
    return StorageField(
        path,
        kind,
        _LABELS.get(member) or _label(member),
        info.description or "",
        is_required=info.is_required(),
        default=None if info.is_required() else _plain(info.default),
        choices=choices,
        minimum=max(lowest, default=None),
        maximum=min(highest, default=None),
        **more,
    )


def _kind_of(types: Sequence[Any], info: FieldInfo) -> tuple[Kind, tuple[str, ...]]:  # noqa: PLR0911 - one a kind
    (first, *others) = types
    if get_origin(first) is Literal:
        return Kind.CHOICE, tuple(str(each) for each in get_args(first))
    if first is bool:
        return (Kind.MAYBE if NoneType in others else Kind.FLAG), ()
    if first is int:
        return Kind.NUMBER, ()
    if first is SecretStr:
        is_identifier = any(isinstance(each, Identifier) for each in info.metadata)
        return (Kind.IDENTIFIER if is_identifier else Kind.SECRET), ()
    if isinstance(first, type) and issubclass(first, StorageDocument):
        return Kind.FILE, ()
    if get_origin(first) is dict:
        return Kind.PAIRS, ()
    return Kind.TEXT, ()


def _types(annotation: Any) -> list[Any]:
    """Return the types of an annotation, without `Annotated`, None last."""
    if get_origin(annotation) is Annotated:
        return _types(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        found = [kind for each in get_args(annotation) for kind in _types(each)]
        return sorted(found, key=lambda each: each is NoneType)
    return [annotation]


def _is_union_of_documents(types: list[Any]) -> bool:
    documents = [each for each in types if isinstance(each, type) and issubclass(each, StorageDocument)]
    if NoneType in types:
        types.remove(NoneType)
        if not documents:
            types.append(NoneType)
    return bool(documents) and all(get_origin(each.model_fields["type"].annotation) is Literal for each in documents)


def _plain(default: Any) -> Any:
    return None if isinstance(default, StorageDocument) or default == {} else default


def _label(member: str) -> str:
    words = [_ACRONYMS.get(word, word) for word in member.rpartition(".")[2].replace("_", "-").split("-")]
    return f"{words[0][:1].upper()}{words[0][1:]}" + "".join(f" {word}" for word in words[1:])


_ACRONYMS: Final = {
    "arn": "ARN", "aws": "AWS", "id": "id", "kms": "KMS", "md5": "MD5", "s3": "S3", "sas": "SAS", "sts": "STS",
    "uri": "URI", "url": "URL", "urn": "URN", "uuid": "UUID",
}  # fmt: skip

_LABELS: Final[dict[str, Text]] = {
    "key-prefix": _("Prefix"),
    "filesystem": _("Container"),
    "flavor": _("Kind of store"),
    "path-style-access": _("Path-style URLs"),
    "sts-enabled": _("Vend temporary credentials to clients"),
    "sas-enabled": _("Vend temporary credentials to clients"),
    "remote-signing-enabled": _("Sign requests of clients"),
    "assume-role-arn": _("Role of the server"),
    "sts-role-arn": _("Role for engines"),
    "sts-endpoint": _("Endpoint of STS"),
    "sts-token-validity-seconds": _("Lifetime of vended credentials, in seconds"),
    "sas-token-validity-seconds": _("Lifetime of vended credentials, in seconds"),
    "sts-session-tags": _("Session tags"),
    "remote-signing-url-style": _("URL style of signed requests"),
    "allow-alternative-protocols": _("Accept other schemes in locations"),
    "push-s3-delete-disabled": _("Clients do not delete files"),
    "aws-kms-key-arn": _("KMS key"),
    "legacy-md5-behavior": _("Send Content-MD5"),
    "storage-layout": _("Folders of new tables"),
    "storage-layout.namespace": _("Folder of a namespace"),
    "storage-layout.tabular": _("Folder of a table"),
    "endpoint-mode": _("Endpoint"),
    "endpoint-mode.region": _("Region of the endpoint"),
    "directory-rel-path": _("Folder"),
    "credentials-group-urn": _("Credentials group of vended credentials"),
    "verify-metadata-on-load": _("Check that metadata files exist"),
    "allow-non-empty-locations": _("Allow tables at locations with files"),
    "key": _("Key"),
}

_COMMON: Final = (
    "bucket", "key-prefix", "region", "endpoint", "flavor", "path-style-access", "directory-rel-path",
    "top-level-folder", "sts-enabled", "sas-enabled", "credentials-group-urn", "sts-role-arn", "assume-role-arn",
)  # fmt: skip
"""Optional members that are always shown; the others are in a closed section."""
